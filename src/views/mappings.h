/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the memory is that the program mapped itself: heaps of virtual machines
 * and languages that take theirs from the system (V8, Python's arenas, Nim, Java)
 * each as a category of its own, told by who called mmap.
 */
#pragma once

#include "views/views.h"

enum { VIEW_OWNERS = 8 };

struct view_mapping {
	const char *owner; /* static */
	uint64_t bytes;    /* at the end; what is mapped and may be used, no files */
	uint64_t peak_bytes;
	uint64_t at_peak_bytes; /* when all mapped memory was at its most */
	uint64_t calls;         /* of mmap */
};

/* Those that ever had any, the largest at the peak first. -ENOMEM. O(calls). */
TM_MUST_CHECK int view_mappings(const struct view_data *data, struct trace_reader *reader,
				struct view_mapping ret[VIEW_OWNERS], size_t *ret_count,
				struct tm_error *err);
