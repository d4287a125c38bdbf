/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's one state object and the words its files share.
 *
 * The agent runs in somebody else's process. It calls no libc function, owns
 * all its memory, takes no lock that another thread could hold for ever, makes
 * no system call on the way of an event (but to wait for a chunk, to map
 * memory, and once per thread), and when something is wrong it switches itself
 * off and says why in shared memory.
 *
 *   entry_*.c   exported functions: test the state, tail-jump or hook
 *   hook.h      what every hook does around the real call
 *   lane.c      per-thread state; nesting, signals
 *   lane_table.c  whose it is: found by the thread pointer, taken over
 *   unwind.c    the stack as a node id: remember, verify, step
 *   own_stack.c which memory is the thread's own stack, and stays
 *   rows.c      pc -> how to step, cached
 *   intern.c    path hash -> node id
 *   emit.c      events into chunks; waiting; switching off
 *   sample.c    which allocations are recorded where not all are
 *   init.c      finding the real functions, rendezvous, fork
 *   keep.c      fork in a handler that interrupted us
 *   wake.c      sleeping and waking; page.c, usr1.c, selfstart.c: by what
 *
 * Words: a *lane* is what one thread writes with (lane 0), or what signal
 * handlers write with that interrupted the agent itself in that thread (lane 1).
 */
#pragma once

#include "agent/call_site.h"
#include "agent/modules.h"
#include "wire/page.h"
#include "wire/pool.h"
#include "wire/site.h"

#include <stdbool.h>
#include <stdint.h>

#define AGENT_INLINE inline __attribute__((always_inline))
#define AGENT_COLD   __attribute__((cold, noinline))
#define likely(x)    __builtin_expect(!!(x), 1)
#define unlikely(x)  __builtin_expect(!!(x), 0)

/* agent.state. Zero is what fork leaves in a child: the page is wiped. Odd: nothing is emitted. */
enum agent_state {
	AGENT_NEW = 0,  /* not initialised in this process */
	AGENT_PASS = 1, /* hooks pass through */
	AGENT_ON = 2,
	AGENT_DORMANT = 3, /* hooks pass through, until page->wake says otherwise */
	AGENT_SAMPLED = 4, /* on, and malloc and its like may take the short way (sample.h) */
	AGENT_SAMPLED_NESTED = 6, /* likewise, but the allocator may call what is hooked */
};

enum agent_clock {
	AGENT_CLOCK_TSC = 0,
	AGENT_CLOCK_NS = 1,
	AGENT_CLOCK_FROZEN = 2,
};

enum {
	AGENT_SLOTS = 2 * WIRE_STREAM_COUNT, /* thread table; a power of two */
	AGENT_PAGE = 4096,
	AGENT_JIT_REGIONS = 64,
	AGENT_MAPS = 256,   /* private maps that are listed */
	AGENT_STARTS = 256, /* threads on their way at one time; more begin unannounced */
};

struct label_table;
struct label;
struct lane;

/* What a thread that is being made will do; `start` 0: free. */
struct agent_start {
	_Atomic uintptr_t start;
	void *argument;
};

struct agent_slot {
	_Atomic uintptr_t key;       /* thread pointer; 0 free, or LANE_SPENT_KEY */
	_Atomic(struct lane *) lane; /* set after key, and cleared before it */
};

/* Sampling (sample.h): bytes until the next block of a thread that is recorded. */
struct agent_count {
	uint64_t countdown;
	uint32_t gate; /* control.sampling when the countdown was drawn; 0: none was */
};

/* The label of an allocator whose functions were patched; of this session if that is its number. */
struct agent_source {
	_Atomic uint64_t session;
	_Atomic(struct label *) label; /* set before session */
};

/* A private map; 0 bytes: not, or no more. */
struct agent_map {
	uintptr_t start;
	_Atomic size_t bytes; /* set after start */
};

/* A hash table that may lose entries but never lies: see intern.c and rows.c. */
struct agent_table {
	uint64_t mask; /* entries - 1 */
	_Atomic uint64_t used;
	_Atomic uint64_t entries[];
};

/*
 * Everything that must be zero in a forked child: these pages are anonymous
 * memory (.bss) advised MADV_WIPEONFORK. Read `state` first, follow pointers after.
 */
struct agent {
	_Atomic uint32_t state; /* atomic: enum agent_state */
	uint32_t tid_offset;    /* set once in init: where the thread's id is behind the thread
				   pointer; 0 unknown */
	/*
	 * All that malloc and free need while sampling is in one line: the thread pointer of the
	 * first thread (set after its lane), whose count lies beside it in a line of its own, and
	 * the real functions (set before state SAMPLED). Others must not wait for a line that it
	 * writes to.
	 */
	_Atomic uintptr_t first;
	void *(*malloc)(size_t bytes);
	void (*free)(void *block);
	struct wire_filter *filter; /* set before state SAMPLED: that of `map` */
	struct agent_slot *slots;   /* set once in init: AGENT_SLOTS entries */
	struct lane *first_lane;    /* set once, before `first` */
	struct agent_count first_count __attribute__((aligned(64)));
	struct wire_map map __attribute__((aligned(64))); /* set once in init */
	struct wire_page *page;              /* set in init, before state DORMANT; NULL: none */
	_Atomic uint32_t has_first;          /* atomic: somebody has set `first`, or will */
	_Atomic(struct lane *) lanes;        /* atomic: all that were made, newest first */
	_Atomic(struct lane *) hand;         /* atomic: which of them is looked at next; NULL: the
						newest */
	_Atomic(struct lane *) spare;        /* atomic: one that may be free */
	_Atomic uint32_t drought;            /* atomic: so many calls of threads without a lane are
						refused unseen, since there was no room for one */
	_Atomic uint32_t init_lock;          /* atomic: 1 while somebody initialises */
	_Atomic(struct agent_table *) index; /* atomic: path hash -> node */
	_Atomic(struct agent_table *) rows;  /* atomic: pc -> rule */
	_Atomic uint32_t grow_lock;          /* atomic: 1 while somebody grows index or rows */
	_Atomic uint32_t generation; /* atomic: rises when code may have changed at an address */
	uint32_t node_cap_id;  /* set once in init: the node that stands for a full node array */
	uint32_t no_stack_id;  /* set once in init */
	uint32_t own_instance; /* set once in init: the agent's own module instance */
	uint32_t staying;      /* set once in init: instances up to this one are never unloaded */
	_Atomic uint32_t shared_tls;   /* atomic: threads without own thread pointer exist, or
					  tid_offset is unknown: ask the kernel who we are */
	_Atomic uint32_t slow_clock;   /* atomic: enum agent_clock */
	_Atomic uint64_t frozen_stamp; /* atomic: counts on where no clock may be read */
	_Atomic uint32_t seccomp;      /* atomic: a filter was installed: no system calls */
	_Atomic uint32_t mlock_lock;   /* atomic: 1 thread is inside mlockall */
	_Atomic uint32_t arena_lock;   /* atomic */
	_Atomic uint32_t arena_stuck;  /* atomic: its holder did not come back in seconds */
	_Atomic uintptr_t arena_next, arena_end; /* atomic: bump allocator */
	_Atomic uintptr_t arena_free[16];        /* atomic: freed pieces by log2 size */
	_Atomic uint64_t private_bytes;          /* atomic: memory taken, for the report */
	_Atomic uint32_t jit_next;
	_Atomic uint64_t jit_regions[AGENT_JIT_REGIONS]; /* atomic: pc >> 20 of no module */
	_Atomic uint32_t keep_lock;              /* atomic: 1 while somebody counts keepers */
	uint32_t keepers;                        /* under it: threads in a fork that keeps maps */
	_Atomic uint32_t map_count;              /* atomic: may exceed AGENT_MAPS: no more listed */
	struct agent_map maps[AGENT_MAPS];       /* all private maps: keep.c */
	struct agent_start starts[AGENT_STARTS]; /* atomic: claimed by whoever makes a thread */
	struct modules *modules;                 /* set once in init; its own rules: modules.h */
	_Atomic(struct label_table *) labels;    /* atomic: set once; label.c */
	uint64_t session; /* set once in init: tells this session from others */
	struct agent_source sources[WIRE_SITE_SOURCES]; /* atomic: allocators that were patched */
	_Atomic uint32_t closing;                       /* atomic: threads inside dlclose */
	_Atomic uint32_t closes;                        /* atomic: how many dlcloses have ended */
	_Atomic uint32_t closes_seen; /* atomic: `closes` when the module list was last right */
	struct wire_stream nobody;    /* atomic: of lanes of a session before */
	struct wire_page own_page;    /* where no file can be made, or none is wanted */
} __attribute__((aligned(AGENT_PAGE)));

struct agent_island {
	uint64_t address, bytes;
};

/* What is the same in every process of the image: set once, survives fork. */
struct agent_fixed {
	_Atomic uint32_t resolved; /* atomic: real functions are known */
	_Atomic uint32_t
		was_on; /* atomic: this image was recorded: state NEW again means a forked child */
	uint32_t pid;   /* set in init: of the process that was recorded */
	uintptr_t heap_start,
		heap_end;    /* set once in init: jemalloc, mimalloc or tcmalloc; 0 none */
	uintptr_t cxx_throw; /* set once in init: __cxa_allocate_exception, where operator new is
				hooked */
	_Atomic uint64_t objects_added; /* atomic: the loader's count when redirect_late() looked */
	_Atomic uint32_t redirect_due;  /* atomic: something was loaded since */
	uint32_t follow_fork;           /* set once in init */
	uint32_t starter;               /* set in init: what it starts is recorded */
	uint32_t preloaded;             /* set in init: the environment named the session */
	uint32_t no_maps;               /* set once in init */
	uint32_t redirected;            /* set once: session_redirect(), or at the start */
	uint32_t sleeper;               /* set once in init: children have pages of their own */
	char session[WIRE_PAGE_SESSION_BYTES]; /* set in init: where it was recorded first, or "" */
	char page_path[64];                    /* set in init: the page's file, or "" */
	uint32_t filtered; /* set once: it has installed a seccomp filter, which children inherit */
	uintptr_t main_stack_end; /* set once, with the real functions; 0 unknown */
	_Atomic uint32_t no_tsc;  /* atomic: a thread has forbidden itself to read it; its children
				     inherit that */
	/* atomic: the thread whose fork takes our memory along (keep.c); its child begins nothing
	 */
	_Atomic uintptr_t keeper;
	uint32_t injected; /* set once: by a tracer (attach.c); the loader does not know us */
	/* For libraries that were loaded later; changed while there is one thread. */
	struct agent_island islands[WIRE_LATE_ISLANDS];
	uint32_t island_count;
};

extern struct agent agent __attribute__((visibility("hidden")));
extern struct agent_fixed agent_fixed __attribute__((visibility("hidden")));

static inline uintptr_t thread_pointer(void)
{
	uintptr_t fs;
	__asm__("mov %%fs:0, %0" : "=r"(fs));
	return fs;
}

static inline uint64_t read_tsc(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static inline bool agent_records(void)
{
	uint32_t state = atomic_load_explicit(&agent.state, memory_order_relaxed);
	return state == AGENT_ON || state == AGENT_SAMPLED || state == AGENT_SAMPLED_NESTED;
}

#define compiler_barrier() __asm__ volatile("" ::: "memory")

/* ---- init.c ---- */

/* Initialises if that has not been tried in this process. True: recording is on. Resolves the real
 * functions first. */
bool agent_start(void);
/*
 * Everything a session needs once agent.map is there. Also for the next session
 * in the same process: then memory and lanes are used again where they are.
 */
bool session_begin(void);
/* Where in the thread's control block its id is; 0: nowhere. */
uint32_t agent_find_tid(void);
/* Where the loader's list is, for a process that runs already. Before the first session_begin(). */
void session_scope(const struct elf_auxv *auxv);
/* Where the loader has us from; NULL: it does not know us (injected). */
const char *agent_own_path(void);
/* The program's own list of variables as it is now; NULL: not known. */
char *const *agent_environment(void);

/* ---- arena.c: private memory, bounded, never the target's heap ---- */

/* Zeroed memory (a power of two of bytes, up to 1 MiB), or NULL. Wiped by fork. */
void *arena_take(size_t bytes);
/* Gives it back for another arena_take of the same size. Contents need not be zero. */
void arena_give(void *memory, size_t bytes);
/* Whole pages straight from the kernel, zeroed, wiped by fork; NULL when it says no or must not be
 * asked. */
void *agent_map(size_t bytes);
void agent_unmap(void *memory, size_t bytes);
/*
 * A lock that is only tried, so many times, and never waited for. Its owner is
 * known by the thread pointer, so that a thread that was torn out of it
 * (siglongjmp) can break its own.
 */
bool agent_lock(_Atomic uint32_t *lock, int spins);
void agent_unlock(_Atomic uint32_t *lock);
void agent_break_locks(void);
/* In a forked child: locks of threads that are not in it. */
void agent_break_others_locks(void);
/* Private memory in use changed by so much: for the report. */
void agent_account(int64_t bytes);
/* May the agent make system calls now? */
bool agent_may_call(void);
