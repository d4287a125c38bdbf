/* SPDX-License-Identifier: Apache-2.0 */
/* Only the stacks that are used, with new ids in order of their first use. */
#pragma once

#include "trace/trace.h"

/* No process has so many; a file that says so is damaged. */
enum { RESTACK_MODULES_MAX = 1 << 20 };

struct restack {
	const struct trace_stack *old; /* [0] is the empty stack */
	size_t old_count;
	uint32_t *new_ids;          /* by old id; 0 = not used yet */
	struct trace_stack *stacks; /* [0] is new id 1 */
	size_t count, room, written;
	uint32_t *path; /* while one is looked up */
	size_t path_room;
};

/* 0 or -ENOMEM. */
TM_MUST_CHECK int restack_init(struct restack *restack, const struct trace_stack *old,
			       size_t old_count);
void restack_done(struct restack *restack);
/* Its new id. -ENOMEM; -EBADMSG if there is no such stack. O(frames) the first time. */
TM_MUST_CHECK int restack_id(struct restack *restack, uint32_t *id);
/* The event's stacks get their new ids. -ENOMEM, -EBADMSG. */
TM_MUST_CHECK int restack_event(struct restack *restack, struct trace_event *event);
/* Stacks that are new since the last call. */
TM_MUST_CHECK int restack_write(struct restack *restack, struct trace_writer *w);
/* Of these symbols (sorted as a reader gives them) those of the stacks in use. */
TM_MUST_CHECK int restack_symbols(const struct restack *restack, struct trace_writer *w,
				  const struct trace_symbol *symbols, size_t count);
