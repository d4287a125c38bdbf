/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc and its family. Each: one load and one branch when there is nothing
 * to record, then a tail jump to the real function.
 */
#include "agent/entry.h"

enum { PAGE_BYTES = 4096 };

static inline size_t product(size_t a, size_t b)
{
	size_t bytes;
	return __builtin_mul_overflow(a, b, &bytes) ? SIZE_MAX : bytes;
}

/*
 * The short way while sampling. It lies in one piece and is straight, since nothing else of the
 * agent is in the caches then, and every instruction counts; a jump more is little for what records
 * all. Where it ends in a failure the long way is taken, too:
 * failures are always recorded.
 */
#define SHORT __attribute__((section(".text.hot.short")))
/* Of malloc and free: as few lines of the cache as can be. */
#define SHORT_LINES SHORT __attribute__((aligned(64)))

/* Counts a block that is not recorded; *ret_lane is to know of the call, if not NULL. */
static inline bool lane_skips(size_t bytes, struct lane **ret_lane)
{
	*ret_lane = NULL;
	if (likely(sample_state() == AGENT_SAMPLED))
		return sample_skips(sample_count(), bytes);
	struct lane *lane = *ret_lane = sample_lane();
	return lane && sample_skips(lane->count, bytes);
}

/* What an allocator calls that is hooked is nested in its call. */
#define SAMPLED_CALL(lane, call)                                                      \
	(__extension__({                                                              \
		if (lane)                                                             \
			(lane)->real_sp = (uintptr_t)__builtin_frame_address(0) + 16; \
		compiler_barrier();                                                   \
		__auto_type result_ = call;                                           \
		compiler_barrier();                                                   \
		if (lane)                                                             \
			(lane)->real_sp = 0;                                          \
		result_;                                                              \
	}))

HOOKED static void *hooked_malloc(size_t bytes)
{
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return real.malloc(bytes);
	uintptr_t outer = hook_call(lane, &site);
	void *block = real.malloc(bytes);
	hook_return(lane, outer);
	hook_alloc(lane, &site, WIRE_API_MALLOC, block, bytes, 0);
	return block;
}

/* Of any thread, and any allocator. */
HOOKED SHORT static void *sampled_malloc(size_t bytes)
{
	struct lane *lane;
	if (unlikely(!lane_skips(bytes, &lane)))
		return hooked_malloc(bytes);
	void *block = SAMPLED_CALL(lane, real.malloc(bytes));
	return likely(block) ? block : hooked_malloc(bytes);
}

EXPORT SHORT_LINES void *malloc(size_t bytes)
{
	uint32_t state = sample_state();
	/* First, but not likely: else all ways would save a register for this one. */
	if (__builtin_expect_with_probability(state == AGENT_SAMPLED, 1, 0.5)) {
		if (!sample_is_first() || unlikely(!sample_skips(&agent.first_count, bytes)))
			return sampled_malloc(bytes);
		void *block = agent.malloc(bytes);
		return likely(block) ? block : hooked_malloc(bytes);
	}
	if (state == AGENT_ON)
		return hooked_malloc(bytes);
	if (state == AGENT_SAMPLED_NESTED)
		return sampled_malloc(bytes);
	return PASSING() ? real.malloc(bytes) : hooked_malloc(bytes);
}

HOOKED static void hooked_free(void *block)
{
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (likely(lane && block)) {
		hook_free(lane, &site, WIRE_API_MALLOC, block);
		uintptr_t outer = hook_call(lane, &site);
		real.free(block);
		hook_return(lane, outer);
		return;
	}
	real.free(block);
}

/* Where the allocator calls what is hooked. */
HOOKED static void nested_free(void *block)
{
	struct lane *lane = sample_lane();
	if (unlikely(!lane || !sample_passes(block))) {
		hooked_free(block);
		return;
	}
	lane->real_sp = (uintptr_t)__builtin_frame_address(0) + 16;
	compiler_barrier();
	real.free(block);
	compiler_barrier();
	lane->real_sp = 0;
}

EXPORT SHORT_LINES void free(void *block)
{
	uint32_t state = sample_state();
	if (likely(state == AGENT_SAMPLED) && sample_passes(block))
		agent.free(block);
	else if (state == AGENT_ON)
		hooked_free(block);
	else if (state == AGENT_SAMPLED_NESTED)
		nested_free(block);
	else if (PASSING())
		real.free(block);
	else
		hooked_free(block);
}

HOOKED static void *hooked_calloc(size_t count, size_t each)
{
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return real.calloc(count, each);
	uintptr_t outer = hook_call(lane, &site);
	void *block = real.calloc(count, each);
	hook_return(lane, outer);
	hook_alloc(lane, &site, WIRE_API_CALLOC, block, product(count, each), 0);
	return block;
}

HOOKED SHORT static void *sampled_calloc(size_t count, size_t each)
{
	struct lane *lane;
	if (unlikely(!lane_skips(product(count, each), &lane)))
		return hooked_calloc(count, each);
	void *block = SAMPLED_CALL(lane, real.calloc(count, each));
	return likely(block) ? block : hooked_calloc(count, each);
}

EXPORT SHORT void *calloc(size_t count, size_t each)
{
	uint32_t state = sample_state();
	if (likely(state == AGENT_ON))
		return hooked_calloc(count, each);
	if (sample_is_short(state))
		return sampled_calloc(count, each);
	return PASSING() ? real.calloc(count, each) : hooked_calloc(count, each);
}

static inline void *reallocate(struct lane *lane, const struct call_site *site, void *old,
			       size_t bytes)
{
	bool is_free = old && !bytes; /* unless it returns a block: then that is a new one */
	enum hook_realloc begun = HOOK_REALLOC_UNSEEN;
	if (old && bytes)
		begun = hook_realloc_begin(lane, site, WIRE_API_REALLOC, old);
	if (is_free)
		hook_free(lane, site, WIRE_API_REALLOC, old);
	uintptr_t outer = hook_call(lane, site);
	void *block = real.realloc(old, bytes);
	hook_return(lane, outer);
	if (!is_free || block)
		hook_realloc_end(lane, site, WIRE_API_REALLOC, begun, old,
				 (struct hook_new_block){block, bytes, 0});
	return block;
}

HOOKED static void *hooked_realloc(void *old, size_t bytes)
{
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return real.realloc(old, bytes);
	return reallocate(lane, &site, old, bytes);
}

HOOKED SHORT static void *sampled_realloc(void *old, size_t bytes)
{
	struct lane *lane;
	if (unlikely(!bytes || !sample_passes(old) || !lane_skips(bytes, &lane)))
		return hooked_realloc(old, bytes);
	void *block = SAMPLED_CALL(lane, real.realloc(old, bytes));
	return likely(block) ? block : hooked_realloc(old, bytes); /* `old` lives on */
}

EXPORT SHORT void *realloc(void *old, size_t bytes)
{
	uint32_t state = sample_state();
	if (likely(state == AGENT_ON))
		return hooked_realloc(old, bytes);
	if (sample_is_short(state))
		return sampled_realloc(old, bytes);
	return PASSING() ? real.realloc(old, bytes) : hooked_realloc(old, bytes);
}

/* Where the C library has none: the same by realloc, with a size that must fail. */
static void *reallocarray_real(void *old, size_t count, size_t each)
{
	if (real.reallocarray)
		return real.reallocarray(old, count, each);
	return real.realloc(old, product(count, each));
}

HOOKED static void *hooked_reallocarray(void *old, size_t count, size_t each)
{
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return reallocarray_real(old, count, each);
	size_t bytes;
	if (!__builtin_mul_overflow(count, each, &bytes))
		return reallocate(lane, &site, old, bytes);
	uintptr_t outer = hook_call(lane, &site);
	void *block = reallocarray_real(old, count, each); /* sets errno; old lives on */
	hook_return(lane, outer);
	hook_alloc(lane, &site, WIRE_API_REALLOC, block, SIZE_MAX, 0);
	return block;
}

EXPORT void *reallocarray(void *old, size_t count, size_t each)
{
	if (PASSING())
		return reallocarray_real(old, count, each);
	return hooked_reallocarray(old, count, each);
}

HOOKED static int hooked_posix_memalign(void **ret_block, size_t alignment, size_t bytes)
{
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return real.posix_memalign(ret_block, alignment, bytes);
	uintptr_t outer = hook_call(lane, &site);
	int result = real.posix_memalign(ret_block, alignment, bytes);
	hook_return(lane, outer);
	hook_alloc(lane, &site, WIRE_API_ALIGNED, result ? NULL : *ret_block, bytes, alignment);
	return result;
}

EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t bytes)
{
	if (PASSING())
		return real.posix_memalign(ret_block, alignment, bytes);
	return hooked_posix_memalign(ret_block, alignment, bytes);
}

#define ALIGNED_HOOK(function)                                                      \
	HOOKED static void *hooked_##function(size_t alignment, size_t bytes)       \
	{                                                                           \
		struct call_site site = CALL_SITE();                                \
		struct lane *lane = hook_begin(&site);                              \
		if (unlikely(!lane))                                                \
			return real.function(alignment, bytes);                     \
		uintptr_t outer = hook_call(lane, &site);                           \
		void *block = real.function(alignment, bytes);                      \
		hook_return(lane, outer);                                           \
		hook_alloc(lane, &site, WIRE_API_ALIGNED, block, bytes, alignment); \
		return block;                                                       \
	}                                                                           \
	EXPORT void *function(size_t alignment, size_t bytes)                       \
	{                                                                           \
		if (PASSING())                                                      \
			return real.function(alignment, bytes);                     \
		return hooked_##function(alignment, bytes);                         \
	}

ALIGNED_HOOK(aligned_alloc)
ALIGNED_HOOK(memalign)

static void *valloc_real(size_t bytes)
{
	return real.valloc ? real.valloc(bytes) : real.memalign(PAGE_BYTES, bytes);
}

static void *pvalloc_real(size_t bytes)
{
	if (real.pvalloc)
		return real.pvalloc(bytes);
	size_t whole = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	return real.memalign(PAGE_BYTES, whole < bytes ? bytes : whole);
}

#define PAGE_HOOK(function)                                                          \
	HOOKED static void *hooked_##function(size_t bytes)                          \
	{                                                                            \
		struct call_site site = CALL_SITE();                                 \
		struct lane *lane = hook_begin(&site);                               \
		if (unlikely(!lane))                                                 \
			return function##_real(bytes);                               \
		uintptr_t outer = hook_call(lane, &site);                            \
		void *block = function##_real(bytes);                                \
		hook_return(lane, outer);                                            \
		hook_alloc(lane, &site, WIRE_API_ALIGNED, block, bytes, PAGE_BYTES); \
		return block;                                                        \
	}                                                                            \
	EXPORT void *function(size_t bytes)                                          \
	{                                                                            \
		if (PASSING())                                                       \
			return function##_real(bytes);                               \
		return hooked_##function(bytes);                                     \
	}

PAGE_HOOK(valloc)
PAGE_HOOK(pvalloc)

/* C libraries that do not know the sized forms free as ever. */
static void free_sized_real(void *block, size_t bytes)
{
	if (real.free_sized)
		real.free_sized(block, bytes);
	else
		real.free(block);
}

static void free_aligned_sized_real(void *block, size_t alignment, size_t bytes)
{
	if (real.free_aligned_sized)
		real.free_aligned_sized(block, alignment, bytes);
	else
		real.free(block);
}

static void cfree_real(void *block)
{
	if (real.cfree)
		real.cfree(block);
	else
		real.free(block);
}

#define FREE_HOOK(function, parameters, arguments)                        \
	EXPORT void function parameters                                   \
	{                                                                 \
		struct call_site site = CALL_SITE();                      \
		struct lane *lane = PASSING() ? NULL : hook_begin(&site); \
		uintptr_t outer = 0;                                      \
		if (lane && block) {                                      \
			hook_free(lane, &site, WIRE_API_MALLOC, block);   \
			outer = hook_call(lane, &site);                   \
		}                                                         \
		function##_real arguments;                                \
		if (lane && block)                                        \
			hook_return(lane, outer);                         \
	}

FREE_HOOK(free_sized, (void *block, size_t bytes), (block, bytes))
FREE_HOOK(free_aligned_sized, (void *block, size_t alignment, size_t bytes),
	  (block, alignment, bytes))
FREE_HOOK(cfree, (void *block), (block))
