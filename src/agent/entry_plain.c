/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/entry_plain.h"

typedef uintptr_t (*few_fn)(uintptr_t, uintptr_t, uintptr_t);

enum { FEW = 3 };

AGENT_COLD void patched_unrecorded(struct lane *lane, const struct call_site *site,
				   enum wire_api api, struct hook_new_block new,
				   struct heap_name heap)
{
	if (sample_is_on())
		hook_sampled(lane, site, api, new, heap);
	else
		hook_born(lane, site, api, new.block);
}

HOOKED static void *hooked_malloc(size_t bytes, const struct wire_site *what)
{
	void *(*original)(size_t) = (void *(*)(size_t))what->original;
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return original(bytes);
	uintptr_t outer = patched_call_begins(lane, &site);
	void *block = original(bytes);
	patched_call_ends(lane, outer);
	patched_note(lane, &site, what->api, (struct hook_new_block){block, bytes, 0},
		     heap_patched(what));
	return block;
}

/* The short way (entry_heap.c). What a failure is, the long way finds out, and records. */
HOOKED static void *sampled_malloc(size_t bytes, const struct wire_site *what)
{
	struct lane *lane = sample_lane();
	if (unlikely(!lane || !sample_skips(lane->count, bytes)))
		return hooked_malloc(bytes, what);
	struct call_site site = CALL_SITE();
	uintptr_t outer = patched_call_begins(lane, &site);
	void *block = ((void *(*)(size_t))what->original)(bytes);
	patched_call_ends(lane, outer);
	return likely(block) ? block : hooked_malloc(bytes, what);
}

HOOKED void *patched_malloc(size_t bytes, uintptr_t none, uintptr_t nor,
			    const struct wire_site *what)
{
	(void)none, (void)nor;
	if (unlikely(sample_is_short(sample_state())))
		return sampled_malloc(bytes, what);
	return hooked_malloc(bytes, what);
}

HOOKED static void hooked_release(void *block, const struct wire_site *what)
{
	void (*original)(void *) = (void (*)(void *))what->original;
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (likely(lane && block)) {
		hook_free(lane, &site, what->api, block);
		uintptr_t outer = patched_call_begins(lane, &site);
		original(block);
		patched_call_ends(lane, outer);
		return;
	}
	original(block);
}

HOOKED static void sampled_release(void *block, const struct wire_site *what)
{
	struct lane *lane = sample_lane();
	if (unlikely(!lane || !sample_passes(block))) {
		hooked_release(block, what);
		return;
	}
	struct call_site site = CALL_SITE();
	uintptr_t outer = patched_call_begins(lane, &site);
	((void (*)(void *))what->original)(block);
	patched_call_ends(lane, outer);
}

HOOKED void patched_release(void *block, uintptr_t none, uintptr_t nor,
			    const struct wire_site *what)
{
	(void)none, (void)nor;
	if (unlikely(sample_is_short(sample_state())))
		sampled_release(block, what);
	else
		hooked_release(block, what);
}

static inline uintptr_t argument(const uintptr_t *arguments, uint8_t index)
{
	return index < FEW ? arguments[index] : 0;
}

static inline size_t bytes_of(const uintptr_t *arguments, const struct wire_site *what)
{
	size_t bytes = argument(arguments, what->size), product;
	if (what->count >= FEW)
		return bytes;
	return __builtin_mul_overflow(bytes, arguments[what->count], &product) ? SIZE_MAX : product;
}

/* Returned, or stored where an argument says. */
static inline void *block_of(const uintptr_t *arguments, const struct wire_site *what,
			     uintptr_t result)
{
	if (what->hook == WIRE_HOOK_ALLOC)
		return (void *)result;
	void *const *place = (void *const *)argument(arguments, what->pointer);
	return (int)result || !place ? NULL : *place;
}

HOOKED uintptr_t patched_few_alloc(uintptr_t a, uintptr_t b, uintptr_t c,
				   const struct wire_site *what)
{
	const uintptr_t arguments[FEW] = {a, b, c};
	few_fn original = (few_fn)what->original;
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return original(a, b, c);
	uintptr_t outer = patched_call_begins(lane, &site);
	uintptr_t result = original(a, b, c);
	patched_call_ends(lane, outer);
	const struct hook_new_block new = {block_of(arguments, what, result),
					   bytes_of(arguments, what),
					   argument(arguments, what->alignment)};
	patched_note(lane, &site, what->api, new, heap_patched(what));
	return result;
}

HOOKED void patched_few_free(uintptr_t a, uintptr_t b, uintptr_t c, const struct wire_site *what)
{
	few_fn original = (few_fn)what->original;
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (likely(lane && a)) {
		hook_free(lane, &site, what->api, (void *)a);
		uintptr_t outer = patched_call_begins(lane, &site);
		original(a, b, c);
		patched_call_ends(lane, outer);
		return;
	}
	original(a, b, c);
}

/* The new block of an allocator that has a name; the old one's end has been told. */
AGENT_COLD static void note_named(struct lane *lane, const struct call_site *site,
				  const struct wire_site *what, enum hook_realloc begun, void *old,
				  struct hook_new_block new)
{
	if (lane_is_wiped(lane))
		return;
	hook_raise(lane, site);
	struct label *label = label_of_source(lane, what);
	hook_lower(lane);
	if (label)
		label_enter(lane, label);
	hook_realloc_end(lane, site, what->api, begun, old, new);
	if (label)
		label_enter(lane, NULL);
}

HOOKED uintptr_t patched_few_realloc(uintptr_t a, uintptr_t b, uintptr_t c,
				     const struct wire_site *what)
{
	const uintptr_t arguments[FEW] = {a, b, c};
	few_fn original = (few_fn)what->original;
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return original(a, b, c);
	void *old = (void *)argument(arguments, what->pointer);
	size_t bytes = bytes_of(arguments, what);
	/* unless it returns a block: then that is a new one */
	bool is_free = old && !bytes && (what->flags & WIRE_SITE_FREES_AT_ZERO);
	enum hook_realloc begun = HOOK_REALLOC_UNSEEN;
	if (unlikely(is_free))
		hook_free(lane, &site, what->api, old);
	else if (old)
		begun = hook_realloc_begin(lane, &site, what->api, old);
	uintptr_t outer = patched_call_begins(lane, &site);
	uintptr_t result = original(a, b, c);
	patched_call_ends(lane, outer);
	const struct hook_new_block new = {(void *)result, bytes,
					   argument(arguments, what->alignment)};
	if (unlikely(what->source) && (!is_free || result))
		note_named(lane, &site, what, begun, old, new);
	else if (!is_free || result)
		hook_realloc_end(lane, &site, what->api, begun, old, new);
	return result;
}
