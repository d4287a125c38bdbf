/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/modules_snapshot.h"

enum { CAPACITY_FIRST = 128, READS_MAX = 64 };

struct snapshot *snapshots_begin(struct snapshots *snapshots, uint32_t count, module_map_fn map,
				 void *ctx)
{
	struct snapshot *current = atomic_load_explicit(&snapshots->current, memory_order_relaxed);
	unsigned spare = current && current == snapshots->buffers[0];
	struct snapshot *snapshot = snapshots->buffers[spare];

	if (!snapshot || snapshot->capacity < count) {
		uint32_t capacity = snapshot ? snapshot->capacity : CAPACITY_FIRST;
		while (capacity < count)
			capacity *= 2;
		snapshot = map(ctx, sizeof *snapshot +
					    (size_t)capacity * SNAPSHOT_WORDS * sizeof(uint64_t));
		if (!snapshot)
			return NULL;
		snapshot->capacity = capacity;
		snapshots->buffers[spare] = snapshot;
	}
	/* Odd, also if a writer left it so. */
	uint32_t sequence = atomic_load_explicit(&snapshot->sequence, memory_order_relaxed);
	atomic_store_explicit(&snapshot->sequence, sequence + 1 + (sequence & 1),
			      memory_order_relaxed);
	return snapshot;
}

void snapshots_put(struct snapshot *snapshot, uint32_t index, const struct module_code *code)
{
	uint64_t words[SNAPSHOT_WORDS];

	__builtin_memcpy(words, code, sizeof words);
	/* Release, so that who reads one of them also sees the odd sequence number.
	 * Pairs with the acquire in word(). */
	for (unsigned i = 0; i < SNAPSHOT_WORDS; i++)
		atomic_store_explicit(&snapshot->words[(size_t)index * SNAPSHOT_WORDS + i],
				      words[i], memory_order_release);
}

void snapshots_publish(struct snapshots *snapshots, struct snapshot *snapshot, uint32_t count)
{
	uint32_t sequence = atomic_load_explicit(&snapshot->sequence, memory_order_relaxed);

	/* Pairs with the acquire in count_of(). */
	atomic_store_explicit(&snapshot->count, count, memory_order_release);
	/* Pairs with the acquire of sequence in open_current(). */
	atomic_store_explicit(&snapshot->sequence, sequence + 1, memory_order_release);
	/* Pairs with the acquire of current in open_current(). */
	atomic_store_explicit(&snapshots->current, snapshot, memory_order_release);
}

/* The current snapshot and its sequence number, odd if it is being refilled; NULL: none yet. */
static const struct snapshot *open_current(const struct snapshots *snapshots,
					   uint32_t *ret_sequence)
{
	const struct snapshot *snapshot =
		atomic_load_explicit(&snapshots->current, memory_order_acquire);

	if (snapshot)
		*ret_sequence = atomic_load_explicit(&snapshot->sequence, memory_order_acquire);
	return snapshot;
}

/* Was all that was read since open_current() of one filling? */
static bool unchanged(const struct snapshot *snapshot, uint32_t sequence)
{
	return !(sequence & 1) &&
	       atomic_load_explicit(&snapshot->sequence, memory_order_relaxed) == sequence;
}

static uint64_t word(const struct snapshot *snapshot, uint32_t index, unsigned which)
{
	/* Pairs with the release in snapshots_put(). */
	return atomic_load_explicit(&snapshot->words[(size_t)index * SNAPSHOT_WORDS + which],
				    memory_order_acquire);
}

static void copy(const struct snapshot *snapshot, uint32_t index, struct module_code *ret)
{
	uint64_t words[SNAPSHOT_WORDS];

	for (unsigned i = 0; i < SNAPSHOT_WORDS; i++)
		words[i] = word(snapshot, index, i);
	__builtin_memcpy(ret, words, sizeof words);
}

/* capacity never changes once a snapshot is published, so a torn count does no harm. */
static uint32_t count_of(const struct snapshot *snapshot)
{
	/* Pairs with the release in snapshots_publish(). */
	uint32_t count = atomic_load_explicit(&snapshot->count, memory_order_acquire);
	return count < snapshot->capacity ? count : snapshot->capacity;
}

static bool search(const struct snapshot *snapshot, uintptr_t pc, struct module_code *ret)
{
	uint32_t low = 0;
	uint32_t high = count_of(snapshot); /* the answer is before high */

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (word(snapshot, middle, 1) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || pc >= word(snapshot, low - 1, 2))
		return false;
	copy(snapshot, low - 1, ret);
	return true;
}

bool snapshots_find(const struct snapshots *snapshots, uintptr_t pc, struct module_code *ret)
{
	for (unsigned i = 0; i < READS_MAX; i++) {
		uint32_t sequence;
		struct module_code code;
		const struct snapshot *snapshot = open_current(snapshots, &sequence);
		if (!snapshot)
			return false;
		bool found = search(snapshot, pc, &code);
		if (!unchanged(snapshot, sequence))
			continue;
		if (found)
			*ret = code;
		return found;
	}
	return false;
}

bool snapshots_at(const struct snapshots *snapshots, uint32_t index, struct module_code *ret)
{
	for (unsigned i = 0; i < READS_MAX; i++) {
		uint32_t sequence;
		struct module_code code;
		const struct snapshot *snapshot = open_current(snapshots, &sequence);
		if (!snapshot)
			return false;
		bool found = index < count_of(snapshot);
		if (found)
			copy(snapshot, index, &code);
		if (!unchanged(snapshot, sequence))
			continue;
		if (found)
			*ret = code;
		return found;
	}
	return false;
}

uint32_t snapshots_count(const struct snapshots *snapshots)
{
	uint32_t sequence;
	const struct snapshot *snapshot = open_current(snapshots, &sequence);
	return snapshot ? count_of(snapshot) : 0;
}
