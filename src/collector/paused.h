/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that were allocated in pauses and are not in the trace: by address, so
 * that their ends are known as such and not taken for those of blocks older
 * than the recording. One thread only.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct paused_slot {
	uint64_t address; /* 0: free */
	/* More than 1: the end of the first has not been looked at yet. */
	uint64_t count;
};

struct paused {
	struct paused_slot *slots;
	size_t mask, used; /* slots - 1; addresses in them */
	uint64_t births;   /* ever */
	uint64_t frees;    /* ever */
	bool count_only;   /* no memory for addresses: births are counted only */
};

void paused_done(struct paused *paused);
TM_MUST_CHECK int paused_born(struct paused *paused, uint64_t address);
/* A block that the recording does not know has ended: was it born in a pause? */
bool paused_ended(struct paused *paused, uint64_t address);
