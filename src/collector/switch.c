/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the main thread tells a section while it is drained: pause, go on, a
 * mark; and what the section tells the main thread.
 */
#include "collector/section_state.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

void section_wake(struct section *section)
{
	struct wire_control *control = section->control;
	atomic_store(&control->asleep, 0);
	syscall(SYS_futex, &control->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int section_add_moment(struct section *section, enum trace_moment_kind kind, const char *text)
{
	uint64_t now_ns = clock_steady_ns(), origin_ns = atomic_load(&section->origin_ns);
	char *copy = tm_strdup(text);
	int error = copy ? 0 : -ENOMEM;
	pthread_mutex_lock(&section->lock);
	uint32_t count = atomic_load(&section->moment_count);
	if (!error && atomic_load(&section->ending))
		error = -ESHUTDOWN;
	else if (!error && count == SECTION_MOMENTS)
		error = -EAGAIN;
	if (!error) {
		section->moments[count] = (struct section_moment){
			.time_ns = now_ns > origin_ns ? now_ns - origin_ns : 0,
			.text = copy,
			.kind = (uint8_t)kind,
		};
		atomic_store(&section->moment_count, count + 1);
	}
	pthread_mutex_unlock(&section->lock);
	if (error)
		tm_free(copy);
	return error;
}

bool section_has_moment(struct section *section, enum trace_moment_kind kind)
{
	bool found = false;
	pthread_mutex_lock(&section->lock);
	for (uint32_t i = 0; i < atomic_load(&section->moment_count); i++)
		found |= section->moments[i].kind == kind;
	pthread_mutex_unlock(&section->lock);
	return found;
}

int section_mark(struct section *section, const char *text)
{
	return section_add_moment(section, TRACE_MOMENT_MARK, text);
}

void section_take_moments(struct section *section, bool wait)
{
	if (wait)
		pthread_mutex_lock(&section->lock);
	else if (!atomic_load(&section->moment_count) || pthread_mutex_trylock(&section->lock))
		return;
	uint32_t count = atomic_load(&section->moment_count);
	for (uint32_t i = 0; i < count; i++) {
		struct section_moment *moment = &section->moments[i];
		feed_moment(&section->feed, &(struct trace_moment){.time_ns = moment->time_ns,
								   .kind = moment->kind,
								   .text = moment->text});
		tm_free(moment->text);
	}
	atomic_store(&section->moment_count, 0);
	pthread_mutex_unlock(&section->lock);
}

void section_set_state(struct section *section, enum wire_state state)
{
	struct wire_control *control = section->control;
	enum wire_state old = section_state(section);
	if (state == old)
		return;
	if (state == WIRE_OFF) {
		atomic_store(&control->off_reason, WIRE_OFF_STOPPED);
		atomic_store(&section->never_on, old == WIRE_IDLE);
	}
	/* Without memory for the note the switch is what counts. */
	if (old == WIRE_PAUSED && state == WIRE_RECORD &&
	    section_add_moment(section, TRACE_MOMENT_RESUME, ""))
		section_wake(section);
	if (!section_switch_sampled(section, state))
		atomic_store(&control->state, state);
	if (old == WIRE_RECORD && state == WIRE_PAUSED &&
	    section_add_moment(section, TRACE_MOMENT_PAUSE, ""))
		section_wake(section);
}

bool section_agent_ready(const struct section *section)
{
	return atomic_load(&section->control->agent_ready);
}

/* Whether all blocks are recorded or some are makes no difference here. */
enum wire_state section_state(const struct section *section)
{
	const struct wire_control *control = section->control;
	enum wire_state state = (enum wire_state)atomic_load(&control->state);
	if (state != WIRE_SAMPLED && state != WIRE_SAMPLED_ALL)
		return state;
	return atomic_load(&control->sampling) & WIRE_SAMPLING_PAUSED ? WIRE_PAUSED : WIRE_RECORD;
}

void section_tell(struct section *section)
{
	struct model_totals totals;
	uint64_t one = 1;
	model_totals(section->feed.model, &totals);
	atomic_store_explicit(&section->told_events, totals.events, memory_order_relaxed);
	atomic_store_explicit(&section->told_live_bytes, totals.live_bytes, memory_order_relaxed);
	atomic_store_explicit(&section->told_peak_bytes, totals.peak_bytes, memory_order_relaxed);
	struct cursor_counters counters = cursors_counters(&section->cursors);
	atomic_store_explicit(&section->told_lost, counters.lost - section->counted.lost,
			      memory_order_relaxed);
	atomic_store_explicit(&section->told_waited_ns,
			      counters.waited_ns - section->counted.waited_ns,
			      memory_order_relaxed);
	uint32_t usr1 = atomic_load_explicit(&section->control->usr1, memory_order_relaxed);
	if (usr1 != section->usr1_told && section->options.usr1_fd > 0 &&
	    write(section->options.usr1_fd, &one, sizeof one) == sizeof one)
		section->usr1_told = usr1;
}

void section_figures(const struct section *section, struct section_figures *ret)
{
	uint64_t now_ns = clock_steady_ns(), origin_ns = atomic_load(&section->origin_ns);
	*ret = (struct section_figures){
		.events = atomic_load_explicit(&section->told_events, memory_order_relaxed),
		.live_bytes = atomic_load_explicit(&section->told_live_bytes, memory_order_relaxed),
		.peak_bytes = atomic_load_explicit(&section->told_peak_bytes, memory_order_relaxed),
		.lost_events = atomic_load_explicit(&section->told_lost, memory_order_relaxed),
		.waited_ns = atomic_load_explicit(&section->told_waited_ns, memory_order_relaxed),
		.age_ns = now_ns > origin_ns ? now_ns - origin_ns : 0,
		.piece = section->piece,
		.usr1 = atomic_load(&section->control->usr1),
	};
}
