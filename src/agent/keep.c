/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   private maps     are kept over this fork, and wiped over the next ones as ever
 *   struct agent     is wiped as ever, so that handlers of fork's that allocate in the
 *                    child pass by us; then it becomes what it was, switched off
 *   shared memory    is not there in the child; private memory takes its place,
 *                    whose control page says that recording is off
 *
 * Known limits: a fork that does not come by us (a raw clone) or whose stack cannot
 * be followed (in musl, static), and handlers of fork's that map memory where the shared
 * one was. Then the child has nothing of ours, as any other.
 */
#include "agent/keep.h"

#include <linux/mman.h>

#include "agent/hook.h"
#include "agent/memory_ops.h"
#include "agent/sys.h"

enum { LOCK_SPINS = 100, LOCK_YIELDS = 10000, SETMASK = 2 };

static void advise(int advice)
{
	for (uint32_t i = 0; i < AGENT_MAPS; i++) {
		size_t bytes = atomic_load(&agent.maps[i].bytes);
		if (bytes)
			sys_madvise((void *)agent.maps[i].start, bytes, advice);
	}
}

/* Its holder may wait for a fork of another thread to be done with the list of mappings. */
static bool lock_keepers(void)
{
	for (int i = 0; i < LOCK_YIELDS; i++) {
		if (agent_lock(&agent.keep_lock, LOCK_SPINS))
			return true;
		sys_sched_yield();
	}
	return false;
}

/* Several threads may be at it at once: the first keeps the maps, the last lets go of them. */
static bool count_keepers(int step)
{
	const uint64_t all = ~0ull;
	uint64_t mask;
	sys_sigprocmask(SETMASK, &all, &mask); /* no handler is to wait for its own thread */
	bool locked = lock_keepers();
	if (locked) {
		uint32_t before = agent.keepers;
		agent.keepers += (uint32_t)step;
		if (!before)
			advise(MADV_KEEPONFORK);
		else if (!agent.keepers)
			advise(MADV_WIPEONFORK);
		agent_unlock(&agent.keep_lock);
	}
	sys_sigprocmask(SETMASK, &mask, NULL);
	return locked;
}

static bool interrupts_us(struct lane *lane, const struct call_site *site)
{
	hook_raise(lane, site);
	bool found = unwind_interrupts_us(lane, site);
	hook_lower(lane);
	return found;
}

bool keep_begin(struct keep *ret, struct lane *lane, const struct call_site *site)
{
	if (atomic_load(&agent.map_count) > AGENT_MAPS || !interrupts_us(lane, site))
		return false;
	void *copy = sys_mmap(NULL, sizeof agent, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed((long)copy))
		return false;
	memcpy(copy, &agent, sizeof agent);
	*ret = (struct keep){copy, agent.map.control, agent.map.control->total_bytes};
	if (!count_keepers(1)) {
		sys_munmap(copy, sizeof agent);
		return false;
	}
	atomic_store(&agent_fixed.keeper, thread_pointer());
	return true;
}

/* False: something else is there by now. */
static bool map_in_place(const struct keep *keep)
{
	void *got =
		sys_mmap(keep->control, keep->bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (got == keep->control)
		return true;
	if (!sys_failed((long)got)) /* a kernel that takes the address as a hint */
		sys_munmap(got, keep->bytes);
	return false;
}

/* Its own children have it as it has: in the handler they, too, may come back into our code. */
static void go_on_in_child(const struct keep *keep)
{
	if (!map_in_place(keep))
		return;
	atomic_store(&keep->control->state, WIRE_OFF);
	atomic_store(&keep->agent->state, AGENT_PASS);
	memcpy(&agent, keep->agent, sizeof agent);
	agent.page = &agent.own_page; /* the one that there was is not here */
	atomic_store(&agent.init_lock, 0);
	agent_break_others_locks();
	sys_madvise(&agent, sizeof agent, MADV_KEEPONFORK);
}

void keep_nothing(struct lane *lane)
{
	if (atomic_load(&agent_fixed.keeper) == thread_pointer())
		return; /* the C library's fork calls its _Fork: it is the outer one's to do */
	if (lane->first)
		lane->first->stream = NULL;
	if (lane->stream)
		lane->stream = NULL;
}

void keep_end(const struct keep *keep, int pid)
{
	if (pid)
		count_keepers(-1);
	else
		go_on_in_child(keep);
	atomic_store(&agent_fixed.keeper, 0);
	sys_munmap(keep->agent, sizeof agent);
}
