/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks for the entry points in redirect.h. Each allocator's functions fall
 * into a few shapes; a hook is its shape with a name. They are reached only
 * where the real function is known.
 */
#include "agent/entry.h"
#include "agent/memory_ops.h"
#include "agent/redirect.h"

#define MALLOCX_ALIGN_LOG2 63 /* the low bits of jemalloc's flags */

/* The real call with everything around it. `bytes`, `alignment`: of the new block. */
#define RECORD_ALLOC(api, call, bytes, alignment)                 \
	struct call_site site = CALL_SITE();                      \
	struct lane *lane = PASSING() ? NULL : hook_begin(&site); \
	if (!lane)                                                \
		return call;                                      \
	uintptr_t outer = hook_call(lane, &site);                 \
	lane->open_site = &site;                                  \
	lane->open_bytes = bytes;                                 \
	void *block = call;                                       \
	lane->open_site = NULL;                                   \
	hook_return(lane, outer);                                 \
	hook_alloc(lane, &site, api, block, bytes, alignment);    \
	return block

#define RECORD_REALLOC(api, call, bytes, alignment)                         \
	struct call_site site = CALL_SITE();                                \
	struct lane *lane = PASSING() ? NULL : hook_begin(&site);           \
	if (!lane)                                                          \
		return call;                                                \
	enum hook_realloc begun = HOOK_REALLOC_UNSEEN;                      \
	if (old)                                                            \
		begun = hook_realloc_begin(lane, &site, api, old);          \
	uintptr_t outer = hook_call(lane, &site);                           \
	void *block = call;                                                 \
	hook_return(lane, outer);                                           \
	hook_realloc_end(lane, &site, api, begun, old,                      \
			 (struct hook_new_block){block, bytes, alignment}); \
	return block

static inline size_t times(size_t a, size_t b)
{
	size_t bytes;
	return __builtin_mul_overflow(a, b, &bytes) ? SIZE_MAX : bytes;
}

#define REAL_OF(name, type) ((type)real_##name)

/* f(size) and f(size, ignored) */
#define SHAPE_SIZE(name, api)                                               \
	static void *real_##name;                                           \
	static void *hook_##name(size_t bytes, const void *tag)             \
	{                                                                   \
		typedef void *(*fn)(size_t, const void *);                  \
		RECORD_ALLOC(api, REAL_OF(name, fn)(bytes, tag), bytes, 0); \
	}
/* f(heap, size) */
#define SHAPE_HEAP_SIZE(name, api)                                           \
	static void *real_##name;                                            \
	static void *hook_##name(void *heap, size_t bytes)                   \
	{                                                                    \
		typedef void *(*fn)(void *, size_t);                         \
		RECORD_ALLOC(api, REAL_OF(name, fn)(heap, bytes), bytes, 0); \
	}
/* f(count, each) */
#define SHAPE_COUNT(name, api)                                                            \
	static void *real_##name;                                                         \
	static void *hook_##name(size_t count, size_t each)                               \
	{                                                                                 \
		typedef void *(*fn)(size_t, size_t);                                      \
		RECORD_ALLOC(api, REAL_OF(name, fn)(count, each), times(count, each), 0); \
	}
/* f(heap, count, each) */
#define SHAPE_HEAP_COUNT(name, api)                                                             \
	static void *real_##name;                                                               \
	static void *hook_##name(void *heap, size_t count, size_t each)                         \
	{                                                                                       \
		typedef void *(*fn)(void *, size_t, size_t);                                    \
		RECORD_ALLOC(api, REAL_OF(name, fn)(heap, count, each), times(count, each), 0); \
	}
/* f(size, alignment, ignored) */
#define SHAPE_SIZE_ALIGN(name, api)                                                            \
	static void *real_##name;                                                              \
	static void *hook_##name(size_t bytes, size_t alignment, const void *tag)              \
	{                                                                                      \
		typedef void *(*fn)(size_t, size_t, const void *);                             \
		RECORD_ALLOC(api, REAL_OF(name, fn)(bytes, alignment, tag), bytes, alignment); \
	}
/* f(alignment, size) */
#define SHAPE_ALIGN_SIZE(name, api)                                                       \
	static void *real_##name;                                                         \
	static void *hook_##name(size_t alignment, size_t bytes)                          \
	{                                                                                 \
		typedef void *(*fn)(size_t, size_t);                                      \
		RECORD_ALLOC(api, REAL_OF(name, fn)(alignment, bytes), bytes, alignment); \
	}
/* f(&block, alignment, size) */
#define SHAPE_POSIX(name, api)                                                              \
	static void *real_##name;                                                           \
	static int hook_##name(void **ret_block, size_t alignment, size_t bytes)            \
	{                                                                                   \
		typedef int (*fn)(void **, size_t, size_t);                                 \
		struct call_site site = CALL_SITE();                                        \
		struct lane *lane = PASSING() ? NULL : hook_begin(&site);                   \
		if (!lane)                                                                  \
			return REAL_OF(name, fn)(ret_block, alignment, bytes);              \
		uintptr_t outer = hook_call(lane, &site);                                   \
		int result = REAL_OF(name, fn)(ret_block, alignment, bytes);                \
		hook_return(lane, outer);                                                   \
		hook_alloc(lane, &site, api, result ? NULL : *ret_block, bytes, alignment); \
		return result;                                                              \
	}
/* f(text): a copy */
#define SHAPE_TEXT(name, api)                                                               \
	static void *real_##name;                                                           \
	static void *hook_##name(const char *text)                                          \
	{                                                                                   \
		typedef void *(*fn)(const char *);                                          \
		RECORD_ALLOC(api, REAL_OF(name, fn)(text), text ? strlen(text) + 1 : 0, 0); \
	}
/* f(old, size) */
#define SHAPE_REALLOC(name, api)                                              \
	static void *real_##name;                                             \
	static void *hook_##name(void *old, size_t bytes)                     \
	{                                                                     \
		typedef void *(*fn)(void *, size_t);                          \
		RECORD_REALLOC(api, REAL_OF(name, fn)(old, bytes), bytes, 0); \
	}
/* f(heap, old, size) */
#define SHAPE_HEAP_REALLOC(name, api)                                               \
	static void *real_##name;                                                   \
	static void *hook_##name(void *heap, void *old, size_t bytes)               \
	{                                                                           \
		typedef void *(*fn)(void *, void *, size_t);                        \
		RECORD_REALLOC(api, REAL_OF(name, fn)(heap, old, bytes), bytes, 0); \
	}
/* f(old, count, each) */
#define SHAPE_REALLOC_COUNT(name, api)                                                           \
	static void *real_##name;                                                                \
	static void *hook_##name(void *old, size_t count, size_t each)                           \
	{                                                                                        \
		typedef void *(*fn)(void *, size_t, size_t);                                     \
		RECORD_REALLOC(api, REAL_OF(name, fn)(old, count, each), times(count, each), 0); \
	}
/* f(old, size, alignment) */
#define SHAPE_REALLOC_ALIGN(name, api)                                                           \
	static void *real_##name;                                                                \
	static void *hook_##name(void *old, size_t bytes, size_t alignment)                      \
	{                                                                                        \
		typedef void *(*fn)(void *, size_t, size_t);                                     \
		RECORD_REALLOC(api, REAL_OF(name, fn)(old, bytes, alignment), bytes, alignment); \
	}
/* f(block, whatever, whatever) */
#define SHAPE_FREE(name, api)                                                       \
	static void *real_##name;                                                   \
	static void hook_##name(void *block, size_t a, size_t b)                    \
	{                                                                           \
		typedef void (*fn)(void *, size_t, size_t);                         \
		struct call_site site = CALL_SITE();                                \
		struct lane *lane = PASSING() || !block ? NULL : hook_begin(&site); \
		if (!lane) {                                                        \
			REAL_OF(name, fn)(block, a, b);                             \
			return;                                                     \
		}                                                                   \
		hook_free(lane, &site, api, block);                                 \
		uintptr_t outer = hook_call(lane, &site);                           \
		REAL_OF(name, fn)(block, a, b);                                     \
		hook_return(lane, outer);                                           \
	}

static void *real_mallocx, *real_rallocx, *real_xallocx;

static size_t alignment_in(int flags)
{
	return flags & MALLOCX_ALIGN_LOG2 ? (size_t)1 << (flags & MALLOCX_ALIGN_LOG2) : 0;
}

static void *hook_mallocx(size_t bytes, int flags)
{
	typedef void *(*fn)(size_t, int);
	RECORD_ALLOC(WIRE_API_JEMALLOC, REAL_OF(mallocx, fn)(bytes, flags), bytes,
		     alignment_in(flags));
}

static void *hook_rallocx(void *old, size_t bytes, int flags)
{
	typedef void *(*fn)(void *, size_t, int);
	RECORD_REALLOC(WIRE_API_JEMALLOC, REAL_OF(rallocx, fn)(old, bytes, flags), bytes,
		       alignment_in(flags));
}

/* Resizes in place or not at all: the address stays the caller's, so both halves come after the
 * call. */
static size_t hook_xallocx(void *block, size_t bytes, size_t extra, int flags)
{
	typedef size_t (*fn)(void *, size_t, size_t, int);
	struct call_site site = CALL_SITE();
	struct lane *lane = PASSING() ? NULL : hook_begin(&site);
	if (!lane)
		return REAL_OF(xallocx, fn)(block, bytes, extra, flags);
	uintptr_t outer = hook_call(lane, &site);
	size_t result = REAL_OF(xallocx, fn)(block, bytes, extra, flags);
	hook_return(lane, outer);
	if (result < bytes || lane_is_wiped(lane))
		return result;
	enum hook_realloc begun = hook_realloc_begin(lane, &site, WIRE_API_JEMALLOC, block);
	if (begun != HOOK_REALLOC_UNSEEN)
		hook_realloc_end(lane, &site, WIRE_API_JEMALLOC, begun, block,
				 (struct hook_new_block){block, bytes, alignment_in(flags)});
	return result;
}

#define JE  WIRE_API_JEMALLOC
#define MI  WIRE_API_MIMALLOC
#define TC  WIRE_API_TCMALLOC
#define CXX WIRE_API_NEW

/* The formatter does not see a table here. */
/* clang-format off */
#define FOREIGN(X)                                                                            \
	X(FREE, dallocx, JE) X(FREE, sdallocx, JE)                                            \
	X(SIZE, mi_malloc, MI) X(SIZE, mi_malloc_small, MI) X(SIZE, mi_zalloc, MI)            \
	X(SIZE, mi_zalloc_small, MI) X(SIZE, mi_new, MI) X(SIZE, mi_new_nothrow, MI)          \
	X(SIZE, mi_valloc, MI) X(SIZE, mi_pvalloc, MI)                                        \
	X(COUNT, mi_calloc, MI) X(COUNT, mi_mallocn, MI) X(COUNT, mi_new_n, MI)               \
	X(SIZE_ALIGN, mi_malloc_aligned, MI) X(SIZE_ALIGN, mi_zalloc_aligned, MI)             \
	X(SIZE_ALIGN, mi_new_aligned, MI) X(SIZE_ALIGN, mi_new_aligned_nothrow, MI)           \
	X(ALIGN_SIZE, mi_aligned_alloc, MI) X(ALIGN_SIZE, mi_memalign, MI)                    \
	X(POSIX, mi_posix_memalign, MI) X(TEXT, mi_strdup, MI)                                \
	X(REALLOC, mi_realloc, MI) X(REALLOC, mi_reallocf, MI) X(REALLOC, mi_rezalloc, MI)    \
	X(REALLOC, mi_new_realloc, MI)                                                        \
	X(REALLOC_COUNT, mi_reallocn, MI) X(REALLOC_COUNT, mi_recalloc, MI)                   \
	X(REALLOC_COUNT, mi_reallocarray, MI) X(REALLOC_COUNT, mi_new_reallocn, MI)           \
	X(REALLOC_ALIGN, mi_realloc_aligned, MI) X(REALLOC_ALIGN, mi_rezalloc_aligned, MI)    \
	X(HEAP_SIZE, mi_heap_malloc, MI) X(HEAP_SIZE, mi_heap_zalloc, MI)                     \
	X(HEAP_SIZE, mi_heap_malloc_small, MI) X(HEAP_COUNT, mi_heap_calloc, MI)              \
	X(HEAP_COUNT, mi_heap_mallocn, MI) X(HEAP_REALLOC, mi_heap_realloc, MI)               \
	X(HEAP_REALLOC, mi_heap_reallocf, MI) X(HEAP_REALLOC, mi_heap_rezalloc, MI)           \
	X(FREE, mi_free, MI) X(FREE, mi_cfree, MI) X(FREE, mi_free_size, MI)                  \
	X(FREE, mi_free_aligned, MI) X(FREE, mi_free_size_aligned, MI)                        \
	X(SIZE, tc_malloc, TC) X(SIZE, tc_malloc_skip_new_handler, TC) X(SIZE, tc_valloc, TC) \
	X(SIZE, tc_pvalloc, TC) X(SIZE, tc_new, TC) X(SIZE, tc_new_nothrow, TC)               \
	X(SIZE, tc_newarray, TC) X(SIZE, tc_newarray_nothrow, TC)                             \
	X(SIZE_ALIGN, tc_new_aligned, TC) X(SIZE_ALIGN, tc_new_aligned_nothrow, TC)           \
	X(SIZE_ALIGN, tc_newarray_aligned, TC) X(SIZE_ALIGN, tc_newarray_aligned_nothrow, TC) \
	X(COUNT, tc_calloc, TC) X(REALLOC, tc_realloc, TC) X(ALIGN_SIZE, tc_memalign, TC)     \
	X(POSIX, tc_posix_memalign, TC)                                                       \
	X(FREE, tc_free, TC) X(FREE, tc_cfree, TC) X(FREE, tc_free_sized, TC)                 \
	X(FREE, tc_delete, TC) X(FREE, tc_delete_nothrow, TC) X(FREE, tc_delete_sized, TC)    \
	X(FREE, tc_delete_aligned, TC) X(FREE, tc_delete_sized_aligned, TC)                   \
	X(FREE, tc_deletearray, TC) X(FREE, tc_deletearray_nothrow, TC)                       \
	X(FREE, tc_deletearray_sized, TC) X(FREE, tc_deletearray_aligned, TC)                 \
	X(FREE, tc_deletearray_sized_aligned, TC)                                             \
	X(SIZE, _Znwm, CXX) X(SIZE, _Znam, CXX)                                               \
	X(SIZE, _ZnwmRKSt9nothrow_t, CXX) X(SIZE, _ZnamRKSt9nothrow_t, CXX)                   \
	X(SIZE_ALIGN, _ZnwmSt11align_val_t, CXX) X(SIZE_ALIGN, _ZnamSt11align_val_t, CXX)     \
	X(SIZE_ALIGN, _ZnwmSt11align_val_tRKSt9nothrow_t, CXX)                                \
	X(SIZE_ALIGN, _ZnamSt11align_val_tRKSt9nothrow_t, CXX)                                \
	X(FREE, _ZdlPv, CXX) X(FREE, _ZdaPv, CXX) X(FREE, _ZdlPvm, CXX) X(FREE, _ZdaPvm, CXX) \
	X(FREE, _ZdlPvRKSt9nothrow_t, CXX) X(FREE, _ZdaPvRKSt9nothrow_t, CXX)                 \
	X(FREE, _ZdlPvSt11align_val_t, CXX) X(FREE, _ZdaPvSt11align_val_t, CXX)               \
	X(FREE, _ZdlPvmSt11align_val_t, CXX) X(FREE, _ZdaPvmSt11align_val_t, CXX)             \
	X(FREE, _ZdlPvSt11align_val_tRKSt9nothrow_t, CXX)                                     \
	X(FREE, _ZdaPvSt11align_val_tRKSt9nothrow_t, CXX)
/* clang-format on */

#define DEFINE(shape, name, api) SHAPE_##shape(name, api)
FOREIGN(DEFINE)

#define ROW(shape, name, api) {#name, (void *)hook_##name, &real_##name},
const struct redirect redirects[] = {
	{"mallocx", (void *)hook_mallocx, &real_mallocx},
	{"rallocx", (void *)hook_rallocx, &real_rallocx},
	{"xallocx", (void *)hook_xallocx, &real_xallocx},
	FOREIGN(ROW){NULL, NULL, NULL},
};
