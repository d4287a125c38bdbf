/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For allocators that speak for themselves: pools, arenas, slabs, and whoever
 * wants to know which request or component memory was for. docs/api.md is the
 * guide. Copy this file into your project: there is no library to link, and
 * nothing is needed where the program runs. Without Tidemark each call below is
 * one load and one branch; recorded, or attached to at any time, the program's
 * named heaps and tags are in the trace.
 *
 *	static struct tidemark_heap pool = TIDEMARK_HEAP("pool", NULL);
 *
 *	void *pool_take(size_t bytes)
 *	{
 *		void *piece = ...;
 *		tidemark_heap_alloc(&pool, piece, bytes);
 *		return piece;
 *	}
 *
 * C99 and later, C++11 and later; gcc and clang; executables, shared libraries
 * and static programs. Where there is neither ELF nor x86-64 it compiles to
 * nothing. Thread-safe; not for signal handlers.
 *
 * How it works: each module that includes this file has one small table, and an
 * ELF note that says where. Tidemark finds the note when the module is loaded, or
 * when it is attached, and puts the address of its own function into the table.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__ELF__) && defined(__x86_64__) && defined(__LP64__) && defined(__GNUC__) && \
	!defined(TIDEMARK_DISABLE)
#define TIDEMARK_ACTIVE 1
#else
#define TIDEMARK_ACTIVE 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A heap with a name. It must stay where it is as long as it is used. `parent`:
 * the heap that it takes its memory from, NULL for malloc or the system. The
 * rest is Tidemark's.
 */
struct tidemark_heap {
	const char *name; /* must stay, too; the first 200 bytes count */
	struct tidemark_heap *parent;
	void *reserved[2];
};

/* For a static heap: struct tidemark_heap pool = TIDEMARK_HEAP("pool", NULL); */
#define TIDEMARK_HEAP(name_, parent_) \
	{                             \
		name_, parent_,       \
		{                     \
			NULL, NULL    \
		}                     \
	}

enum tidemark_op {
	TIDEMARK_OP_ALLOC = 1,
	TIDEMARK_OP_FREE = 2,
	TIDEMARK_OP_REALLOC = 3,
	TIDEMARK_OP_DISCARD = 4,
	TIDEMARK_OP_GROW = 5,
	TIDEMARK_OP_TAG = 6
};

/* What the note leads to. Nothing to be used directly. */
struct tidemark_table {
	uint32_t version; /* 1 */
	uint32_t bytes;
	void (*event)(unsigned op, struct tidemark_heap *heap, uintptr_t first, uintptr_t second,
		      size_t bytes);
};

#if TIDEMARK_ACTIVE

extern struct tidemark_table tidemark_table_v1 __attribute__((visibility("hidden")));
/* Weak and hidden: one per module, whatever the number of files that include this. */
__attribute__((weak, used, visibility("hidden"))) struct tidemark_table tidemark_table_v1 = {
	1, sizeof(struct tidemark_table), NULL};

/* Defined where Tidemark's agent was preloaded; lets a constructor be heard at once. */
extern void tidemark_agent_fill_v1(struct tidemark_table *table) __attribute__((weak));

/* Name "Tidemark", type 1, and the distance from here to the table. */
__asm__(".ifndef tidemark_note_v1\n"
	".pushsection .note.tidemark, \"a\", @note\n"
	".balign 4\n"
	".local tidemark_note_v1\n"
	"tidemark_note_v1:\n"
	".long 9\n"
	".long 4\n"
	".long 1\n"
	".asciz \"Tidemark\"\n"
	".balign 4\n"
	".long tidemark_table_v1 - .\n"
	".popsection\n"
	".endif\n");

/* One load and one branch when nobody listens. */
static inline __attribute__((always_inline)) void tidemark_tell(unsigned op,
								struct tidemark_heap *heap,
								uintptr_t first, uintptr_t second,
								size_t bytes)
{
	void (*event)(unsigned, struct tidemark_heap *, uintptr_t, uintptr_t, size_t) =
		__atomic_load_n(&tidemark_table_v1.event, __ATOMIC_RELAXED);
	if (__builtin_expect(event != NULL, 0))
		event(op, heap, first, second, bytes);
}

/* Not 0: a recording is, or was, under way. For what is dear to find out. */
static inline int tidemark_is_listening(void)
{
	return __atomic_load_n(&tidemark_table_v1.event, __ATOMIC_RELAXED) != NULL;
}

static inline void tidemark_fill(void)
{
	if (!tidemark_is_listening() && tidemark_agent_fill_v1 != NULL)
		tidemark_agent_fill_v1(&tidemark_table_v1);
}

#else

static inline void tidemark_tell(unsigned op, struct tidemark_heap *heap, uintptr_t first,
				 uintptr_t second, size_t bytes)
{
	(void)op;
	(void)heap;
	(void)first;
	(void)second;
	(void)bytes;
}

static inline int tidemark_is_listening(void)
{
	return 0;
}

static inline void tidemark_fill(void)
{
}

#endif

/*
 * The same as TIDEMARK_HEAP(), at run time. Heaps of equal names are one in the
 * views. In constructors of libraries call it before anything else.
 */
static inline void tidemark_heap_register(struct tidemark_heap *heap, const char *name,
					  struct tidemark_heap *parent)
{
	heap->name = name;
	heap->parent = parent;
	heap->reserved[0] = NULL;
	heap->reserved[1] = NULL;
	tidemark_fill();
}

/* Handed out: call it after. A failed allocation: block NULL. */
static inline __attribute__((always_inline)) void tidemark_heap_alloc(struct tidemark_heap *heap,
								      void *block, size_t bytes)
{
	tidemark_tell(TIDEMARK_OP_ALLOC, heap, (uintptr_t)block, 0, bytes);
}

/* Given back: call it before anybody else can get it. NULL does nothing. */
static inline __attribute__((always_inline)) void tidemark_heap_free(struct tidemark_heap *heap,
								     void *block)
{
	tidemark_tell(TIDEMARK_OP_FREE, heap, (uintptr_t)block, 0, 0);
}

/* `old` became `block`, perhaps the same: call it before anybody else can get `old`. */
static inline __attribute__((always_inline)) void
tidemark_heap_realloc(struct tidemark_heap *heap, void *old, void *block, size_t bytes)
{
	tidemark_tell(TIDEMARK_OP_REALLOC, heap, (uintptr_t)old, (uintptr_t)block, bytes);
}

/*
 * All blocks that begin in [start, start + bytes) end at once; with start NULL
 * all of the heap. Call it before anybody else can get them.
 */
static inline __attribute__((always_inline)) void tidemark_heap_discard(struct tidemark_heap *heap,
									void *start, size_t bytes)
{
	tidemark_tell(TIDEMARK_OP_DISCARD, heap, (uintptr_t)start, 0, bytes);
}

/*
 * [start, start + bytes) is what the heap hands out pieces of from now on. A
 * block of the parent (malloc's, too) or a mapping there is no longer counted as
 * such: its pieces are, each byte once. When the parent gets it back (free(),
 * munmap(), the parent's tidemark_heap_free()) what is left of its pieces ends.
 */
static inline __attribute__((always_inline)) void tidemark_heap_grow(struct tidemark_heap *heap,
								     void *start, size_t bytes)
{
	tidemark_tell(TIDEMARK_OP_GROW, heap, (uintptr_t)start, 0, bytes);
}

/*
 * What the calling thread works for from now on: tidemark_tag("request", "GET
 * /cart"). Every allocation that it makes carries it, whatever the heap. A key
 * has one value at a time, NULL: none; four keys at most. Texts are copied. Few
 * thousand different values are meant, not one per request.
 */
static inline void tidemark_tag(const char *key, const char *value)
{
	tidemark_tell(TIDEMARK_OP_TAG, NULL, (uintptr_t)key, (uintptr_t)value, 0);
}

#ifdef __cplusplus
}
#endif
