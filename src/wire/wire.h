/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agent and collector share: one memfd per recorded process image.
 * Freestanding-safe: included by the agent and by the tools.
 *
 *   offset 0                control page(s)     struct wire_control
 *   control.streams_offset  stream records      struct wire_stream [stream_count]
 *   control.chunks_offset   chunk pool          struct wire_chunk  [chunk_count]
 *   control.nodes_offset    stack nodes         struct wire_node   [node_count]
 *   control.patches_offset  what to patch       struct wire_patches (site.h), if any
 *   control.filter_offset   sampled blocks      counters by address (filter.h)
 *
 * Words used below:
 *   stream  the sequence of events of one thread (or of signal handlers that
 *           interrupted the agent in that thread); a chain of chunks
 *   chunk   32 KiB of events; owned by one stream, or free, or being drained
 *   node    one frame of a stack: parent node + return address + module
 *   stamp   the low 56 bits of the time-stamp counter (or of nanoseconds)
 *
 * Either side may be hostile or dead: copy, then check; every index is checked
 * against the count before use; no side waits for the other without a bound.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum {
	WIRE_MAGIC = 0x6b6d6474, /* "tdmk" */
	WIRE_VERSION = 5,
	WIRE_PAGE_BYTES = 4096,
	WIRE_CHUNK_BYTES = 32 * 1024,
	WIRE_CHUNK_HEADER_BYTES = 64,
	WIRE_CHUNK_WORDS = (WIRE_CHUNK_BYTES - WIRE_CHUNK_HEADER_BYTES) / 8,
	WIRE_CHUNK_COUNT = 256,            /* default pool: 8 MiB */
	WIRE_STREAM_COUNT = 16384,         /* live threads at most; 1 more is counted as lost */
	WIRE_NODE_COUNT = 4 * 1024 * 1024, /* default cap; 64 MiB sparse */
	WIRE_DEPTH_MAX = 1024,
	WIRE_NONE = 0, /* no chunk / no node / no stream: indices are stored plus 1, nodes count
			  from 1 */
};

/* control.state: written by the collector, and by the agent only to WIRE_OFF. */
enum wire_state {
	WIRE_IDLE = 0,    /* not yet started, or dormant: hooks pass through */
	WIRE_RECORD = 1,  /* every event */
	WIRE_PAUSED = 2,  /* frees only */
	WIRE_OFF = 3,     /* for good; off_reason says why */
	WIRE_SAMPLED = 4, /* some allocations; ends of what the filter knows (filter.h) */
	/* Likewise, but every end: the filter does not yet know what was recorded before. */
	WIRE_SAMPLED_ALL = 5,
};

enum wire_off_reason {
	WIRE_OFF_NONE = 0,
	WIRE_OFF_STOPPED = 1,        /* the collector asked for it */
	WIRE_OFF_COLLECTOR_DEAD = 2, /* robust futex says the owner died */
	WIRE_OFF_COLLECTOR_STUCK =
		3, /* somebody waited, and nothing was drained: WIRE_STUCK_NS, WIRE_SLOW_NS */
	WIRE_OFF_NO_MEMORY = 4,
	WIRE_OFF_INTERNAL = 5,
};

/* How long a thread waits for a collector that is stopped, and for one that is slow. */
#define WIRE_STUCK_NS (5ull * 1000 * 1000 * 1000)
#define WIRE_SLOW_NS  (30ull * 1000 * 1000 * 1000)

/* control.options */
enum {
	WIRE_OPT_FREE_STACKS = 1u << 0, /* frees carry their stack */
	WIRE_OPT_DROP = 1u << 1,        /* pool empty: drop and count instead of waiting */
	WIRE_OPT_CLOCK_NS = 1u << 2,    /* stamps are CLOCK_MONOTONIC nanoseconds, not TSC */
	WIRE_OPT_FOLLOW_FORK = 1u << 3, /* forked children connect by themselves (--children) */
	WIRE_OPT_NO_MAPS = 1u << 4,     /* do not record mmap and friends */
	WIRE_OPT_USR1 = 1u << 5,        /* SIGUSR1, where it would end the program, is for us */
	WIRE_OPT_STARTER = 1u << 6,     /* what this program starts is recorded, too */
};

struct wire_control {
	/* Written once by the collector before the agent sees the page. */
	uint32_t magic;
	uint32_t version;
	char tool_version[24];
	uint64_t total_bytes;
	uint64_t streams_offset;
	uint64_t chunks_offset;
	uint64_t nodes_offset;
	uint32_t stream_count;
	uint32_t chunk_count;
	uint32_t node_count;
	uint32_t depth;   /* frames kept, 1..WIRE_DEPTH_MAX */
	uint32_t options; /* WIRE_OPT_* */
	uint32_t reserved0;
	uint64_t patches_offset; /* struct wire_patches (site.h) */
	uint64_t patches_bytes;  /* 0: none */
	uint64_t filter_offset;
	uint64_t filter_bytes; /* WIRE_FILTER_BYTES */
	uint64_t sample_seed;  /* 0: of the agent's choice */

	/* Collector -> agent. */
	_Atomic uint32_t state; /* enum wire_state */
	_Atomic uint32_t
		owner; /* robust futex: tid of the drain thread, FUTEX_OWNER_DIED when gone */
	_Atomic uint64_t progress; /* rises with each drain pass, and chunk that comes back */
	_Atomic uint32_t seccomp;  /* not 0: the target has a seccomp filter; the agent makes no
				      system call */
	/* State SAMPLED and SAMPLED_ALL: log2 of the interval, WIRE_SAMPLING_PAUSED added where no
	 * allocation is to be recorded. */
	_Atomic uint32_t sampling;
	/* Rises every second or so, also where the drain thread waits for a disk or processor. */
	_Atomic uint64_t alive;
	/* Written once, as the above: a stamp of now, for an agent that may read no clock. */
	uint64_t first_stamp;
	uint8_t pad1[64 - 40];

	/* The pool of free chunks: {tag:32, index+1:32}. A Treiber stack through chunk.next. */
	_Atomic uint64_t pool_head;
	_Atomic uint32_t pool_free;    /* about how many are free; a hint */
	_Atomic uint32_t pool_seq;     /* futex: rises when chunks come back while somebody waits */
	_Atomic uint32_t pool_waiters; /* threads waiting on pool_seq */
	_Atomic uint32_t
		asleep; /* futex: 1 while the collector sleeps; a waiter sets 0 and wakes */
	uint8_t pad2[64 - 24];

	/* Agent -> collector. */
	_Atomic uint32_t streams_high; /* streams [0, streams_high) have ever been used */
	_Atomic uint32_t
		nodes_next; /* next free node id (ids from 1); may exceed node_count: clamp */
	_Atomic uint32_t off_reason;    /* enum wire_off_reason */
	_Atomic uint32_t agent_ready;   /* 1 once hooks are live */
	_Atomic uint64_t lost;          /* events lost outside any stream */
	_Atomic uint64_t agent_bytes;   /* private memory the agent has mapped and touched, about */
	_Atomic uint64_t thread_serial; /* next serial for a stream */
	_Atomic uint32_t quick_barrier; /* 1: registered for MEMBARRIER_CMD_GLOBAL_EXPEDITED */
	_Atomic uint32_t usr1;          /* SIGUSR1s that came for us */
	uint8_t pad3[64 - 48];
};
_Static_assert(sizeof(struct wire_control) == 320, "control layout");

/* stream.state */
enum {
	WIRE_STREAM_FREE = 0,
	WIRE_STREAM_ACTIVE = 1,
	WIRE_STREAM_GONE =
		2, /* set by the collector: the thread no longer exists; the slot may be claimed */
	WIRE_STREAM_CLOSED =
		3, /* set by the agent: the thread pointer was taken over by a new thread */
};

/*
 * One per live thread. `busy` and `revoke` are an asymmetric handshake: the
 * thread stores busy=1, then loads revoke (compiler barrier only); the
 * collector stores revoke=1, runs membarrier(GLOBAL), then waits for busy==0.
 * From then on the thread's chunk is the collector's; the thread, when it next
 * emits, sees revoke, takes a fresh chunk, stores head and head_seq+1, then revoke=0:
 * in this order, so that a collector which finds its request gone finds the new
 * head, too. (Asking again before the first new chain was followed would lose it.)
 */
struct wire_stream {
	_Atomic uint32_t state;  /* WIRE_STREAM_* */
	_Atomic uint32_t tid;    /* as the target's pid namespace sees it */
	_Atomic uint64_t serial; /* unique in the session; 0 = none */
	_Atomic uint32_t
		head; /* index+1 of the first chunk of the chain (since head_seq changed) */
	_Atomic uint32_t head_seq; /* rises when head is set anew: at start and after a revoke */
	_Atomic uint32_t busy;
	_Atomic uint32_t revoke;
	_Atomic uint32_t lane; /* 0 the thread itself, 1 its signal handlers inside the agent */
	/* Who opened it: by the time the collector looks, `tid` may be that of a thread after it.
	 */
	_Atomic uint32_t first_tid;
	/* Counters, written by the owner only (relaxed), read by the collector. */
	_Atomic uint64_t lost;      /* events dropped */
	_Atomic uint64_t waited_ns; /* time spent waiting for a chunk */
	_Atomic uint64_t cut; /* events whose stack was cut (depth, node cap, bounded steps) */
	_Atomic uint64_t fp_frames; /* frames found by frame pointer */
	_Atomic uint64_t frames;    /* frames stepped, for statistics */
	_Atomic uint64_t unwinds;
	_Atomic uint64_t cost; /* ticks of the stamps' clock spent on sampled blocks */
	_Atomic uint64_t samples;
	uint8_t pad[128 - 104];
};
_Static_assert(sizeof(struct wire_stream) == 128, "stream layout");

struct wire_chunk {
	_Atomic uint32_t next; /* free: next free chunk + 1. In a stream: the following chunk + 1,
				  set after the last commit */
	_Atomic uint32_t committed; /* words published; release store by the thread, acquire load by
				       the collector */
	_Atomic uint64_t serial;    /* of the stream it belongs to */
	uint32_t stream;            /* index of that stream */
	uint8_t pad[WIRE_CHUNK_HEADER_BYTES - 20];
	uint64_t words[WIRE_CHUNK_WORDS];
};
_Static_assert(sizeof(struct wire_chunk) == WIRE_CHUNK_BYTES, "chunk layout");

/*
 * A stack node. Ids count from 1; 0 is the root (no frame). Written before the
 * id is published in an event. Two nodes may be equal (a lost race): the
 * collector makes ids canonical. parent < own id always.
 */
struct wire_node {
	uint32_t parent;
	uint32_t module; /* module instance id (from WIRE_EV_MODULE), 0 unknown; WIRE_MODULE_* */
	uint64_t pc; /* return address as found; bit 63 set: exact pc (interrupted instruction) */
};
_Static_assert(sizeof(struct wire_node) == 16, "node layout");

enum {
	WIRE_MODULE_NONE = 0,          /* code of no known module: JIT, anonymous */
	WIRE_MODULE_MARK = 0xffffffff, /* pc is one of enum wire_mark, not an address */
};
enum wire_mark {
	WIRE_MARK_CUT = 1,      /* frames are missing here (too deep) */
	WIRE_MARK_NODE_CAP = 2, /* the node array is full */
	WIRE_MARK_NO_STACK = 3, /* not unwound (init, no memory) */
};
#define WIRE_PC_EXACT (1ull << 63)

/*
 * Events. Word 0 is always  stamp << 8 | api << 4 | op.
 * ALLOC-like:  w1 = address  w2 = node << 32 | size           (size < 2^32, no alignment)
 * *_WIDE:      w1 = address  w2 = node << 32 | sampling << 8 | log2 alignment  w3 = size
 *              (sampling: log2 of the interval it was chosen with; 0 it was not chosen)
 * A free, and the begin half of a realloc, is published before the real call;
 * an allocation, and the end half, after it.
 */
enum wire_op {
	WIRE_OP_NONE = 0,
	WIRE_OP_ALLOC = 1,            /* 3 words */
	WIRE_OP_ALLOC_WIDE = 2,       /* 4 words */
	WIRE_OP_FREE = 3,             /* 2 words: w1 = address */
	WIRE_OP_FREE_STACK = 4,       /* 3 words: w1 = address, w2 = node << 32 */
	WIRE_OP_REALLOC_BEGIN = 5,    /* 2 words: w1 = old address */
	WIRE_OP_REALLOC_END = 6,      /* 3 words, as ALLOC: the new block */
	WIRE_OP_REALLOC_END_WIDE = 7, /* 4 words */
	WIRE_OP_REALLOC_FAIL = 8, /* 3 words: w1 = size, w2 = node << 32: the old block lives on */
	WIRE_OP_ALLOC_FAIL = 9,   /* 3 words: w1 = size, w2 = node << 32 */
	WIRE_OP_EXTRA = 10, /* w1 = enum wire_extra | words << 16 (all words incl. w0, w1); payload
			       follows */
	WIRE_OP_BORN = 11,  /* 2 words: w1 = address of a block allocated while paused */
	/* 2 words, w1 = 0: the realloc that this thread began made a block that is not sampled */
	WIRE_OP_PASSED = 12,
	/* As FREE and REALLOC_BEGIN, of what may be a block that is outside (filter.h) */
	WIRE_OP_FREE_OUTSIDE = 13,
	WIRE_OP_REALLOC_BEGIN_OUTSIDE = 14,
};

enum { WIRE_SAMPLING_PAUSED = 1u << 8, WIRE_SAMPLING_LOG2 = 63 };

/* Which family of entry points; the api field. */
enum wire_api {
	WIRE_API_MALLOC = 0,
	WIRE_API_CALLOC = 1,
	WIRE_API_REALLOC = 2,
	WIRE_API_ALIGNED = 3, /* posix_memalign, aligned_alloc, memalign, valloc, pvalloc */
	WIRE_API_NEW = 4,     /* operator new where it does not end in malloc */
	WIRE_API_JEMALLOC = 5,
	WIRE_API_MIMALLOC = 6,
	WIRE_API_TCMALLOC = 7,
	WIRE_API_CUSTOM = 8,
};

enum wire_extra {
	WIRE_EV_MODULE = 1,       /* struct wire_ev_module, build-id, path */
	WIRE_EV_UNMODULE = 2,     /* w2 = module instance id: unmapped */
	WIRE_EV_THREAD_NAME = 3,  /* w2, w3 = 16 bytes of name */
	WIRE_EV_MMAP = 4,         /* struct wire_ev_map */
	WIRE_EV_MUNMAP = 5,       /* w2 = address, w3 = length; before the call */
	WIRE_EV_MUNMAP_FAIL = 6,  /* w2 = address, w3 = length: undo */
	WIRE_EV_MREMAP_BEGIN = 7, /* w2 = address, w3 = old length; before the call */
	WIRE_EV_MREMAP_END =
		8, /* struct wire_ev_map: the new place; w7 = old address, w8 = old length */
	WIRE_EV_MREMAP_FAIL = 9, /* w2 = address, w3 = old length: undo */
	WIRE_EV_MPROTECT = 10,   /* w2 = address, w3 = length, w4 = prot; after success */
	WIRE_EV_MADVISE = 11,    /* w2 = address, w3 = length, w4 = advice; after success (DONTNEED,
				    FREE, REMOVE only) */
	WIRE_EV_BRK = 12,        /* w2 = old break, w3 = new break, w4 = node; after success */
	WIRE_EV_FORK = 13,      /* w2 = 0, before the call: orders the child's inherited live set */
	WIRE_EV_FORKED = 14,    /* w2 = child pid (or 0 if it failed), after */
	WIRE_EV_EXEC = 15,      /* before the call */
	WIRE_EV_EXEC_FAIL = 16, /* it returned */
	WIRE_EV_EXIT = 17,      /* w2 = status, w3 = enum wire_exit_how; before the call */
	WIRE_EV_THREAD_EXIT = 18, /* best effort */
	WIRE_EV_UNHOOKED = 19,    /* w2.. = text: an allocator that could not be hooked */
	WIRE_EV_THREAD = 20, /* w2 = tid, w3 = serial: from here on this stream's events are another
			      * thread's (the old one ended, the new one has its thread pointer) */
	/* All blocks of a heap end: w2 = the heap's key, w3 = address, w4 = bytes (0, 0: all). */
	WIRE_EV_HEAP_DISCARD = 21,
	/* Memory that a heap hands out from now on: w2 = the heap's key, w3 = its parent's (0:
	 * malloc or a mapping), w4 = address, w5 = bytes */
	WIRE_EV_HEAP_GROW = 22,
	WIRE_EV_MARK = 23,    /* w2.. = text, padded with zeros: the program names this moment */
	WIRE_EV_SPAWNED = 24, /* a child was made, or is about to be, that executes at once */
};

/*
 * Blocks of a named heap (WIRE_API_CUSTOM) have the heap's key in the upper bits
 * of their address: a piece may begin where the block of its parent does.
 */
enum { WIRE_HEAP_SHIFT = 48 };
#define WIRE_ADDRESS_MASK ((1ull << WIRE_HEAP_SHIFT) - 1)

enum wire_exit_how {
	WIRE_EXIT_EXIT = 0,
	WIRE_EXIT_UNDERSCORE = 1,
	WIRE_EXIT_QUICK = 2,
	WIRE_EXIT_ABORT = 3
};

/* Payload from w2 on. */
struct wire_ev_module {
	uint64_t instance; /* id, from 1 */
	uint64_t bias;     /* load bias: run-time address = bias + ELF address */
	uint64_t start;    /* lowest and one past the highest mapped address */
	uint64_t end;
	uint32_t build_id_bytes; /* at most 64 */
	uint32_t path_bytes;     /* at most 4096; "" = main program, "[vdso]" */
				 /* build-id padded to 8 bytes, then the path padded to 8 bytes */
};
struct wire_ev_map {
	uint64_t address;
	uint64_t bytes;
	uint32_t prot;
	uint32_t flags;       /* mmap's flags */
	uint64_t node_and_fd; /* node << 32 | (fd + 1) & 0xffffffff: 0 = no file */
	uint64_t offset;
};

#define WIRE_EXTRA_WORDS_MAX 600u

/* Number of words of an event whose first two words are given, or 0 if it is malformed. */
static inline unsigned wire_event_words(uint64_t w0, uint64_t w1)
{
	switch ((enum wire_op)(w0 & 15)) {
	case WIRE_OP_ALLOC:
	case WIRE_OP_FREE_STACK:
	case WIRE_OP_REALLOC_END:
	case WIRE_OP_REALLOC_FAIL:
	case WIRE_OP_ALLOC_FAIL:
		return 3;
	case WIRE_OP_ALLOC_WIDE:
	case WIRE_OP_REALLOC_END_WIDE:
		return 4;
	case WIRE_OP_FREE:
	case WIRE_OP_REALLOC_BEGIN:
	case WIRE_OP_BORN:
	case WIRE_OP_PASSED:
	case WIRE_OP_FREE_OUTSIDE:
	case WIRE_OP_REALLOC_BEGIN_OUTSIDE:
		return 2;
	case WIRE_OP_EXTRA: {
		uint64_t words = w1 >> 16;
		return words >= 2 && words <= WIRE_EXTRA_WORDS_MAX ? (unsigned)words : 0;
	}
	case WIRE_OP_NONE:
		break;
	}
	return 0;
}

/*
 * Rendezvous. TIDEMARK_SESSION holds "<abstract socket name>:<32 hex digits of
 * token>". The agent connects (SOCK_STREAM), sends wire_hello, receives wire_welcome; with
 * accept == 1 one descriptor comes along (SCM_RIGHTS): the memfd.
 */
#define WIRE_SESSION_ENV "TIDEMARK_SESSION"
struct wire_hello {
	uint32_t magic;
	uint32_t version;
	char agent_version[24];
	char token[32];
	uint32_t pid;    /* as the target sees itself (EXEC, SPAWN: the thread); the collector
			  * prefers SO_PEERCRED for the process */
	uint32_t forked; /* enum wire_hello_kind */
	uint64_t glue;   /* where stubs of patched functions jump to (site.h); 0: all is patched */
	uint32_t closes; /* LOADED: how often libraries were unloaded */
	uint32_t reserved;
};
enum wire_hello_kind {
	WIRE_HELLO_IMAGE = 0, /* a program has just been started */
	WIRE_HELLO_FORKED = 1,
	WIRE_HELLO_WOKEN = 2, /* runs already, and was not recorded until now */
	/* A thread is about to execute (EXEC), or to start in a child (SPAWN), a program that no
	 * loader brings an agent to: struct wire_ask follows. The answer has no descriptor. accept
	 * == 1: the program will be entered; the connection stays until the execution, or until a
	 * byte says that it is over. Where the question gives a reason, the answer is no: it is
	 * only told why the program will not be recorded. */
	WIRE_HELLO_EXEC = 3,
	WIRE_HELLO_SPAWN = 4,
	/* Libraries were loaded. The descriptor, if one comes, is of a file that begins with struct
	 * wire_patches (site.h): what is to be patched in them. */
	WIRE_HELLO_LOADED = 5,
};
enum wire_unfit {
	WIRE_UNFIT_NOT = 0,        /* it can be entered */
	WIRE_UNFIT_32_BIT = 1,     /* it is a 32-bit program */
	WIRE_UNFIT_FOREIGN = 2,    /* it is for another processor */
	WIRE_UNFIT_PRIVILEGED = 3, /* it gains rights, so its loader takes no agent */
	WIRE_UNFIT_NO_AGENT = 4,   /* the agent's file is not there for it */
};
struct wire_ask {
	char program[252]; /* its path, cut if need be */
	uint32_t unfit;    /* enum wire_unfit */
};
struct wire_welcome {
	uint32_t magic;
	uint32_t version;
	char tool_version[24];
	uint32_t accept; /* 1: record; 0: stay dormant */
	uint32_t reserved;
};
