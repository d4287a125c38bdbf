/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels: heaps with a name and what a thread worked for are frames of a stack,
 * at its leaf, whose module is no file: its path is "[heap] NAME" or "[tag]
 * KEY=VALUE". docs/trace-format.md says the same.
 */
#pragma once

#include <stddef.h>
#include <string.h>

enum trace_label { TRACE_LABEL_NONE = 0, TRACE_LABEL_HEAP, TRACE_LABEL_TAG };

/* What a module's path says; *ret_name (may be NULL) points into it. */
static inline enum trace_label trace_label_of(const char *path, const char **ret_name)
{
	static const char heap[] = "[heap] ", tag[] = "[tag] ";
	enum trace_label label = TRACE_LABEL_NONE;
	size_t skip = 0;
	if (path && !strncmp(path, heap, sizeof heap - 1)) {
		label = TRACE_LABEL_HEAP;
		skip = sizeof heap - 1;
	} else if (path && !strncmp(path, tag, sizeof tag - 1)) {
		label = TRACE_LABEL_TAG;
		skip = sizeof tag - 1;
	}
	if (label && ret_name)
		*ret_name = path + skip;
	return label;
}
