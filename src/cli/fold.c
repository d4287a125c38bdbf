/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fold.h"

#include <errno.h>
#include <string.h>

#include "symbols/kinds.h"

int fold_parse(const char *text, unsigned *ret_kinds, struct tm_error *err)
{
	const unsigned noise = 1u << KIND_ALLOCATOR | 1u << KIND_STANDARD | 1u << KIND_RUNTIME;
	unsigned kinds = 0;
	const char *at = text;
	while (*at) {
		size_t bytes = strcspn(at, ",");
		enum frame_kind kind = kinds_find(at, bytes);
		if (bytes == 5 && !strncmp(at, "noise", 5))
			kinds |= noise;
		else if (kind != KIND_UNKNOWN)
			kinds |= 1u << kind;
		else
			return tm_fail(
				err, -EINVAL,
				"'--fold' takes kinds of frames (allocator, standard, runtime, "
				"library, application), or noise for the first three, not "
				"'%.60s'",
				text);
		at += bytes + (at[bytes] == ',');
	}
	*ret_kinds = kinds;
	return 0;
}
