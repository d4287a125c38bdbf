/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling, while it is recorded: its interval changes because somebody asked
 * for it, because it costs too much, or because the program waits for us too long.
 *
 *   exact -> sampled   The filter must first know every block that was recorded.
 *                      State SAMPLED_ALL: allocations are sampled, every end is
 *                      told. Some passes later all that was told before is in the
 *                      model; its live blocks go into the filter; state SAMPLED.
 *                      A thread that told of a block as if all were recorded, and
 *                      finds the state changed, puts it into the filter itself.
 *   sampled -> exact   At once. Ends of blocks that were not sampled are left out.
 */
#include "collector/section_state.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum {
	FILL_PASSES = 4,
	OVERLOAD_LOG2 = 19, /* 512 KiB */
	SAMPLES_MIN = 100,  /* in a look: below, the cost is not that of sampling */
	PACE_LOG2_MAX = 26, /* 64 MiB: beyond, nothing would be seen */
};
#define LOOK_NS      1000000000ull
#define LOST_TELL_NS (10 * LOOK_NS)
#define CPU_MIN_NS   50000000ull
#define WAIT_MIN_NS  20000000.0 /* in a look: below, a share of little says nothing */

struct mode_lock *mode_lock_share(struct mode_lock *lock)
{
	if (!lock) {
		lock = tm_alloc(sizeof *lock);
		if (!lock)
			return NULL;
		pthread_mutex_init(&lock->mutex, NULL);
		lock->owners = 0;
	}
	pthread_mutex_lock(&lock->mutex);
	lock->owners++;
	pthread_mutex_unlock(&lock->mutex);
	return lock;
}

struct mode_lock *mode_lock_free(struct mode_lock *lock)
{
	if (!lock)
		return NULL;
	pthread_mutex_lock(&lock->mutex);
	bool has_owners = --lock->owners > 0;
	pthread_mutex_unlock(&lock->mutex);
	if (has_owners)
		return NULL;
	pthread_mutex_destroy(&lock->mutex);
	return tm_free(lock);
}

static bool is_sampled(const struct section *section)
{
	uint32_t state = atomic_load(&section->control->state);
	return state == WIRE_SAMPLED || state == WIRE_SAMPLED_ALL;
}

uint64_t section_sample_bytes(const struct section *section)
{
	const struct wire_control *control = section->control;
	if (is_sampled(section))
		return 1ull << (atomic_load(&control->sampling) & WIRE_SAMPLING_LOG2);
	bool waits = atomic_load(&control->state) == WIRE_IDLE && section->options.sample_log2;
	return waits ? 1ull << section->options.sample_log2 : 0;
}

enum { MODE_TEXT = 200 };

static void put_mode(char text[MODE_TEXT], uint64_t interval, const char *why)
{
	int used = interval
			   ? snprintf(text, MODE_TEXT, "sampled %llu", (unsigned long long)interval)
			   : snprintf(text, MODE_TEXT, "exact");
	if (*why)
		snprintf(text + used, MODE_TEXT - (size_t)used, " (%s)", why);
}

void section_tell_begin(struct section *section, uint64_t now)
{
	char text[MODE_TEXT];
	put_mode(text, now, "after blocks that were sampled before");
	feed_moment(&section->feed,
		    &(struct trace_moment){.kind = TRACE_MOMENT_MODE, .text = text});
}

static void tell_mode(struct section *section, unsigned interval_log2, const char *why)
{
	char text[MODE_TEXT];
	put_mode(text, interval_log2 ? 1ull << interval_log2 : 0, why);
	/* Without room for the note the switch is what counts. */
	if (section_add_moment(section, TRACE_MOMENT_MODE, text))
		section_wake(section);
}

/* The gate is open in state SAMPLED only, and never wider than the state says. */
static void set_words(struct section *section, uint32_t sampling, enum wire_state state)
{
	atomic_store(&section->filter->gate, 0);
	atomic_store(&section->control->sampling, sampling);
	atomic_store(&section->control->state, state);
	if (state == WIRE_SAMPLED)
		atomic_store(&section->filter->gate, sampling);
}

/* What each thread published before it could see the new state is published for us, too. */
static void settle_threads(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0))
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

static bool switch_sampled(struct section *section, enum wire_state state)
{
	struct wire_control *control = section->control;
	uint32_t sampling = atomic_load(&control->sampling) & WIRE_SAMPLING_LOG2;
	enum wire_state now = (enum wire_state)atomic_load(&control->state);
	if (state == WIRE_RECORD && now == WIRE_IDLE && section->options.sample_log2) {
		set_words(section, section->options.sample_log2, WIRE_SAMPLED);
		return true;
	}
	if (!is_sampled(section))
		return false;
	if (state == WIRE_PAUSED)
		sampling |= WIRE_SAMPLING_PAUSED;
	bool goes_on = state == WIRE_PAUSED || state == WIRE_RECORD;
	set_words(section, sampling, goes_on ? now : state);
	return true;
}

bool section_switch_sampled(struct section *section, enum wire_state state)
{
	pthread_mutex_lock(&section->mode_lock->mutex);
	bool done = switch_sampled(section, state);
	pthread_mutex_unlock(&section->mode_lock->mutex);
	return done;
}

/* Until a piece was given what it drains, those before it drain it. */
static void expect_sampled(struct section *section, uint64_t interval_bytes)
{
	atomic_store(&section->feed.sampled.on, true);
	if (interval_bytes > atomic_load(&section->sampled_bytes))
		atomic_store(&section->sampled_bytes, interval_bytes);
	pthread_mutex_lock(&section->lock);
	if (section->elder && !section->was_given)
		expect_sampled(section->elder, interval_bytes);
	pthread_mutex_unlock(&section->lock);
}

/* False: nothing is recorded. */
static bool set_interval(struct section *section, unsigned interval_log2)
{
	struct wire_control *control = section->control;
	enum wire_state now = (enum wire_state)atomic_load(&control->state);
	bool paused = section_state(section) == WIRE_PAUSED;
	if (now == WIRE_OFF || now == WIRE_IDLE)
		return false;
	if (!interval_log2) {
		set_words(section, 0, paused ? WIRE_PAUSED : WIRE_RECORD);
		return true;
	}
	uint32_t sampling = interval_log2 | (paused ? WIRE_SAMPLING_PAUSED : 0);
	expect_sampled(section, 1ull << interval_log2);
	set_words(section, sampling, is_sampled(section) ? now : WIRE_SAMPLED_ALL);
	return true;
}

void section_set_sampling(struct section *section, unsigned interval_log2, const char *why)
{
	pthread_mutex_lock(&section->mode_lock->mutex);
	bool done = set_interval(section, interval_log2);
	if (done)
		tell_mode(section, interval_log2, why);
	pthread_mutex_unlock(&section->mode_lock->mutex);
	if (done && interval_log2)
		settle_threads();
}

uint64_t section_begin_mode(struct section *section, bool *ret_told)
{
	pthread_mutex_lock(&section->mode_lock->mutex);
	uint64_t now = section_sample_bytes(section);
	*ret_told = section_has_moment(section, TRACE_MOMENT_MODE);
	pthread_mutex_unlock(&section->mode_lock->mutex);
	return now;
}

void section_fill_filter(struct section *section)
{
	struct wire_control *control = section->control;
	uint32_t all = WIRE_SAMPLED_ALL;
	if (atomic_load_explicit(&control->state, memory_order_relaxed) != WIRE_SAMPLED_ALL) {
		section->fill_passes = 0;
		return;
	}
	if (++section->fill_passes < FILL_PASSES)
		return;
	feed_flush(&section->feed, true);
	if (sampled_fill(section->feed.model, &section->shm.map, section->inherited))
		return;
	pthread_mutex_lock(&section->mode_lock->mutex);
	/* Unless it was switched meanwhile. */
	if (atomic_compare_exchange_strong(&control->state, &all, WIRE_SAMPLED))
		atomic_store(&section->filter->gate, atomic_load(&control->sampling));
	pthread_mutex_unlock(&section->mode_lock->mutex);
}

/* ---- cost ---- */

static uint64_t target_cpu_ns(const struct section *section)
{
	clockid_t clock;
	return clock_getcpuclockid(section->options.pid, &clock) ? 0 : clock_read_ns(clock);
}

/* How many doublings bring `share` down to what is allowed. */
static unsigned doublings(double share, double allowed)
{
	unsigned count = 0;
	for (; share > allowed && count < PACE_LOG2_MAX; share /= 2)
		count++;
	return count;
}

static void look_at_overhead(struct section *section, const struct section_pace *was,
			     const struct section_pace *now)
{
	double allowed = section->options.max_overhead;
	uint64_t cpu_ns = now->target_cpu_ns - was->target_cpu_ns;
	if (!allowed || !is_sampled(section) || cpu_ns < CPU_MIN_NS ||
	    now->counters.samples - was->counters.samples < SAMPLES_MIN)
		return;
	uint64_t ticks = now->counters.cost - was->counters.cost;
	double spent_ns = (double)ticks * (double)section->feed.clock.mult / 4294967296.0;
	double share = (spent_ns + (double)(now->own_cpu_ns - was->own_cpu_ns)) / (double)cpu_ns;
	unsigned old = (unsigned)__builtin_ctzll(section_sample_bytes(section));
	unsigned log2 = old + doublings(share, allowed);
	log2 = log2 < PACE_LOG2_MAX ? log2 : PACE_LOG2_MAX;
	if (log2 <= old)
		return;
	char why[100];
	snprintf(why, sizeof why, "it cost %.1f %% of the CPU time, and may cost %.1f %%",
		 share * 100, allowed * 100);
	section_set_sampling(section, log2, why);
}

/* Of the time in which its threads ran or would have run, had they not waited for us. */
static void look_at_waiting(struct section *section, const struct section_pace *was,
			    const struct section_pace *now)
{
	double allowed = section->options.overload_share;
	double waited_ns = (double)(now->counters.waited_ns - was->counters.waited_ns);
	double ran_ns = (double)(now->target_cpu_ns - was->target_cpu_ns);
	double share = waited_ns > 0 ? waited_ns / (waited_ns + ran_ns) : 0;
	if (!allowed || is_sampled(section) || waited_ns < WAIT_MIN_NS || share <= allowed)
		return;
	char why[100];
	snprintf(why, sizeof why,
		 "its threads waited %.0f %% of their time for us, and may wait %.0f %%",
		 share * 100, allowed * 100);
	section_set_sampling(section, OVERLOAD_LOG2, why);
}

static void look_at_losses(struct section *section, const struct section_pace *was,
			   struct section_pace *now)
{
	uint64_t lost = now->counters.lost - was->counters.lost;
	if (!lost || (was->lost_told_ns && now->looked_ns - was->lost_told_ns < LOST_TELL_NS))
		return;
	char why[100];
	snprintf(why, sizeof why, "%llu events were lost in a second", (unsigned long long)lost);
	uint64_t bytes = section_sample_bytes(section);
	tell_mode(section, bytes ? (unsigned)__builtin_ctzll(bytes) : 0, why);
	now->lost_told_ns = now->looked_ns;
}

void section_look_at_cost(struct section *section, uint64_t now_ns)
{
	const struct section_pace was = section->pace;
	if (now_ns - was.looked_ns < LOOK_NS)
		return;
	section->pace = (struct section_pace){
		.looked_ns = now_ns,
		.target_cpu_ns = target_cpu_ns(section),
		.own_cpu_ns = clock_thread_ns() + section->apart_ns,
		.counters = cursors_counters(&section->cursors),
		.lost_told_ns = was.lost_told_ns,
	};
	if (!was.looked_ns)
		return;
	look_at_overhead(section, &was, &section->pace);
	look_at_waiting(section, &was, &section->pace);
	look_at_losses(section, &was, &section->pace);
}
