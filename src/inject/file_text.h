/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for a text in a file, without reading the file into memory. Thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Does a stretch of the file have these bytes? Stops at the file's end, or where
 * it cannot be read. `room` is 64 KiB of the caller's (FILE_TEXT_ROOM).
 */
enum { FILE_TEXT_ROOM = 1 << 16 };
struct file_stretch {
	int fd;
	uint64_t offset, bytes;
};
bool file_has_text(const struct file_stretch *stretch, const void *text, size_t text_bytes,
		   void *room);
