/* SPDX-License-Identifier: Apache-2.0 */
/* Where in a process an island may lie: not where the heap or the stack will grow to. */
#pragma once

#include "inject/patch.h"
#include "inject/proc.h"

struct patch_room {
	struct patch_range *taken; /* sorted */
	size_t count, space;
};

/* program: an address in the program's own code; the heap begins behind it. */
TM_MUST_CHECK int patch_room_init(struct patch_room *room, const struct proc_maps *maps,
				  uint64_t program);
void patch_room_done(struct patch_room *room);

/* A place for the plan's island, which is taken from now on; 0: none. */
uint64_t patch_room_take(struct patch_room *room, const struct plan *plan);
