/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's private memory: pieces cut from maps of 1 MiB, kept by size when
 * given back. A try-lock with bounded spinning guards it: a signal handler that
 * interrupts the holder gets NULL, never a deadlock.
 */
#include "agent/agent.h"

#include <linux/futex.h>
#include <linux/mman.h>

#include "agent/memory_ops.h"
#include "agent/sys.h"

enum {
	ARENA_MAP_BYTES = 1 << 20,
	ARENA_SPINS = 1000,
	ARENA_WAITS = 1000, /* of a tenth of a millisecond, for a holder that lost its processor */
	ARENA_WAIT_NS = 100 * 1000,
	ARENA_LONG_WAITS = 600, /* then of 5 ms: 3 s, on a machine with much to do */
	ARENA_LONG_WAIT_NS = 5 * 1000 * 1000,
	ARENA_MIN_LOG2 = 6,
	ARENA_DROP_BYTES = 16 << 10,
};

bool agent_may_call(void)
{
	if (atomic_load_explicit(&agent.seccomp, memory_order_relaxed))
		return false;
	struct wire_control *control = agent.map.control;
	return !control || !atomic_load_explicit(&control->seccomp, memory_order_relaxed);
}

void *agent_map(size_t bytes)
{
	if (!agent_may_call())
		return NULL;
	void *got = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sys_failed((long)got))
		return NULL;
	if (sys_failed(sys_madvise(got, bytes, MADV_WIPEONFORK))) {
		sys_munmap(got, bytes);
		return NULL;
	}
	sys_madvise(got, bytes, MADV_DONTDUMP); /* a core file is about the program */
	uint32_t index = atomic_fetch_add(&agent.map_count, 1);
	if (index < AGENT_MAPS) {
		agent.maps[index].start = (uintptr_t)got;
		atomic_store(&agent.maps[index].bytes, bytes);
	}
	return got;
}

void agent_unmap(void *memory, size_t bytes)
{
	for (uint32_t i = 0; i < AGENT_MAPS; i++)
		if (agent.maps[i].start == (uintptr_t)memory)
			atomic_store(&agent.maps[i].bytes, 0);
	sys_munmap(memory, bytes);
}

void agent_account(int64_t bytes)
{
	uint64_t before = atomic_fetch_add_explicit(&agent.private_bytes, (uint64_t)bytes,
						    memory_order_relaxed);
	if (agent.map.control)
		atomic_store_explicit(&agent.map.control->agent_bytes, before + (uint64_t)bytes,
				      memory_order_relaxed);
}

static unsigned size_log2(size_t bytes)
{
	unsigned log2 = ARENA_MIN_LOG2;
	while ((size_t)1 << log2 < bytes)
		log2++;
	return log2;
}

/* Who holds a lock: this thread, by its thread pointer. */
static uint32_t lock_owner(void)
{
	return (uint32_t)(thread_pointer() >> 4) | 1;
}

bool agent_lock(_Atomic uint32_t *lock, int spins)
{
	for (int i = 0; i < spins; i++) {
		uint32_t nobody = 0;
		if (atomic_compare_exchange_weak_explicit(lock, &nobody, lock_owner(),
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
		__asm__ volatile("pause");
	}
	return false;
}

void agent_unlock(_Atomic uint32_t *lock)
{
	/* Pairs with the acquire in agent_lock(). */
	atomic_store_explicit(lock, 0, memory_order_release);
}

void agent_break_locks(void)
{
	_Atomic uint32_t *locks[] = {&agent.arena_lock, &agent.grow_lock};
	for (int i = 0; i < 2; i++)
		if (atomic_load(locks[i]) == lock_owner())
			agent_unlock(locks[i]);
}

void agent_break_others_locks(void)
{
	_Atomic uint32_t *locks[] = {&agent.arena_lock, &agent.grow_lock};
	for (int i = 0; i < 2; i++)
		if (atomic_load(locks[i]) != lock_owner())
			agent_unlock(locks[i]);
}

/*
 * The arena's lock is worth waiting for: who gets no memory loses events. Not
 * for a signal handler that interrupted the holder: it would wait for itself. A
 * holder that does not come back in seconds will not: nobody waits so long again.
 */
static bool arena_lock(void)
{
	_Atomic uint32_t *lock = &agent.arena_lock;
	const struct sys_timespec waits[] = {{0, ARENA_WAIT_NS}, {0, ARENA_LONG_WAIT_NS}};
	if (agent_lock(lock, ARENA_SPINS))
		return true;
	int most = ARENA_WAITS;
	if (!atomic_load_explicit(&agent.arena_stuck, memory_order_relaxed))
		most += ARENA_LONG_WAITS;
	for (int i = 0; i < most && agent_may_call(); i++) {
		uint32_t owner = atomic_load_explicit(lock, memory_order_relaxed);
		if (owner == lock_owner() &&
		    !atomic_load_explicit(&agent.shared_tls, memory_order_relaxed))
			return false;
		if (owner)
			sys_futex(lock, FUTEX_WAIT, owner, &waits[i >= ARENA_WAITS], NULL, 0);
		if (agent_lock(lock, 1))
			return true;
	}
	atomic_store_explicit(&agent.arena_stuck, 1, memory_order_relaxed);
	return false;
}

/* Under the lock. */
static void *bump(size_t bytes)
{
	uintptr_t next = atomic_load_explicit(&agent.arena_next, memory_order_relaxed);
	uintptr_t end = atomic_load_explicit(&agent.arena_end, memory_order_relaxed);
	if (end - next < bytes) {
		size_t map_bytes = bytes > ARENA_MAP_BYTES / 4 ? bytes : ARENA_MAP_BYTES;
		void *map = agent_map(map_bytes);
		if (!map || map_bytes == bytes)
			return map;
		next = (uintptr_t)map;
		atomic_store_explicit(&agent.arena_end, next + map_bytes, memory_order_relaxed);
	}
	atomic_store_explicit(&agent.arena_next, next + bytes, memory_order_relaxed);
	return (void *)next;
}

void *arena_take(size_t bytes)
{
	unsigned log2 = size_log2(bytes);
	unsigned slot = log2 - ARENA_MIN_LOG2;
	if (slot >= sizeof agent.arena_free / sizeof agent.arena_free[0] || !arena_lock())
		return NULL;
	bytes = (size_t)1 << log2;
	void *piece = (void *)atomic_load_explicit(&agent.arena_free[slot], memory_order_relaxed);
	bool used = piece != NULL;
	if (used)
		atomic_store_explicit(&agent.arena_free[slot], *(uintptr_t *)piece,
				      memory_order_relaxed);
	else
		piece = bump(bytes);
	agent_unlock(&agent.arena_lock);
	if (used)
		memset(piece, 0,
		       bytes); /* else it came from the kernel, and is touched as it is used */
	if (piece)
		agent_account((int64_t)bytes);
	return piece;
}

/* The kernel has its pages back until the piece is used again. */
static void drop_pages(void *memory, size_t bytes)
{
	uintptr_t start = ((uintptr_t)memory + AGENT_PAGE - 1) & ~(uintptr_t)(AGENT_PAGE - 1);
	uintptr_t end = ((uintptr_t)memory + bytes) & ~(uintptr_t)(AGENT_PAGE - 1);
	if (agent_may_call())
		sys_madvise((void *)start, end - start, MADV_DONTNEED);
}

void arena_give(void *memory, size_t bytes)
{
	unsigned slot = size_log2(bytes) - ARENA_MIN_LOG2;
	if (memory && (size_t)1 << size_log2(bytes) >= ARENA_DROP_BYTES)
		drop_pages(memory, (size_t)1 << size_log2(bytes));
	if (!memory || !arena_lock())
		return; /* lost: a bounded trickle, only when interrupted inside the arena */
	*(uintptr_t *)memory = atomic_load_explicit(&agent.arena_free[slot], memory_order_relaxed);
	atomic_store_explicit(&agent.arena_free[slot], (uintptr_t)memory, memory_order_relaxed);
	agent_unlock(&agent.arena_lock);
	agent_account(-((int64_t)1 << size_log2(bytes)));
}
