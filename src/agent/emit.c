/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: taking, waiting, giving up. A thread that finds the pool empty wakes
 * the collector and waits on a futex, in steps, looking at three things: is the
 * collector's drain thread there (robust futex), does it make progress, and does
 * the collector run at all. Waiting never lasts longer than WIRE_STUCK_NS where it
 * is stopped, nor than WIRE_SLOW_NS without progress.
 */
#include "agent/emit.h"

#include <linux/futex.h>
#include <linux/prctl.h>

#include "agent/memory_ops.h"
#include "agent/procself.h"
#include "agent/sys.h"
#include "agent/wake.h"

enum {
	FOLDER_BYTES_MAX = 1024,
	WAIT_STEP_NS = 20 * 1000 * 1000,
	LOOK_AGAIN_NS = 1000 * 1000 * 1000,    /* at one that stands still and is not stopped */
	SPINS_WITHOUT_CALLS = 2 * 1000 * 1000, /* some milliseconds */
};

uint64_t agent_steady_ns(void)
{
	enum { CLOCK = 1, NS_PER_S = 1000 * 1000 * 1000 }; /* CLOCK_MONOTONIC */
	struct sys_timespec now = {0, 0};
	sys_clock_gettime(CLOCK, &now);
	return (uint64_t)now.seconds * NS_PER_S + (uint64_t)now.nanoseconds;
}

uint64_t emit_stamp_slow(void)
{
	if (atomic_load_explicit(&agent.slow_clock, memory_order_relaxed) == AGENT_CLOCK_NS &&
	    agent_may_call())
		return agent_steady_ns();
	return atomic_fetch_add_explicit(&agent.frozen_stamp, 1, memory_order_relaxed);
}

void emit_freeze_clock(void)
{
	bool ns = agent.map.options & WIRE_OPT_CLOCK_NS;
	if (!agent_records() || atomic_load(&agent.frozen_stamp) ||
	    atomic_load(&agent.slow_clock) == AGENT_CLOCK_FROZEN)
		return;
	atomic_store(&agent.frozen_stamp, ns ? agent_steady_ns() : read_tsc());
	if (!ns)
		atomic_store(&agent.slow_clock, AGENT_CLOCK_FROZEN);
}

/* This thread may read it, and no other is known that may not. */
static bool may_read_tsc(void)
{
	int tsc = 0;
	return !atomic_load(&agent_fixed.no_tsc) &&
	       (sys_prctl(PR_GET_TSC, (unsigned long)&tsc, 0, 0) || tsc != PR_TSC_SIGSEGV);
}

void emit_begin_clock(void)
{
	bool ns = agent.map.options & WIRE_OPT_CLOCK_NS, frozen = !ns && !may_read_tsc();
	atomic_store(&agent.frozen_stamp, frozen ? agent.map.control->first_stamp : 0);
	atomic_store(&agent.slow_clock, ns       ? AGENT_CLOCK_NS
					: frozen ? AGENT_CLOCK_FROZEN
						 : AGENT_CLOCK_TSC);
}

void agent_switch_off(enum wire_off_reason reason)
{
	struct wire_control *control = agent.map.control;
	uint32_t none = WIRE_OFF_NONE;
	atomic_compare_exchange_strong(&control->off_reason, &none, (uint32_t)reason);
	atomic_store(&control->state, WIRE_OFF);
	agent_rest();
}

/* Unless the recording was ended while it waited. */
static void count_lost(struct lane *lane)
{
	if (atomic_load(&agent.map.control->off_reason) == WIRE_OFF_STOPPED)
		return;
	atomic_fetch_add_explicit(&lane->stream->lost, 1, memory_order_relaxed);
}

static void wake_collector(struct wire_control *control)
{
	if (atomic_exchange(&control->asleep, 0))
		sys_futex(&control->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/*
 * A handler may leave us by siglongjmp at any instruction from here to where the
 * chunk is the lane's: it stays in lane->taken, and is the next that is taken.
 */
static uint32_t take_free(struct lane *lane)
{
	return wire_pool_take_into(&agent.map, &lane->taken);
}

/* No system calls allowed: look again for a while, then lose the event. At once if it is off. */
static uint32_t take_spinning(struct lane *lane)
{
	const _Atomic uint32_t *state = &agent.map.control->state;
	for (int i = 0; i < SPINS_WITHOUT_CALLS && atomic_load(state) != WIRE_OFF; i++) {
		uint32_t chunk = take_free(lane);
		if (chunk)
			return chunk;
		__asm__ volatile("pause");
	}
	return WIRE_NONE;
}

/*
 * A handler may leave us by siglongjmp while we wait; emit_repair() takes the
 * count back. Left between the two stores it stays one too high: the collector
 * then makes a futex call in vain now and then.
 */
static void count_waiter(struct lane *lane, bool waits)
{
	if (waits) {
		atomic_fetch_add(&agent.map.control->pool_waiters, 1);
		lane->waiting = true;
	} else {
		lane->waiting = false;
		compiler_barrier();
		atomic_fetch_sub(&agent.map.control->pool_waiters, 1);
	}
}

/* What the collector did while we waited, and for how long it did not. */
struct patience {
	uint64_t progress, alive;
	uint64_t without_progress, without_life;
};

/*
 * Does the drain thread stand still without being stopped, since it gets no processor or waits for
 * a disk? On a machine with much to do that may take seconds. Where it cannot be seen (a process
 * namespace of our own) it counts as stopped.
 */
static bool is_starved(const struct wire_control *control)
{
	char state = procself_state_of(atomic_load(&control->owner) & FUTEX_TID_MASK, "tidemark");
	return state && state != 'T' && state != 't';
}

static bool is_over(struct patience *p, const struct wire_control *control, uint64_t step)
{
	uint64_t progress = atomic_load(&control->progress), alive = atomic_load(&control->alive);
	bool moves = progress != p->progress;
	p->without_progress = moves ? 0 : p->without_progress + step;
	p->without_life = moves || alive != p->alive ? 0 : p->without_life + step;
	p->progress = progress;
	p->alive = alive;
	if (p->without_life > WIRE_STUCK_NS && (!agent_may_call() || is_starved(control)))
		p->without_life = WIRE_STUCK_NS - LOOK_AGAIN_NS;
	return p->without_life > WIRE_STUCK_NS || p->without_progress > WIRE_SLOW_NS;
}

/*
 * Waits for a chunk; 0 when recording was switched off meanwhile. Another thread
 * may install a filter for all: that is known before it is there, so each round
 * asks, and after its sleep once more. A call before which we lose the processor
 * for as long as the other takes may still come too late.
 */
AGENT_COLD static uint32_t take_waiting(struct lane *lane)
{
	struct wire_control *control = agent.map.control;
	uint64_t began = agent_steady_ns(), last_look = began;
	struct patience patience = {.progress = atomic_load(&control->progress),
				    .alive = atomic_load(&control->alive)};
	const struct sys_timespec step_length = {0, WAIT_STEP_NS};
	uint32_t chunk = WIRE_NONE;
	count_waiter(lane, true);
	while (atomic_load(&control->state) != WIRE_OFF && agent_may_call()) {
		uint32_t seq = atomic_load(&control->pool_seq);
		chunk = take_free(lane);
		if (chunk)
			break;
		wake_collector(control);
		sys_futex(&control->pool_seq, FUTEX_WAIT, seq, &step_length, NULL, 0);
		if (!agent_may_call())
			break;
		uint64_t now = agent_steady_ns();
		/* Longer: we were stopped, or got no processor, and with us perhaps the collector.
		 */
		uint64_t step = now - last_look < WAIT_STEP_NS ? now - last_look : WAIT_STEP_NS;
		last_look = now;
		if (atomic_load(&control->owner) & FUTEX_OWNER_DIED)
			agent_switch_off(WIRE_OFF_COLLECTOR_DEAD);
		else if (is_over(&patience, control, step))
			agent_switch_off(WIRE_OFF_COLLECTOR_STUCK);
	}
	count_waiter(lane, false);
	bool may_call = agent_may_call();
	uint64_t end = may_call ? agent_steady_ns() : last_look;
	atomic_fetch_add_explicit(&lane->stream->waited_ns, end - began, memory_order_relaxed);
	return chunk || may_call ? chunk : take_spinning(lane);
}

static uint32_t take_chunk(struct lane *lane)
{
	uint32_t chunk = unlikely(lane->taken) ? lane->taken : take_free(lane);
	if (likely(chunk))
		return chunk;
	if (!agent_may_call())
		return take_spinning(lane);
	if (agent.map.options & WIRE_OPT_DROP)
		return WIRE_NONE;
	return take_waiting(lane);
}

/*
 * Makes lane->pending the lane's chunk. May be left at any instruction by a
 * handler's siglongjmp and done again: it looks what has been done already.
 */
static void enter_pending(struct lane *lane)
{
	struct wire_stream *stream = lane->stream;
	struct wire_chunk *old = lane->chunk;
	uint32_t chunk = lane->pending;
	if (lane->pending_is_head) {
		atomic_store_explicit(&stream->head, chunk, memory_order_relaxed);
		/* Pairs with the collector's acquire load of head_seq. */
		atomic_store_explicit(&stream->head_seq, lane->pending_seq, memory_order_release);
		/* Last: who sees the request gone must see the answer. This may wipe the next
		 * request; the collector then asks again. */
		atomic_store_explicit(&stream->revoke, 0, memory_order_release);
	} else if (atomic_load_explicit(&old->serial, memory_order_relaxed) == lane->serial &&
		   !atomic_load_explicit(&old->next, memory_order_relaxed)) {
		/* Not linked yet, so it is still ours. Pairs with the collector's acquire load
		 * of next: all commits come before. */
		atomic_store_explicit(&old->next, chunk, memory_order_release);
	}
	lane->chunk = &agent.map.chunks[chunk - 1];
	lane->cursor = lane->chunk->words;
	lane->limit = lane->chunk->words + WIRE_CHUNK_WORDS;
	compiler_barrier();
	lane->pending = WIRE_NONE;
}

void emit_repair(struct lane *lane)
{
	if (lane->pending) {
		lane->taken = WIRE_NONE; /* the same */
		compiler_barrier();
		enter_pending(lane);
	}
	if (lane->waiting)
		count_waiter(lane, false);
	atomic_store_explicit(&lane->stream->busy, 0, memory_order_release);
}

/* Lets a sleeping collector know in time: before the pool is empty, not after. */
static void hint_collector(void)
{
	struct wire_control *control = agent.map.control;
	if (atomic_load_explicit(&control->asleep, memory_order_relaxed) &&
	    atomic_load_explicit(&control->pool_free, memory_order_relaxed) <
		    agent.map.chunk_count / 8 &&
	    agent_may_call())
		wake_collector(control);
}

bool emit_refill(struct lane *lane, uint32_t words)
{
	struct wire_stream *stream = lane->stream;
	if (words > WIRE_CHUNK_WORDS || lane->tid == (uint32_t)LANE_NOBODY ||
	    atomic_load_explicit(&agent.state, memory_order_relaxed) % 2) /* PASS, DORMANT */
		return false;
	/* Nobody reads any more: found out here, not only when all chunks are full. */
	if (atomic_load_explicit(&agent.map.control->owner, memory_order_relaxed) &
	    FUTEX_OWNER_DIED) {
		agent_switch_off(WIRE_OFF_COLLECTOR_DEAD);
		return false;
	}
	/* Not busy while waiting: the collector may need the old chunk to make room. */
	atomic_store_explicit(&stream->busy, 0, memory_order_release);
	uint32_t chunk = take_chunk(lane);
	atomic_store_explicit(&stream->busy, 1, memory_order_relaxed);
	compiler_barrier();
	if (!chunk) {
		count_lost(lane);
		return false;
	}
	for (uint32_t at = 0; at < WIRE_CHUNK_HEADER_BYTES + EMIT_AHEAD; at += EMIT_LINE)
		emit_claim((const char *)&agent.map.chunks[chunk - 1] + at);
	wire_chunk_open(&agent.map, chunk, lane->stream_index, lane->serial);
	lane->pending_is_head =
		!lane->chunk || atomic_load_explicit(&stream->revoke, memory_order_acquire);
	lane->pending_seq = atomic_load_explicit(&stream->head_seq, memory_order_relaxed) + 1;
	compiler_barrier();
	lane->pending = chunk;
	compiler_barrier();
	lane->taken = WIRE_NONE;
	compiler_barrier();
	enter_pending(lane);
	hint_collector();
	return true;
}

void emit_extra(struct lane *lane, enum wire_extra kind, const uint64_t *payload, uint32_t words)
{
	if (!emit_open(lane, words + 2))
		return;
	uint64_t *w = lane->cursor;
	w[0] = emit_head(WIRE_OP_EXTRA, WIRE_API_MALLOC);
	w[1] = (uint64_t)kind | (uint64_t)(words + 2) << 16;
	for (uint32_t i = 0; i < words; i++)
		w[2 + i] = payload[i];
	emit_close(lane, w + 2 + words);
}

/*
 * A library loaded by a relative path: where the program is now is where it was
 * then, or was a moment ago. Returns the bytes of the folder and its slash, 0: none.
 */
static uint32_t folder_of(const struct module *module, char *ret, size_t room)
{
	if (!module->path_bytes || module->path[0] == '/' || module->path[0] == '[' ||
	    !agent_may_call())
		return 0;
	long bytes = sys_readlink("/proc/self/cwd", ret, room - 1);
	if (bytes <= 0 || (size_t)bytes >= room - 1)
		return 0;
	ret[bytes] = '/';
	return (uint32_t)bytes + 1;
}

void emit_module(struct lane *lane, const struct module *module)
{
	char folder[FOLDER_BYTES_MAX];
	uint32_t folder_bytes = folder_of(module, folder, sizeof folder);
	uint32_t path_bytes = module->path_bytes + folder_bytes;
	path_bytes = path_bytes > 4096 ? 4096 : path_bytes;
	uint32_t id_words = (module->build_id_bytes + 7) / 8, path_words = (path_bytes + 7) / 8;
	uint32_t head_words = sizeof(struct wire_ev_module) / 8;
	uint32_t words = 2 + head_words + id_words + path_words;
	if (!emit_open(lane, words))
		return;
	uint64_t *w = lane->cursor;
	w[0] = emit_head(WIRE_OP_EXTRA, WIRE_API_MALLOC);
	w[1] = (uint64_t)WIRE_EV_MODULE | (uint64_t)words << 16;
	struct wire_ev_module event = {.instance = module->instance,
				       .bias = module->bias,
				       .start = module->start,
				       .end = module->end,
				       .build_id_bytes = module->build_id_bytes,
				       .path_bytes = path_bytes};
	w[words - 1] = 0;
	memcpy(w + 2, &event, sizeof event);
	if (id_words)
		w[2 + head_words + id_words - 1] = 0;
	memcpy(w + 2 + head_words, module->build_id, module->build_id_bytes);
	char *path = (char *)(w + 2 + head_words + id_words);
	memcpy(path, folder, folder_bytes);
	memcpy(path + folder_bytes, module->path, path_bytes - folder_bytes);
	emit_close(lane, w + words);
}
