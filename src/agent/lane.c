/* SPDX-License-Identifier: Apache-2.0 */
/* Entering a lane while its thread is inside of a recorded call, or of the agent. */
#include "agent/lane.h"

#include "agent/attach.h"
#include "agent/hook.h"
#include "agent/real.h"
#include "agent/unwind.h"

enum {
	ALLOCATOR_STACK_BYTES = 64 << 10, /* more than an allocator's own frames need */
	CXX_THROW_BYTES = 512,            /* __cxa_allocate_exception is shorter */
};

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
		lane->signal_lane = lane_make(1);
	struct lane *second = lane->signal_lane;
	if (second)
		second->first = lane;
	if (!second || (second->tid != lane->tid && !lane_take_over(second, lane->tid))) {
		atomic_fetch_add_explicit(&lane->stream->lost, 1, memory_order_relaxed);
		return NULL;
	}
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
