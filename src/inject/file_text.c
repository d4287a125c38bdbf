/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/file_text.h"

#include <string.h>

#include "base/io.h"

bool file_has_text(const struct file_stretch *stretch, const void *text, size_t text_bytes,
		   void *room)
{
	uint64_t at = stretch->offset, left = stretch->bytes;
	while (left >= text_bytes) {
		size_t part = left < FILE_TEXT_ROOM ? (size_t)left : FILE_TEXT_ROOM, got = 0;
		if (io_pread(stretch->fd, room, part, at, &got) || got < text_bytes)
			return false;
		if (memmem(room, got, text, text_bytes))
			return true;
		if (got < part)
			return false;
		/* What begins in this piece may end in the next. */
		at += got - text_bytes + 1;
		left -= got - text_bytes + 1;
	}
	return false;
}
