/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When memory runs short: decides from figures alone, without looking anywhere.
 *
 * The program's control group comes near its limit: what holds the memory is to
 * be on the disk before the kernel strikes (`snapshot`). The recorder itself
 * comes near --max-memory, or its own control group near its limit: it is to
 * give something up (`shrink`), one step at a time. Steps that cost exactness
 * (`deep`) are taken only where the recorder's share is worth it.
 */
#pragma once

#include "collector/cgroup.h"

struct pressure {
	uint64_t max_bytes; /* of the recorder; 0: no limit of its own */
	/* Pressure's own; begins as zeros. */
	unsigned level; /* how many of the levels were passed since it was last well */
	uint64_t seen_hits, used_bytes, own_bytes, looked_ns, snapshot_ns, shrink_ns;
};

struct pressure_look {
	uint64_t now_ns;
	uint64_t own_bytes;           /* of the recorder and its helpers */
	struct cgroup_memory program; /* the program's group */
	struct cgroup_memory own;     /* the recorder's, often the same */
};

struct pressure_verdict {
	bool snapshot;
	bool shrink, deep;
	bool over;         /* --max-memory is reached: the next step need not wait for growth */
	uint64_t again_ns; /* look again after so long */
};

enum { PRESSURE_NEAR_PERCENT = 90 }; /* of a group's limit */

/* Is there any limit, of a control group or of our own? */
bool pressure_has_limit(const struct pressure *pressure, const struct pressure_look *look);
void pressure_judge(struct pressure *p, const struct pressure_look *look,
		    struct pressure_verdict *ret);
