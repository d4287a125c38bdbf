/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as valgrind's tools write them: "0x4011A2: main (shop.c:12)", "0x4A3: ???
 * (in /usr/lib/libc.so.6)", "main (shop.c:12)", or anything else.
 */
#pragma once

#include "import/frames.h"

/* The frame of such a text. Borrows nothing. */
TM_MUST_CHECK int sites_frame(struct frames *frames, const char *text, size_t length,
			      uint32_t *ret_frame_id, struct tm_error *err);
