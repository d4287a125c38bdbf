/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlockall. The kernel would give the shared memory all its pages, most of it
 * nodes that no stack has needed yet, and count them as the program's. So the end
 * of the node array is not to be touched while the call lasts, which keeps the
 * kernel from filling it, and afterwards the shared memory is unlocked.
 *
 *   nodes:  | in use | ahead: for stacks that are new meanwhile | gap | shut |
 *
 * Meanwhile the array counts as full at the end of what is ahead. Who has read
 * its count before that takes one of the next nodes: the gap has one for each
 * thread. Torn out of the call (siglongjmp), that is how it stays.
 *
 * Known limits: with a finite RLIMIT_MEMLOCK the kernel compares all of the
 * address space with it first, ours included (docs/limits.md).
 */
#include "agent/entry.h"

#include <linux/mman.h>

#include "agent/sys.h"

enum {
	SYS_NR_MUNLOCK_ = 150,
	NODES_AHEAD = 1 << 19,
	NODES_GAP = 1 << 16,
};

/* What was shut. */
struct shut {
	char *start;
	size_t bytes;
	uint32_t node_count; /* before */
};

static void set_node_count(uint32_t count)
{
	/* Relaxed: whoever still goes by the other count is provided for. */
	__atomic_store_n(&agent.map.node_count, count, __ATOMIC_RELAXED);
}

/* False: the array is as it was. */
static bool shut_nodes(struct shut *ret)
{
	uint32_t count = agent.map.node_count;
	uint32_t used = atomic_load_explicit(&agent.map.control->nodes_next, memory_order_relaxed);
	if (used >= count || count - used <= NODES_AHEAD + NODES_GAP)
		return false;
	uintptr_t start = (uintptr_t)&agent.map.nodes[used + NODES_AHEAD + NODES_GAP];
	uintptr_t end = (uintptr_t)&agent.map.nodes[count];
	start = (start + AGENT_PAGE - 1) & ~(uintptr_t)(AGENT_PAGE - 1);
	end &= ~(uintptr_t)(AGENT_PAGE - 1);
	*ret = (struct shut){(char *)start, end - start, count};
	set_node_count(used + NODES_AHEAD);
	if (!sys_failed(sys_mprotect(ret->start, ret->bytes, PROT_NONE)))
		return true;
	set_node_count(count);
	return false;
}

static void open_nodes(const struct shut *shut)
{
	if (!sys_failed(sys_mprotect(shut->start, shut->bytes, PROT_READ | PROT_WRITE)))
		set_node_count(shut->node_count);
}

/* The filter is its last part. */
static long session_bytes(void)
{
	return (char *)agent.map.filter + WIRE_FILTER_BYTES - (char *)agent.map.control;
}

__attribute__((noinline)) static int lock_without_ours(int flags)
{
	struct shut shut = {0};
	bool is_shut = shut_nodes(&shut);
	int result = real.mlockall(flags);
	if (!result)
		sys_call3(SYS_NR_MUNLOCK_, (long)agent.map.control, session_bytes(), 0);
	if (is_shut)
		open_nodes(&shut);
	return result;
}

EXPORT int mlockall(int flags)
{
	if (unlikely(!real.mlockall))
		real_resolve();
	if (!(flags & MCL_CURRENT) || !agent_records() || !agent_may_call() ||
	    !agent_lock(&agent.mlock_lock, 1))
		return real.mlockall(flags);
	int result = lock_without_ours(flags);
	agent_unlock(&agent.mlock_lock);
	return result;
}
