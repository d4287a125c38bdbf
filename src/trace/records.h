/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain values that travel between collector, model, trace file, importers
 * and views. No behaviour here. docs/trace-format.md says how they are stored.
 *
 * Words:
 *   section  one process image (an exec starts a new one) inside a trace file
 *   block    what malloc returned; numbered by `block_id`, the ordinal of its
 *            allocation in the section, counted from 0 over ALLOC, REALLOC_ALLOC
 *   stack    a path of frames; `stack_id` counts from 1 in order of appearance;
 *            0 = empty. A stack is its parent stack plus one frame (the leaf).
 *   thread   `thread_id` counts from 0 in order of appearance; never reused
 */
#pragma once

#include "trace/unknown.h"
#include "trace/weight.h"

#include <stdbool.h>
#include <stdint.h>

#define TRACE_NO_BLOCK UINT64_MAX
/* While recording, blocks of named heaps carry their heap's key above these bits: not stored. */
#define TRACE_ADDRESS_MASK ((1ull << 48) - 1)

enum trace_op {
	TRACE_ALLOC = 0,
	TRACE_FREE = 1,
	/* The begin half of a realloc: ends the old block. */
	TRACE_REALLOC_FREE = 2,
	/* The end half: begins the new block, continues the one this thread ended last so. */
	TRACE_REALLOC_ALLOC = 3,
	/* It failed: the block this thread ended last so lives on; also a failed allocation. */
	TRACE_REALLOC_UNDO = 4,
	/* A failed allocation; changes nothing else. */
	TRACE_ALLOC_FAIL = 5,
	/* Made by the collector: an allocation came on a live address, so this one was freed. */
	TRACE_FREE_UNSEEN = 6,
	/* A free of a block that was never seen (older than the recording). */
	TRACE_FREE_OLDER = 7,
	TRACE_OP_COUNT = 8,
};

/* Same numbers as enum wire_api. */
enum trace_api {
	TRACE_API_MALLOC = 0,
	TRACE_API_CALLOC,
	TRACE_API_REALLOC,
	TRACE_API_ALIGNED,
	TRACE_API_NEW,
	TRACE_API_JEMALLOC,
	TRACE_API_MIMALLOC,
	TRACE_API_TCMALLOC,
	TRACE_API_CUSTOM,
	TRACE_API_COUNT,
};

/*
 * One heap event, 48 bytes. Batches of these flow: collector -> model (fills
 * block_id, and for frees stack_id and size_bytes of the block) -> writer.
 */
struct trace_event {
	uint64_t time_ns;    /* since the section's start; never falls from event to event */
	uint64_t address;    /* of the block; 0 where the trace has no addresses */
	uint64_t size_bytes; /* requested; of a free: the block's, filled by the model. Where blocks
				are sampled: a size word (weight.h) */
	uint64_t block_id;   /* allocation ordinal; of a free: the block's, or TRACE_NO_BLOCK */
	uint32_t stack_id;   /* of the allocation; of a free: the block's, filled by the model */
	uint32_t free_stack_id; /* of the free, 0 unless --free-stacks */
	uint32_t thread_id;
	uint8_t op;         /* enum trace_op */
	uint8_t api;        /* enum trace_api */
	uint8_t align_log2; /* 0 = none asked */
	uint8_t flags;      /* TRACE_EVENT_* */
};
enum {
	/* On a free: this thread's next heap event after allocating this block. Filled by the
	 * model; not stored, since it can be derived. */
	TRACE_EVENT_TEMPORARY = 1u << 0,
	/* On a free: the block was born before the open slice; stack_id and size_bytes are filled.
	 * A reader sets it where it knows them from the journal. */
	TRACE_EVENT_OLD = 1u << 1,
	/* On an end, in the collector only: of a block that the filter counts outside (filter.h of
	 * wire/). */
	TRACE_EVENT_OUTSIDE = 1u << 2,
	/* On a free, where blocks are culled: what this thread did between the birth and this is
	 * not stored, so it is not temporary although it seems so. Stored. */
	TRACE_EVENT_LASTING = 1u << 3,
};

/* A new stack: id is implied by order (1, 2, ...). parent_id < id. */
struct trace_stack {
	uint32_t parent_id;
	uint32_t module_id; /* from 1; 0 none (JIT, anonymous); TRACE_MODULE_MARK: pc is a mark */
	uint64_t pc;        /* return address: look up pc - 1; with TRACE_PC_EXACT the pc itself */
};
#define TRACE_MODULE_MARK 0xffffffffu
#define TRACE_PC_EXACT    (1ull << 63)
enum trace_mark { TRACE_MARK_CUT = 1, TRACE_MARK_NODE_CAP = 2, TRACE_MARK_NO_STACK = 3 };

struct trace_module {
	uint32_t module_id; /* from 1, in order */
	uint64_t bias;      /* run-time address = bias + ELF address */
	uint64_t start;
	uint64_t end;
	uint64_t mapped_ns; /* when it appeared; unmapped_ns UINT64_MAX while mapped */
	uint64_t unmapped_ns;
	uint8_t build_id[64];
	uint32_t build_id_bytes;
	const char *path; /* borrowed; "[vdso]" for the vdso */
};

struct trace_thread {
	uint32_t thread_id;
	uint32_t tid;
	uint64_t start_ns;
	uint64_t end_ns; /* UINT64_MAX while it lives */
	char name[16];   /* NUL-terminated */
};

/* Memory of the process from outside, once per second or faster. */
struct trace_sample {
	uint64_t time_ns;
	uint64_t rss_bytes;
	uint64_t pss_bytes;          /* 0 unknown */
	uint64_t anon_bytes;         /* anonymous resident; 0 unknown */
	uint64_t agent_bytes;        /* the agent's share of the RSS, about */
	uint64_t cgroup_bytes;       /* memory.current; 0 unknown */
	uint64_t cgroup_limit_bytes; /* 0 none or unknown */
};

/*
 * A moment that somebody named, or at which recording was paused or went on. In a pause
 * allocations are not recorded, frees are.
 */
enum trace_moment_kind {
	TRACE_MOMENT_MARK = 0,
	TRACE_MOMENT_PAUSE = 1,
	TRACE_MOMENT_RESUME = 2,
	/* From here on it is recorded in another way, or something was given up: the text says it.
	 * "exact", or "sampled", a space and the interval in bytes (then, in brackets, why, if
	 * nobody asked for it): which blocks are recorded. */
	TRACE_MOMENT_MODE = 3,
	TRACE_MOMENT_KINDS = 4,
};
struct trace_moment {
	uint64_t time_ns; /* never falls from row to row */
	const char *text; /* borrowed; of a mark its name, of a mode a sentence; else "" */
	uint8_t kind;     /* enum trace_moment_kind */
};
enum { TRACE_MOMENT_TEXT_MAX = 1000 };

/* Mapped memory, apart from the heap. */
#include "trace/record_maps.h"

/*
 * Aggregates of one stack within one slice, or (slice_id == 0 rows merged by
 * the reader) of a whole section. Logarithmic buckets: bucket b counts values v
 * with floor(log2(v)) + 1 == b, bucket 0 counts v == 0; sizes in bytes,
 * lifetimes in microseconds.
 */
enum { TRACE_BUCKETS = 48 };
struct trace_death { /* deaths in this slice of blocks born in birth_slice */
	uint32_t birth_slice;
	uint64_t count;
	uint64_t bytes;
};
struct trace_slice_row {
	uint32_t stack_id;
	uint64_t births; /* allocations (ALLOC and REALLOC_ALLOC) */
	uint64_t birth_bytes;
	uint64_t temporary;
	uint64_t failed;
	uint32_t death_count;                          /* entries in deaths[] */
	const struct trace_death *deaths;              /* borrowed; sorted by birth_slice */
	uint16_t size_bucket_count, life_bucket_count; /* entries below */
	const struct trace_bucket *sizes;              /* births by size; borrowed; sorted */
	const struct trace_bucket *lives;              /* deaths by lifetime */
	/*
	 * The next two are its share of the peak, which changed in this slice. Else, where they are
	 * known of other rows: the share less what it had live before the slice, modulo 2^64; not 0
	 * only in slices that were merged.
	 */
	bool peak_known;
	uint64_t peak_count;
	uint64_t peak_bytes;
};
struct trace_bucket {
	uint32_t bucket;
	uint32_t reserved;
	uint64_t count;
};
/* What a thread did with blocks of a slice that were culled: born and ended in it. */
struct trace_culled_thread {
	uint32_t thread_id;
	uint64_t births, birth_bytes;
	uint64_t ends, end_bytes; /* that this thread called, whoever allocated */
	uint64_t foreign_ends;    /* of these, of blocks another thread allocated */
	uint64_t temporary;
};
/* A slice: numbered from 0; covers events (end of the previous, end_ns]. */
struct trace_slice {
	uint32_t slice_id;
	uint64_t start_ns, end_ns;
	uint64_t first_event, event_count; /* ordinals of heap events in the section */
	uint64_t live_bytes, live_blocks;  /* at its end */
	uint64_t min_live_bytes, max_live_bytes, max_live_time_ns; /* within it */
	uint64_t births, birth_bytes, deaths, death_bytes, temporary;
	uint64_t mapped_bytes; /* at its end */
	/* running totals of the section so far: */
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint64_t freed_unseen, freed_older;
	uint64_t rss_time_ns, rss_heap_bytes; /* largest RSS sample so far, and the live bytes at
						 its time; 0 none */
	/* all shares of the peak that changed since the last slice are in the rows; a new peak
	 * makes every other stack's share what it was live then: see docs/figures.md */
	uint32_t row_count;
	const struct trace_slice_row *rows; /* borrowed; sorted by stack_id */
	/* Where blocks are culled; not in a CURVE: */
	uint64_t culled_events; /* of the section so far: counted, not stored one by one */
	uint32_t culled_thread_count;
	const struct trace_culled_thread *culled_threads; /* borrowed; sorted by thread_id */
};

/* Sums over the first slices of a section, per stack. Deaths are modulo 2^64, as in slices. */
struct trace_sum {
	uint32_t stack_id;
	uint64_t births, birth_bytes, deaths, death_bytes, temporary, failed;
	uint64_t peak_count, peak_bytes; /* share of the peak so far */
};

/* An event that ends a heap block born before the block of events that has it. */
struct trace_old_end {
	uint64_t block_id, size_bytes;
	uint32_t stack_id;
	bool is_temporary;
};

/* A resolved frame of a (module, address): stored so that a trace carries its names. */
struct trace_symbol {
	uint32_t module_id;
	uint64_t address;     /* run-time address looked up: return address - 1, or exact pc */
	const char *function; /* borrowed; NULL = unknown */
	const char *file;     /* NULL = unknown */
	uint32_t line, column;
	uint8_t inlined; /* enum trace_symbol_inlined */
	uint8_t source;  /* enum trace_symbol_source */
	uint8_t kind; /* 0 = what the name says; else enum frame_kind + 1, of a name that is gone */
	uint8_t reserved;
};
enum trace_symbol_inlined {
	TRACE_INLINED_NO = 0, /* the last record of the address */
	TRACE_INLINED = 1,    /* into the next record of the same address */
	/* The first record may be the function that is called there: another inside was jumped to.
	 */
	TRACE_INLINED_CALLEE = 2,
};
enum trace_symbol_source {
	TRACE_SYM_NONE = 0,
	TRACE_SYM_DWARF = 1,
	TRACE_SYM_SYMTAB = 2,
	TRACE_SYM_DYNSYM = 3,
	TRACE_SYM_JIT = 4,
};

/* A line of a source file: only where the user asked for it to be kept. */
struct trace_source_line {
	const char *file; /* borrowed; as in struct trace_symbol */
	const char *text; /* borrowed; without its end */
	uint32_t line;    /* from 1 */
};

/* What was started, how, with what. Strings are borrowed. Never the environment. */
struct trace_meta {
	const char *tool_version;
	const char *program; /* path of the executable */
	const char *command; /* arguments joined by spaces, quoted where needed */
	const char *host;
	const char *mode;   /* "exact" or "sampled", when it began */
	const char *source; /* "run", "attach", "import:heaptrack" ... */
	const char *clock;  /* "tsc" or "monotonic" */
	uint32_t pid, ppid;
	uint64_t start_unix_ns; /* wall clock at time_ns == 0 */
	uint64_t page_bytes, machine_bytes;
	bool addresses, free_stacks;
	bool children; /* those of the program are recorded, too, each in a trace of its own */
	uint32_t depth;
	uint64_t sample_bytes; /* the interval, when it began; 0: exact */
	uint64_t cull_ns;      /* blocks that live shorter may be missing one by one; 0: none */
	/* A part of a longer trace: its first events are these blocks, allocated before it. */
	uint64_t inherited_blocks, inherited_bytes;
	/*
	 * A piece of a recording that was cut while it ran (rotation). The inherited blocks are in
	 * the order of their birth: the n-th is the n-th of those that live at the end of the piece
	 * before.
	 */
	uint64_t series_id;      /* the same in all pieces; 0: this can have none */
	uint32_t piece;          /* from 1 */
	uint64_t piece_start_ns; /* since the start of the first piece */
	/* Of an imported file: "heaptrack 1.4.0, format 3, interpreted"; "" for our own. */
	const char *origin;
	uint32_t unknown; /* bit per enum trace_unknown */
};

enum trace_end_cause {
	TRACE_END_UNKNOWN = 0, /* no end so far: it is still being written */
	TRACE_END_EXIT = 1,    /* status = exit status */
	TRACE_END_SIGNAL = 2,  /* status = signal number */
	TRACE_END_EXEC = 3,
	TRACE_END_DETACHED = 4,
	TRACE_END_STOPPED = 5, /* time or size limit; the program went on */
	TRACE_END_AGENT_OFF = 6,
	TRACE_END_OOM = 7,
	TRACE_END_DISK_FULL = 8,
	TRACE_END_ROTATED = 9, /* goes on in the next piece */
	TRACE_END_UNSAID = 10, /* an imported file that does not say */
	/* No end, and nobody writes it: the recorder was killed. Found out by readers. */
	TRACE_END_COLLECTOR_LOST = 11,
	TRACE_END_DISK_ERROR = 12, /* the disk took no more, and it was not full */
};
struct trace_end {
	uint32_t cause;
	int32_t status;
	uint64_t duration_ns;
	uint64_t lost_events, cut_stacks, fp_frames, waited_ns;
	uint64_t agent_bytes, collector_cpu_ns, collector_bytes;
	uint64_t freed_unseen, freed_older, children_not_recorded;
	uint32_t off_reason;        /* enum wire_off_reason */
	uint64_t events_not_stored; /* file limit or full disk: counted in the aggregates only */
	uint64_t folded_events;     /* of these: were stored, and given up to keep the file small */
	uint64_t exact_since_ns;    /* where there are folded ones: single events begin here */
	uint64_t culled_events;     /* of those not stored: births and ends of short-lived blocks */
	uint64_t paused_births;     /* blocks allocated in pauses: not recorded */
	uint64_t freed_paused;      /* of freed_older: frees of such blocks */
	char note[400];             /* sentences for the user, or "" */
	/* Of imports, borrowed: sentences about the file, one per line; lines of leak suppressions
	 * that it carries. NULL none. */
	const char *facts, *suppressions;
};

/* Events for which there was no room: not those that were folded or culled. */
static inline uint64_t trace_end_no_room(const struct trace_end *end)
{
	uint64_t others = end->folded_events + end->culled_events;
	return end->events_not_stored > others ? end->events_not_stored - others : 0;
}
