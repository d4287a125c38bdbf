/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/watch.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/procfs.h"

enum {
	NOTE_COUNT = 256,
	FIRST_MS = 10,   /* between the first looks */
	EARLY_MS = 100,  /* at most, in the first seconds */
	LATER_MS = 1000, /* and after */
	EARLY_SHARE = 8, /* a pause is this part of the time so far */
	EARLY_END_MS = 3000,
	/* Of the time, smaps_rollup may take a 250th; a 50th where that makes it once a second. */
	ROLLUP_SHARE = 250,
	ROLLUP_SHARE_SECOND = 50,
};

struct watch {
	struct watch_options options;
	pthread_t thread;
	int hurry_fd;
	_Atomic bool stopping, hurried;
	struct lookout lookout;
	uint64_t start_ns;
	uint64_t samples; /* looks at the memory so far */
	uint64_t next_sample_ns;
	bool other_namespace;
	bool in_haste; /* it does not give way */
	uint64_t next_rollup_ns;
	uint64_t pss_bytes;   /* of the last rollup */
	pthread_mutex_t lock; /* for the ring below */
	uint32_t note_first, note_count;
	struct watch_note notes[NOTE_COUNT];
};

static void put_note(struct watch *watch, const struct watch_note *note)
{
	pthread_mutex_lock(&watch->lock);
	if (watch->note_count < NOTE_COUNT) {
		uint32_t at = (watch->note_first + watch->note_count++) % NOTE_COUNT;
		watch->notes[at] = *note;
	}
	pthread_mutex_unlock(&watch->lock);
}

bool watch_take(struct watch *watch, struct watch_note *ret_note)
{
	bool taken = false;
	if (pthread_mutex_trylock(&watch->lock))
		return false;
	if (watch->note_count) {
		*ret_note = watch->notes[watch->note_first];
		watch->note_first = (watch->note_first + 1) % NOTE_COUNT;
		watch->note_count--;
		taken = true;
	}
	pthread_mutex_unlock(&watch->lock);
	return taken;
}

/* What a short program holds at its end was seen shortly before, whenever that is. */
static uint64_t pause_ms(const struct watch *watch, uint64_t now_ns)
{
	uint64_t age_ms = (now_ns - watch->start_ns) / 1000000u;
	uint64_t pause = age_ms / EARLY_SHARE;
	if (age_ms >= EARLY_END_MS)
		return LATER_MS;
	return pause < FIRST_MS ? FIRST_MS : pause > EARLY_MS ? EARLY_MS : pause;
}

static uint64_t most_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* smaps_rollup holds the process's memory lock for milliseconds per GiB: not too often. */
static void look_at_rollup(struct watch *watch)
{
	uint64_t before = clock_steady_ns();
	if (before < watch->next_rollup_ns)
		return;
	struct procfs_memory rollup = {0};
	/* Who gives way must not hold a lock of the program. */
	if (!watch->in_haste)
		giveway_no_more(watch->options.giveway, watch->options.pair);
	watch->pss_bytes = procfs_rollup(watch->options.pid, &rollup) ? rollup.pss_bytes : 0;
	if (!watch->in_haste)
		giveway_also(watch->options.giveway, watch->options.pair);
	uint64_t cost = clock_steady_ns() - before;
	uint64_t pause = cost * ROLLUP_SHARE;
	if (pause > LATER_MS * 1000000ull)
		pause = most_of(cost * ROLLUP_SHARE_SECOND, LATER_MS * 1000000ull);
	watch->next_rollup_ns = before + most_of(pause, pause_ms(watch, before) * 1000000u);
}

static void look_at_memory(struct watch *watch)
{
	struct watch_note note = {.kind = WATCH_SAMPLE};
	struct trace_sample *sample = &note.sample;
	struct procfs_memory memory;
	if (!procfs_resident(watch->options.pid, &memory))
		return;
	look_at_rollup(watch);
	uint64_t now = clock_steady_ns();
	sample->time_ns = now > watch->options.origin_ns ? now - watch->options.origin_ns : 0;
	sample->rss_bytes = memory.rss_bytes;
	sample->pss_bytes = watch->pss_bytes;
	sample->anon_bytes = memory.anon_bytes;
	sample->agent_bytes = atomic_load_explicit(&watch->options.map->control->agent_bytes,
						   memory_order_relaxed);
	struct cgroup_memory group;
	cgroup_memory(watch->lookout.program, &group);
	sample->cgroup_bytes = group.current_bytes;
	sample->cgroup_limit_bytes = group.limit_bytes;
	put_note(watch, &note);
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

/*
 * Streams whose thread is no longer in /proc. The tids are read before /proc is:
 * a thread that starts in between is then not taken for dead.
 */
static void look_for_dead_threads(struct watch *watch)
{
	const struct wire_map *map = watch->options.map;
	uint32_t high = atomic_load_explicit(&map->control->streams_high, memory_order_acquire);
	high = high < map->stream_count ? high : map->stream_count;
	uint32_t *before = tm_alloc_array(high ? high : 1, sizeof *before);
	uint32_t *alive = NULL;
	size_t alive_count = 0;
	if (!before)
		return;
	for (uint32_t i = 0; i < high; i++)
		if (atomic_load_explicit(&map->streams[i].state, memory_order_acquire) ==
		    WIRE_STREAM_ACTIVE)
			before[i] =
				atomic_load_explicit(&map->streams[i].tid, memory_order_relaxed);
	if (!procfs_threads(watch->options.pid, watch->other_namespace, &alive, &alive_count)) {
		for (uint32_t i = 0; i < high; i++)
			if (before[i] &&
			    !bsearch(&before[i], alive, alive_count, sizeof *alive, compare_ids))
				atomic_store_explicit(&watch->options.dead[i], before[i],
						      memory_order_release);
	}
	tm_free(alive);
	tm_free(before);
}

static void look_at_names(struct watch *watch)
{
	uint32_t *tids = NULL;
	size_t count = 0;
	if (watch->other_namespace || procfs_threads(watch->options.pid, false, &tids, &count))
		return;
	for (size_t i = 0; i < count && i < NOTE_COUNT / 2; i++) {
		struct watch_note note = {.kind = WATCH_THREAD_NAME, .tid = tids[i]};
		if (procfs_thread_name(watch->options.pid, (pid_t)tids[i], note.name))
			put_note(watch, &note);
	}
	tm_free(tids);
}

/* Only ever set: the agent itself may have noticed before. */
static void look_at_seccomp(struct watch *watch)
{
	if (procfs_seccomp_added(watch->options.pid))
		atomic_store_explicit(&watch->options.map->control->seccomp, 1,
				      memory_order_relaxed);
}

/* Memory runs short: what is to be done is done by the drain thread, now. */
static void look_at_pressure(struct watch *watch, uint64_t now_ns)
{
	struct watch_note note = {.kind = WATCH_MEMORY};
	if (!lookout_check(&watch->lookout, now_ns, &note.verdict))
		return;
	struct wire_control *control = watch->options.map->control;
	note.look = watch->lookout.look;
	put_note(watch, &note);
	atomic_store(watch->options.urgent, true);
	giveway_hurry(watch->options.giveway, watch->options.pair);
	atomic_store(&control->asleep, 0);
	syscall(SYS_futex, &control->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	if (note.verdict.snapshot)
		look_at_memory(watch);
}

static void look_by_time(struct watch *watch, uint64_t now_ns)
{
	look_at_pressure(watch, now_ns);
	if (now_ns < watch->next_sample_ns)
		return;
	look_at_memory(watch);
	if (watch->samples % 10 == 5)
		look_at_names(watch);
	look_at_seccomp(watch);
	watch->next_sample_ns = now_ns + pause_ms(watch, now_ns) * 1000000u;
	watch->samples++;
}

/* Until something is due, the drain thread is in a hurry, or the kernel says that memory is short.
 */
static void wait_for_more(struct watch *watch)
{
	struct pollfd polls[LOOKOUT_ALARMS + 1];
	uint64_t count, now_ns = clock_steady_ns(), next_ns = watch->next_sample_ns;
	next_ns = watch->lookout.next_ns < next_ns ? watch->lookout.next_ns : next_ns;
	int wait_ms = next_ns > now_ns ? (int)((next_ns - now_ns) / 1000000u) + 1 : 1;
	lookout_polls(&watch->lookout, polls);
	struct pollfd *hurry = &polls[LOOKOUT_ALARMS];
	*hurry = (struct pollfd){.fd = watch->hurry_fd, .events = POLLIN};
	if (poll(polls, LOOKOUT_ALARMS + 1, wait_ms) <= 0)
		return;
	lookout_heard(&watch->lookout, polls);
	if (hurry->revents && read(watch->hurry_fd, &count, sizeof count) != sizeof count)
		return; /* somebody else was told */
}

/*
 * To look at a program takes its own processor from it, too. Only where there is a limit that may
 * be met at any moment it cannot be put off.
 */
static void mind_others(struct watch *watch)
{
	bool in_haste = lookout_has_limit(&watch->lookout);
	if (in_haste == watch->in_haste)
		return;
	watch->in_haste = in_haste;
	if (in_haste)
		giveway_no_more(watch->options.giveway, watch->options.pair);
	else
		giveway_also(watch->options.giveway, watch->options.pair);
}

static void *run(void *arg)
{
	struct watch *watch = arg;
	while (!atomic_load(&watch->stopping)) {
		uint64_t now_ns = clock_steady_ns();
		atomic_fetch_add_explicit(&watch->options.map->control->alive, 1,
					  memory_order_relaxed);
		if (atomic_exchange(&watch->hurried, false) || now_ns >= watch->next_sample_ns)
			look_for_dead_threads(watch);
		look_by_time(watch, now_ns);
		mind_others(watch);
		wait_for_more(watch);
	}
	if (!watch->in_haste)
		giveway_no_more(watch->options.giveway, watch->options.pair);
	return NULL;
}

int watch_start(const struct watch_options *options, struct watch **ret_watch, struct tm_error *err)
{
	struct watch *watch = tm_alloc(sizeof *watch);
	if (!watch)
		return tm_fail(err, -ENOMEM, "out of memory");
	watch->options = *options;
	watch->start_ns = clock_steady_ns();
	watch->in_haste = true;
	watch->hurry_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->other_namespace = procfs_other_namespace(options->pid);
	lookout_init(&watch->lookout,
		     &(struct lookout_options){.start = options->start,
					       .helper = options->helper,
					       .max_bytes = options->max_memory_bytes});
	pthread_mutex_init(&watch->lock, NULL);
	int error = watch->hurry_fd < 0 ? errno : pthread_create(&watch->thread, NULL, run, watch);
	if (error) {
		if (watch->hurry_fd >= 0)
			close(watch->hurry_fd);
		lookout_done(&watch->lookout);
		tm_free(watch);
		return tm_fail(err, -error, "cannot start a thread: %s", strerror(error));
	}
	*ret_watch = watch;
	return 0;
}

void watch_hurry(struct watch *watch)
{
	uint64_t one = 1;
	atomic_store(&watch->hurried, true);
	if (write(watch->hurry_fd, &one, sizeof one) != sizeof one)
		return; /* full: it is being told already */
}

uint64_t watch_oom_kills(struct watch *watch)
{
	return lookout_oom_kills(&watch->lookout);
}

struct watch *watch_stop(struct watch *watch)
{
	if (!watch)
		return NULL;
	atomic_store(&watch->stopping, true);
	watch_hurry(watch);
	pthread_join(watch->thread, NULL);
	close(watch->hurry_fd);
	lookout_done(&watch->lookout);
	pthread_mutex_destroy(&watch->lock);
	return tm_free(watch);
}
