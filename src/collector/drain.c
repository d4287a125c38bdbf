/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drain loop: snapshot, merge, give back, sleep. Nothing in it may block:
 * the target waits for this thread when the pool is empty.
 */
#include "collector/section_state.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	/*
	 * An event is on its way to the file within 100 ms: it is seen by one pass, released by the
	 * next, and goes to the journal at a tick. These add up to 56 ms at most; what is left is
	 * for a machine without an idle core.
	 */
	TICK_NS = 20 * 1000 * 1000,
	SLEEP_MAX_NS = 30 * 1000 * 1000,
	SLEEP_SEEN_NS = 13 * 1000 * 1000, /* something was seen and not released */
	SLEEP_LEAST_NS = 200 * 1000,
	LAST_PASSES_MAX = 64, /* after the end: more come only if somebody plays with the memory */
	STOP_GRACE_NS = 20 * 1000 * 1000,
	LATE_NS = 20 * 1000 * 1000,    /* behind time: the processor is somebody else's */
	PASS_NS = 30 * 1000 * 1000,    /* a pass is late that takes longer */
	HURRY_NS = 1000 * 1000 * 1000, /* after a pass that found too much */
	APART_WORDS = 4096,         /* a pass that releases so much is worth a thread of its own */
	BUSY_NS = 45 * 1000 * 1000, /* between two looks at how much of the time passes take */
	BUSY_PERCENT = 60,          /* of it: more is too much to give way */
};

/* A handler lane belongs to the thread it interrupted. */
static void stream_began(void *ctx, struct cursor *cursor)
{
	struct section *section = ctx;
	struct cursors *cursors = &section->cursors;
	for (uint32_t i = 0; cursor->lane && i < cursors->followed_count; i++) {
		struct cursor *other = &cursors->all[cursors->followed[i]];
		if (other != cursor && other->tid == cursor->tid && !other->lane) {
			cursor->thread_id = other->thread_id;
			return;
		}
	}
	/*
	 * What was inherited stands under the first thread: the one that came out of the fork. And
	 * when a program makes threads that share a thread pointer, its first one begins anew.
	 */
	const struct trace_thread *first = section->feed.threads;
	if (section->feed.thread_count && cursor->tid == first->tid &&
	    (section->inherited || first->end_ns == UINT64_MAX)) {
		cursor->thread_id = 0;
		return;
	}
	cursor->thread_id = feed_thread(&section->feed, cursor->tid, section->feed.last_ns);
}

static void thread_ended(void *ctx, struct cursor *cursor)
{
	struct section *section = ctx;
	feed_thread_end(&section->feed, cursor->thread_id, section->feed.last_ns);
}

static void name_thread(struct section *section, const struct watch_note *note)
{
	struct cursors *cursors = &section->cursors;
	for (uint32_t i = 0; i < cursors->followed_count; i++) {
		struct cursor *cursor = &cursors->all[cursors->followed[i]];
		if (cursor->tid == note->tid && !cursor->gone)
			feed_thread_name(&section->feed, cursor->thread_id, note->name);
	}
}

void section_read_notes(struct section *section)
{
	struct watch_note note;
	while (section->watch && watch_take(section->watch, &note)) {
		switch (note.kind) {
		case WATCH_SAMPLE:
			feed_sample(&section->feed, &note.sample);
			break;
		case WATCH_THREAD_NAME:
			name_thread(section, &note);
			break;
		case WATCH_MEMORY:
			section_mind_memory(section, &note);
			break;
		}
	}
}

/* Chunks are short: ask idle threads for theirs, and have it checked who is gone. */
static void make_chunks(struct section *section)
{
	const struct wire_map *map = &section->shm.map;
	uint32_t free_chunks = atomic_load_explicit(&map->control->pool_free, memory_order_relaxed);
	if (free_chunks > map->chunk_count / 8)
		return;
	if (section->watch)
		watch_hurry(section->watch);
	cursors_revoke_idle(&section->cursors);
}

static bool all_read(const struct section *section)
{
	for (uint32_t i = 0; i < section->cursors.followed_count; i++) {
		const struct cursor *cursor = &section->cursors.all[section->cursors.followed[i]];
		if (cursor->second_words)
			return false;
	}
	return true;
}

/* A share of the pool that may be filled while we sleep. */
static uint64_t room_to_sleep(const struct section *section)
{
	return (uint64_t)section->shm.map.chunk_count / 8 * WIRE_CHUNK_WORDS;
}

/* More than we would sleep for: the program fills the pool faster than it is emptied. */
static void mind_hurry(struct section *section, uint64_t words, uint64_t now_ns)
{
	if (words > room_to_sleep(section))
		section->hurry_until_ns = now_ns + HURRY_NS;
	trace_writer_hurry(section->feed.writer, now_ns < section->hurry_until_ns);
}

/*
 * How long to sleep: while the pool would fill by a quarter at the rate of the
 * last pass; longer and longer when nothing comes. A waiter wakes us.
 */
static uint64_t choose_sleep(struct section *section, uint64_t words, uint64_t now_ns)
{
	uint64_t room = room_to_sleep(section);
	uint64_t passed = now_ns - section->last_pass_ns + 1;
	uint64_t sleep_ns = section->sleep_ns * 2;
	if (words) {
		uint64_t fill_ns = (uint64_t)((double)room * (double)passed / (double)words);
		sleep_ns = fill_ns > passed ? fill_ns - passed : 0;
		if (sleep_ns > section->sleep_ns * 2)
			sleep_ns = section->sleep_ns * 2;
	}
	if (sleep_ns < SLEEP_LEAST_NS)
		sleep_ns = SLEEP_LEAST_NS;
	uint64_t most_ns = all_read(section) ? SLEEP_MAX_NS : SLEEP_SEEN_NS;
	return sleep_ns < most_ns ? sleep_ns : most_ns;
}

static void sleep_until_woken(struct section *section, uint64_t sleep_ns)
{
	struct wire_control *control = section->shm.map.control;
	struct timespec length = {.tv_sec = (time_t)(sleep_ns / 1000000000u),
				  .tv_nsec = (long)(sleep_ns % 1000000000u)};
	atomic_store(&control->asleep, 1);
	/* After the store: who waits or ends from here on finds asleep == 1 and wakes us. */
	bool awaited = atomic_load(&control->pool_waiters) && !atomic_load(&control->pool_free);
	if (!atomic_load(&section->ending) && !awaited)
		syscall(SYS_futex, &control->asleep, FUTEX_WAIT, 1, &length, NULL, 0);
	atomic_store(&control->asleep, 0);
}

/* One pass. Returns the words that were released. */
static uint64_t pass(struct section *section)
{
	struct wire_control *control = section->shm.map.control;
	uint64_t began_ns = clock_thread_ns();
	atomic_fetch_add_explicit(&control->progress, 1, memory_order_relaxed);
	stamp_clock_update(&section->feed.clock);
	uint64_t words = cursors_snapshot(&section->cursors, stream_began, section);
	merge_release(&section->merge, words);
	cursors_sweep(&section->cursors, thread_ended, section);
	section->busy_ns += clock_thread_ns() - began_ns;
	return words;
}

struct pass {
	struct section *section;
	pthread_t drain;
	uint64_t words;
};

static void pass_apart(void *ctx)
{
	struct pass *done = ctx;
	done->words = pass(done->section);
	/* Where no other thread is to be had it is the drain thread, whose time is known. */
	if (!pthread_equal(pthread_self(), done->drain))
		done->section->apart_ns += clock_thread_ns();
}

/*
 * Giving way is for programs that need us less than they need the processor. One
 * that makes events nearly as fast as we read them will wait for us, and is then
 * woken on the processor that counts as free: ours.
 */
static void mind_busy(struct section *section, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - section->busy_since_ns;
	if (passed_ns < BUSY_NS)
		return;
	if (section->busy_ns > passed_ns / 100 * BUSY_PERCENT)
		giveway_hurry(section->options.giveway, &section->giveway);
	section->busy_since_ns = now_ns;
	section->busy_ns = 0;
}

/* As large as the last one was, so will this be. */
static uint64_t pass_like(struct section *section, uint64_t words)
{
	struct pass next = {.section = section, .drain = pthread_self()};
	if (words < APART_WORDS || !giveway_gives_way(&section->giveway))
		return pass(section);
	giveway_apart(&section->giveway, pass_apart, &next);
	return next.words;
}

void section_catch_up(struct section *section)
{
	for (int i = 0; i < 2 && !atomic_load(&section->ending); i++)
		pass(section);
}

/* Also of the images before: their names may still be coming. */
static void tick_names(struct section *section)
{
	for (struct section *one = section; one; one = one->before)
		if (one->names)
			names_tick(one->names, section->feed.writer);
}

static void drain(struct section *section)
{
	int last_passes = 0;
	uint64_t words = 0;
	for (;;) {
		/* Before the snapshot: what was published before the end is then in it. */
		bool ending = atomic_load_explicit(&section->ending, memory_order_acquire);
		if (ending && !last_passes && section->how.still_runs && !section->heir)
			nanosleep(&(struct timespec){.tv_nsec = STOP_GRACE_NS}, NULL);
		if (ending) /* somebody waits for it */
			giveway_leave(section->options.giveway, &section->giveway);
		words = ending ? pass(section) : pass_like(section, words);
		section_check_memory(section);
		section_fill_filter(section);
		if (section->names)
			names_modules(section->names);
		make_chunks(section);
		if (!ending)
			shm_make_ahead(&section->shm);
		uint64_t now_ns = clock_steady_ns();
		/* Two passes release what was there before; what comes after is the next piece's.
		 */
		if (ending && section->heir && ++last_passes == 2)
			return;
		if (ending && !section->heir &&
		    (all_read(section) || ++last_passes > LAST_PASSES_MAX))
			return;
		bool urgent = atomic_load_explicit(&section->urgent, memory_order_relaxed);
		if (urgent || now_ns >= section->next_tick_ns) {
			atomic_store(&section->urgent, false);
			section_read_notes(section);
			section_take_moments(section, false);
			section_mind_room(section);
			section_tell(section);
			section_look_at_cost(section, now_ns);
			feed_tick(&section->feed);
			tick_names(section);
			section->next_tick_ns = now_ns + TICK_NS;
		}
		if (ending)
			continue;
		mind_hurry(section, words, now_ns);
		mind_busy(section, now_ns);
		section->sleep_ns = choose_sleep(section, words, now_ns);
		section->last_pass_ns = now_ns;
		giveway_get_on(&section->giveway, now_ns + section->sleep_ns + LATE_NS);
		sleep_until_woken(section, section->sleep_ns);
		giveway_get_on(&section->giveway, clock_steady_ns() + PASS_NS);
	}
}

void section_drain(struct section *section)
{
	section->last_pass_ns = clock_steady_ns();
	giveway_join(section->options.giveway, &section->giveway,
		     trace_writer_worker(section->feed.writer), section->last_pass_ns + PASS_NS);
	/* Until it is known how much there is to do. */
	giveway_hurry(section->options.giveway, &section->giveway);
	section->busy_since_ns = section->last_pass_ns;
	drain(section);
	giveway_leave(section->options.giveway, &section->giveway);
}
