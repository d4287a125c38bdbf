/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: one per thread pointer. The agent sees no thread exit; a thread
 * pointer that comes back with another thread id has a new owner, and the
 * stream goes on under the new thread's name (WIRE_EV_THREAD). The collector
 * marks streams of vanished threads WIRE_STREAM_GONE: then the lane's chunk is
 * no longer the lane's, and the stream record may be claimed by anybody.
 */
#include "agent/lane.h"

#include <linux/prctl.h>

#include "agent/attach.h"
#include "agent/hook.h"
#include "agent/memory_ops.h"
#include "agent/real.h"
#include "agent/sys.h"
#include "agent/unwind.h"

enum {
	ALLOCATOR_STACK_BYTES = 64 << 10, /* more than an allocator's own frames need */
	CXX_THROW_BYTES = 512,            /* __cxa_allocate_exception is shorter */
};

static uint64_t next_serial(void)
{
	return atomic_fetch_add(&agent.map.control->thread_serial, 1) + 1;
}

static bool claim(uint32_t index)
{
	_Atomic uint32_t *of = &agent.map.streams[index].state;
	uint32_t state = atomic_load(of);
	return (state == WIRE_STREAM_FREE || state == WIRE_STREAM_GONE) &&
	       atomic_compare_exchange_strong(of, &state, WIRE_STREAM_CLOSED);
}

/*
 * A stream record nobody uses; index, or UINT32_MAX. One that was just added to
 * those in use is there for all who look: whoever claims it first has it.
 */
static uint32_t claim_stream(void)
{
	_Atomic uint32_t *high = &agent.map.control->streams_high;
	uint32_t used = atomic_load(high);
	if (used > agent.map.stream_count)
		used = agent.map.stream_count;
	for (uint32_t i = 0; i < used; i++)
		if (claim(i))
			return i;
	for (;;) {
		uint32_t fresh = atomic_fetch_add(high, 1);
		if (fresh >= agent.map.stream_count) {
			atomic_store(high, agent.map.stream_count);
			return UINT32_MAX;
		}
		if (claim(fresh))
			return fresh;
	}
}

static bool open_stream(struct lane *lane, uint32_t tid)
{
	uint32_t index = claim_stream();
	if (index == UINT32_MAX)
		return false;
	struct wire_stream *stream = &agent.map.streams[index];
	atomic_store(&stream->tid, tid);
	atomic_store(&stream->first_tid, tid);
	atomic_store(&stream->lane, lane->number);
	lane->serial = next_serial();
	atomic_store(&stream->serial, lane->serial);
	atomic_store(&stream->head, WIRE_NONE);
	atomic_store(&stream->busy, 0);
	atomic_store(&stream->revoke, 0);
	lane->stream = stream;
	lane->stream_index = index;
	lane->chunk = NULL;
	lane->pending = WIRE_NONE;
	lane->cursor = lane->limit = NULL;
	lane->tid = tid;
	/* Pairs with the collector's acquire load of state. */
	atomic_store_explicit(&stream->state, WIRE_STREAM_ACTIVE, memory_order_release);
	return true;
}

static void emit_thread_name(struct lane *lane)
{
	char name[16] __attribute__((aligned(8))) = {0};
	if (agent_may_call() && !sys_failed(sys_prctl(PR_GET_NAME, (unsigned long)name, 0, 0))) {
		uint64_t payload[2];
		memcpy(payload, name, sizeof payload);
		emit_extra(lane, WIRE_EV_THREAD_NAME, payload, 2);
	}
}

static struct lane *lane_make(uint32_t tid, uint32_t number)
{
	struct lane *lane = arena_take(sizeof *lane);
	if (!lane)
		return NULL;
	lane->number = number;
	lane->count = &lane->own_count;
	if (!open_stream(lane, tid)) {
		arena_give(lane, sizeof *lane);
		return NULL;
	}
	return lane;
}

static uint32_t own_tid(uintptr_t thread)
{
	if (!atomic_load_explicit(&agent.shared_tls, memory_order_relaxed))
		return thread_id_now(thread);
	return agent_may_call() ? (uint32_t)sys_gettid() : 1;
}

static struct lane *insert(uintptr_t thread, uint32_t tid)
{
	struct lane *lane = lane_make(tid, 0);
	uint32_t slot = slot_of(thread);
	for (uint32_t probes = 0; lane && probes < AGENT_SLOTS / 2; probes++) {
		uintptr_t empty = 0;
		if (atomic_compare_exchange_strong(&agent.slots[slot].key, &empty, thread)) {
			atomic_store_explicit(&agent.slots[slot].lane, lane, memory_order_release);
			if (!atomic_exchange(&agent.has_first, 1)) {
				lane->count = &agent.first_count;
				agent.first_lane = lane;
				/* Pairs with the acquire in sample_count() and lane_enter(). */
				atomic_store_explicit(&agent.first, thread, memory_order_release);
			}
			emit_thread_name(lane);
			return lane;
		}
		slot = (slot + 1) & (AGENT_SLOTS - 1);
	}
	atomic_fetch_add(&agent.map.control->lost, 1);
	return NULL;
}

/* The thread pointer has a new owner: what the old one left half done is void. */
static bool take_over(struct lane *lane, uint32_t tid)
{
	modules_break_lock(agent.modules, lane->tid);
	agent_break_locks();
	lane->agent_sp = lane->real_sp = 0;
	lane->open_realloc = false;
	lane->own_low = lane->own_end = 0;
	memset(lane->labels, 0, sizeof lane->labels);
	lane->labelled = 0;
	unwind_forget(lane);
	uint32_t active = WIRE_STREAM_ACTIVE;
	/* Against the collector, which sets GONE when the old thread has vanished. */
	if (atomic_load(&lane->stream->serial) != lane->serial ||
	    !atomic_compare_exchange_strong(&lane->stream->state, &active, WIRE_STREAM_CLOSED))
		return open_stream(lane, tid);
	lane->tid = tid;
	atomic_store(&lane->stream->tid, tid);
	atomic_store(&lane->stream->busy, 0);
	atomic_store_explicit(&lane->stream->state, WIRE_STREAM_ACTIVE, memory_order_release);
	uint64_t payload[2] = {tid, next_serial()};
	emit_extra(lane, WIRE_EV_THREAD, payload, 2);
	emit_thread_name(lane);
	return true;
}

static void renew(struct lane *lane)
{
	lane->tid = (uint32_t)LANE_NOBODY;
	lane->serial = 0;
	lane->pending = WIRE_NONE;
	lane->waiting = false;
	*lane->count =
		(struct agent_count){0}; /* a gate that is closed is 0, too: nothing is left */
	lane->random = 0;
	lane->stream = &agent.nobody;
	lane->limit = NULL; /* no room; what an old cursor points to is still mapped */
}

void lanes_renew(void)
{
	for (uint32_t i = 0; i < AGENT_SLOTS; i++) {
		struct lane *lane =
			atomic_load_explicit(&agent.slots[i].lane, memory_order_acquire);
		if (!lane)
			continue;
		renew(lane);
		if (lane->signal_lane)
			renew(lane->signal_lane);
	}
}

struct lane *lane_adopt(struct lane *lane, uintptr_t thread)
{
	if (atomic_load_explicit(&agent.shared_tls, memory_order_relaxed) && agent_may_call())
		thread = (uintptr_t)(uint32_t)sys_gettid()
			 << 6; /* a key of its own per kernel thread */
	lane = lane_find(thread);
	uint32_t tid = own_tid(thread);
	if (!lane)
		return insert(thread, tid);
	if (lane->tid == tid)
		return lane;
	return take_over(lane, tid) ? lane : NULL;
}

/* What was raised is stale: left by siglongjmp, an exception, a killed vfork child. */
static struct lane *reset(struct lane *lane)
{
	if (lane->agent_sp) {
		modules_break_lock(agent.modules, lane->tid);
		agent_break_locks();
		emit_repair(lane);
		unwind_forget(lane);
	}
	lane->agent_sp = lane->real_sp = 0;
	lane->open_realloc = false;
	return lane;
}

static bool is_allocator(uintptr_t pc)
{
	struct module_code allocator;
	if (attach_is_allocator(pc))
		return true;
	return modules_find(agent.modules, (uintptr_t)real.malloc, &allocator) &&
	       pc >= allocator.start && pc < allocator.end;
}

static bool is_exception(uintptr_t pc)
{
	uintptr_t start = agent_fixed.cxx_throw;
	return start && pc > start && pc - start < CXX_THROW_BYTES;
}

/* The C++ runtime makes the exception that tells of a failed operator new: that call will not
 * return to us. */
static struct lane *enter_exception(struct lane *lane)
{
	if (lane->open_site) {
		hook_block(lane, lane->open_site, WIRE_OP_ALLOC, WIRE_API_NEW, NULL,
			   lane->open_bytes, 0);
		lane->open_site = NULL;
	}
	return lane;
}

/* Is the return address of a patched function still there? Then so is the call. */
static bool is_patched_frame(const struct lane *lane)
{
	return lane->real_pc &&
	       *(const volatile uintptr_t *)(lane->real_sp - sizeof(uintptr_t)) == lane->real_pc;
}

/* real_sp is raised: inside the real allocator, or stale. */
static struct lane *enter_above_real(struct lane *lane, const struct call_site *site)
{
	switch (unwind_seek(lane, site, lane->real_sp)) {
	case SEEK_NESTED: /* one allocation is one event; an exception thrown by operator new is
			     another */
		return is_exception(site->pc) ? enter_exception(lane) : NULL;
	case SEEK_SIGNAL: /* a handler's own call; the lane is consistent there */
		return lane;
	case SEEK_LOST: /* musl has no unwind information: who called, and from how far below? */
		if (site->sp < lane->real_sp && lane->real_sp - site->sp < ALLOCATOR_STACK_BYTES &&
		    (is_allocator(site->pc) || is_patched_frame(lane)))
			return NULL;
		break;
	case SEEK_NOTHING:
		break;
	}
	return reset(lane);
}

/* The lane for a signal handler that interrupted the agent itself. */
static struct lane *enter_signal_lane(struct lane *lane, const struct call_site *site)
{
	if (!lane->signal_lane)
		lane->signal_lane = lane_make(lane->tid, 1);
	struct lane *second = lane->signal_lane;
	if (second)
		second->first = lane;
	if (!second) {
		atomic_fetch_add_explicit(&lane->stream->lost, 1, memory_order_relaxed);
		return NULL;
	}
	if (second->tid != lane->tid && !take_over(second, lane->tid))
		return NULL;
	if (second->agent_sp) {
		if (unwind_seek(second, site, second->agent_sp) == SEEK_SIGNAL) {
			atomic_fetch_add_explicit(&lane->stream->lost, 1, memory_order_relaxed);
			return NULL; /* a handler inside a handler, both inside the agent: counted
				      */
		}
		reset(second);
	}
	return second->real_sp ? enter_above_real(second, site) : second;
}

struct lane *lane_enter_slow(struct lane *lane, const struct call_site *site)
{
	if (!lane->agent_sp)
		return enter_above_real(lane, site);
	switch (unwind_seek(lane, site, lane->agent_sp)) {
	case SEEK_NESTED: /* the agent calls no hook of its own: cannot be */
		return NULL;
	case SEEK_SIGNAL:
		return enter_signal_lane(lane, site);
	case SEEK_LOST:
	case SEEK_NOTHING:
		break;
	}
	return reset(lane);
}
