/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/paused.h"

#include <errno.h>

#include "base/hash.h"
#include "base/memory.h"

enum { SLOTS_FIRST = 1024 };

void paused_done(struct paused *paused)
{
	tm_free(paused->slots);
	*paused = (struct paused){0};
}

/* Where the address is, or the free slot where it belongs. */
static size_t seek(const struct paused *paused, uint64_t address)
{
	size_t at = hash_u64(address) & paused->mask;
	while (paused->slots[at].address && paused->slots[at].address != address)
		at = (at + 1) & paused->mask;
	return at;
}

static int grow(struct paused *paused)
{
	size_t count = paused->slots ? 2 * (paused->mask + 1) : SLOTS_FIRST;
	struct paused bigger = {.mask = count - 1};
	bigger.slots = tm_alloc_array(count, sizeof *bigger.slots);
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; paused->slots && i <= paused->mask; i++)
		if (paused->slots[i].address)
			bigger.slots[seek(&bigger, paused->slots[i].address)] = paused->slots[i];
	tm_free(paused->slots);
	paused->slots = bigger.slots;
	paused->mask = bigger.mask;
	return 0;
}

int paused_born(struct paused *paused, uint64_t address)
{
	paused->births++;
	if (!address || paused->count_only)
		return 0;
	if ((!paused->slots || paused->used * 4 > paused->mask * 3) && grow(paused))
		return -ENOMEM;
	struct paused_slot *slot = &paused->slots[seek(paused, address)];
	paused->used += !slot->address;
	slot->address = address;
	slot->count++;
	return 0;
}

/* What stands behind it moves up, so that no search ends too early. */
static void empty(struct paused *paused, size_t at)
{
	for (size_t next = (at + 1) & paused->mask; paused->slots[next].address;
	     next = (next + 1) & paused->mask) {
		size_t home = hash_u64(paused->slots[next].address) & paused->mask;
		if (((next - home) & paused->mask) < ((next - at) & paused->mask))
			continue;
		paused->slots[at] = paused->slots[next];
		at = next;
	}
	paused->slots[at] = (struct paused_slot){0};
	paused->used--;
}

bool paused_ended(struct paused *paused, uint64_t address)
{
	if (!paused->used || !address)
		return false;
	size_t at = seek(paused, address);
	if (!paused->slots[at].address)
		return false;
	if (--paused->slots[at].count == 0)
		empty(paused, at);
	paused->frees++;
	return true;
}
