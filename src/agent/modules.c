/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rescan goes through these stages; the lock covers all of them:
 *
 *   walk      copy the loader's list                       modules_walk.c
 *   read      the facts of each object, sorted by address  modules_scan.c
 *   walk      again: the same list, or "busy"
 *   identify  instance ids                                 modules_instance.c
 *   tell      events for what went and what came
 *   publish   the snapshot for readers                     modules_snapshot.c
 *
 * The thread may leave at any point and never come back (siglongjmp out of a
 * signal handler; then modules_break_lock() is called): so what was gathered is
 * put in place by single stores, and a rescan trusts nothing of the one before
 * it but `listing` and `walked`.
 */
#include "agent/modules.h"

#include <stdatomic.h>

#include "agent/modules_instance.h"
#include "agent/modules_listing.h"
#include "agent/modules_snapshot.h"

enum {
	CAPACITY_FIRST = 128,
	LOCK_SPINS = 200,
	LOCK_SPINS_LONG = 5000, /* about as long as a rescan */
	PLACE_READS_MAX = 4,
};

struct modules {
	_Atomic uint32_t owner; /* tid of the thread that rescans, 0: none */
	_Atomic uint32_t generation;
	struct snapshots snapshots; /* what readers see */
	/* Below: only under the lock. */
	module_map_fn map;
	module_event_fn event;
	void *ctx;
	struct instances *instances;
	struct scan_list walks[3]; /* last accepted, in work, sorted or second */
	struct listing listings[2];
	uint32_t walked;     /* index of the last accepted of walks[0..1] */
	uint32_t listing;    /* index of the present one of listings */
	struct module found; /* room for modules_rescan_at() */
	struct scan scan;
};

static bool lock(struct modules *modules, uint32_t tid, unsigned spins)
{
	for (unsigned i = 0; i < spins; i++) {
		uint32_t owner = 0;
		/* Pairs with the release in unlock() and modules_break_lock(). */
		if (atomic_compare_exchange_strong_explicit(&modules->owner, &owner, tid,
							    memory_order_acquire,
							    memory_order_relaxed))
			return true;
		if (owner == tid)
			return false;
		__builtin_ia32_pause();
	}
	return false;
}

void modules_break_lock(struct modules *modules, uint32_t tid)
{
	/* Pairs with the acquire in lock(). */
	atomic_compare_exchange_strong_explicit(&modules->owner, &tid, 0, memory_order_release,
						memory_order_relaxed);
}

uint32_t modules_lock_owner(const struct modules *modules)
{
	return atomic_load_explicit(&modules->owner, memory_order_relaxed);
}

static bool grow_walks(struct modules *modules)
{
	uint32_t capacity =
		modules->walks[0].capacity ? modules->walks[0].capacity * 2 : CAPACITY_FIRST;
	size_t bytes = capacity * sizeof(struct scan_entry);
	struct scan_entry *entries = modules->map(modules->ctx, 3 * bytes);

	if (!entries)
		return false;
	for (unsigned i = 0; i < 3; i++)
		modules->walks[i] =
			(struct scan_list){.entries = entries + i * capacity, .capacity = capacity};
	return true;
}

struct modules *modules_new(const struct modules_options *options)
{
	struct modules *modules = options->map(options->ctx, sizeof *modules);

	if (!modules)
		return NULL;
	modules->map = options->map;
	modules->event = options->event;
	modules->ctx = options->ctx;
	for (unsigned i = 0; i < 2; i++)
		modules->listings[i] = (struct listing){.map = options->map, .ctx = options->ctx};
	modules->instances = instances_new(options->map, options->ctx);
	if (!modules->instances || !grow_walks(modules))
		return NULL;
	scan_init(&modules->scan, options);
	return modules;
}

/* Give each object its instance; what is loaded as before keeps its own. */
static void identify(struct modules *modules, const struct listing *old, struct listing *fresh)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < fresh->count; i++) {
		struct module *module = &fresh->modules[i];
		const struct module *before = listing_seek(old, &at, module->start);
		if (before && listing_same_object(before, module))
			module->instance = before->instance;
		else
			module->instance = instances_take(modules->instances, module);
	}
}

/* Events for the objects of `from` that are not in `other`. Returns their number. */
static uint32_t tell(struct modules *modules, const struct listing *from,
		     const struct listing *other, bool mapped)
{
	uint32_t told = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < from->count; i++) {
		const struct module *module = &from->modules[i];
		const struct module *there = listing_seek(other, &at, module->start);
		if (there && listing_same_object(there, module))
			continue;
		told++;
		if (modules->event)
			modules->event(modules->ctx, module, mapped);
	}
	return told;
}

static bool publish(struct modules *modules, const struct listing *fresh)
{
	struct snapshot *snapshot =
		snapshots_begin(&modules->snapshots, fresh->count, modules->map, modules->ctx);

	if (!snapshot)
		return false;
	for (uint32_t i = 0; i < fresh->count; i++) {
		const struct module *module = &fresh->modules[i];
		struct module_code code = {
			.instance = module->instance,
			.flags = module->flags,
			.start = module->start,
			.end = module->end,
			.cfi = module->cfi,
		};
		snapshots_put(snapshot, i, &code);
	}
	snapshots_publish(&modules->snapshots, snapshot, fresh->count);
	return true;
}

/* Walk into list, growing all lists as needed. */
static enum modules_result walk(struct modules *modules, unsigned index, bool may_grow)
{
	for (;;) {
		switch (scan_walk(&modules->scan, &modules->walks[index])) {
		case SCAN_OK:
			return MODULES_SAME;
		case SCAN_BUSY:
			return MODULES_BUSY;
		case SCAN_FULL:
			if (!may_grow)
				return MODULES_BUSY;
			if (!grow_walks(modules))
				return MODULES_FAILED;
		}
	}
}

/* The listing `fresh` is complete: tell, publish, make it the present one. */
static enum modules_result accept(struct modules *modules, const struct listing *old,
				  struct listing *fresh)
{
	identify(modules, old, fresh);
	uint32_t gone = tell(modules, old, fresh, false);
	uint32_t come = tell(modules, fresh, old, true);

	if (gone + come && !publish(modules, fresh))
		return MODULES_FAILED;
	modules->listing = (uint32_t)(fresh - modules->listings);
	/* After the snapshot: who sees the new generation sees the new list, too.
	 * Pairs with the acquire in modules_generation(). */
	if (gone)
		atomic_fetch_add_explicit(&modules->generation, 1, memory_order_release);
	return gone + come ? MODULES_CHANGED : MODULES_SAME;
}

static enum modules_result rescan(struct modules *modules, bool thorough)
{
	const struct listing *old = &modules->listings[modules->listing];
	struct listing *fresh = &modules->listings[!modules->listing];
	enum modules_result result = walk(modules, !modules->walked, true);

	if (result != MODULES_SAME)
		return result;
	/* Only now: growing replaces the lists. */
	struct scan_list *present = &modules->walks[!modules->walked];
	struct scan_list *spare = &modules->walks[2];
	if (!thorough && scan_same(present, &modules->walks[modules->walked]))
		return MODULES_SAME;

	__builtin_memcpy(spare->entries, present->entries,
			 present->count * sizeof present->entries[0]);
	spare->count = present->count;
	scan_sort(spare);
	if (!listing_read(fresh, &modules->scan, spare, old))
		return MODULES_FAILED;
	result = walk(modules, 2, false);
	if (result != MODULES_SAME || !scan_same(present, spare))
		return MODULES_BUSY;
	result = accept(modules, old, fresh);
	if (result != MODULES_FAILED)
		modules->walked = !modules->walked;
	return result;
}

enum modules_result modules_rescan(struct modules *modules, uint32_t tid, bool thorough)
{
	if (!lock(modules, tid, LOCK_SPINS))
		return MODULES_BUSY;
	enum modules_result result = rescan(modules, thorough);
	modules_break_lock(modules, tid);
	return result;
}

/* The object that holds pc, read from a list that may be changing. False: none is found. */
static bool read_place(struct modules *modules, uintptr_t pc, struct module *ret)
{
	for (unsigned i = 0; i < PLACE_READS_MAX; i++) {
		struct scan_entry near[2];
		unsigned count = scan_near(&modules->scan, pc, near);
		while (count--)
			if (scan_read(&modules->scan, &near[count], 0, ret) && pc >= ret->start &&
			    pc < ret->end)
				return true;
	}
	return false;
}

static enum modules_result rescan_at(struct modules *modules, uintptr_t pc)
{
	const struct listing *old = &modules->listings[modules->listing];
	struct listing *fresh = &modules->listings[!modules->listing];
	struct module *found = &modules->found;
	uint32_t at = 0;

	if (!read_place(modules, pc, found))
		return rescan(modules, true);
	const struct module *before = listing_seek(old, &at, found->start);
	if (before && listing_same_object(before, found))
		return MODULES_SAME;
	if (!listing_merge(fresh, old, found))
		return MODULES_FAILED;
	/* The list as a whole is not known any more. */
	modules->walks[modules->walked].count = 0;
	return accept(modules, old, fresh);
}

enum modules_result modules_rescan_at(struct modules *modules, uint32_t tid, uintptr_t pc)
{
	if (!lock(modules, tid, LOCK_SPINS_LONG))
		return MODULES_BUSY;
	enum modules_result result = rescan_at(modules, pc);
	modules_break_lock(modules, tid);
	return result;
}

enum modules_result modules_visit(struct modules *modules, uint32_t tid, module_event_fn visit,
				  void *ctx)
{
	if (!lock(modules, tid, LOCK_SPINS))
		return MODULES_BUSY;
	const struct listing *listing = &modules->listings[modules->listing];
	for (uint32_t i = 0; i < listing->count; i++)
		visit(ctx, &listing->modules[i], true);
	modules_break_lock(modules, tid);
	return MODULES_SAME;
}

bool modules_find(const struct modules *modules, uintptr_t pc, struct module_code *ret)
{
	return snapshots_find(&modules->snapshots, pc, ret);
}

bool modules_at(const struct modules *modules, uint32_t index, struct module_code *ret)
{
	return snapshots_at(&modules->snapshots, index, ret);
}

uint32_t modules_count(const struct modules *modules)
{
	return snapshots_count(&modules->snapshots);
}

uint32_t modules_generation(const struct modules *modules)
{
	/* Pairs with the release in accept(). */
	return atomic_load_explicit(&modules->generation, memory_order_acquire);
}
