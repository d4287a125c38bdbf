/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped memory, reported apart from the heap. Calls made by the allocator
 * itself are nested in its own and not recorded: their memory is the heap's.
 * What ends a mapping is published before the call, what begins one after it,
 * as with blocks.
 */
#include "agent/entry_maps.h"
#include "agent/entry.h"

#include <linux/mman.h>

#include "agent/redirect.h"
#include "agent/sys.h"

#define MAP_FAILED_RESULT ((void *)-1)
#define ADDRESSES_END     (1ull << 56) /* of programs; most processors have less */

enum { SYS_NR_BRK_ = 12 };

/* NULL: not to be recorded. */
static inline struct lane *maps_begin(const struct call_site *site)
{
	struct lane *lane = hook_begin(site);
	return lane && maps_wanted() && !redirect_is_heap_code(site->pc) ? lane : NULL;
}

static void emit_map(struct lane *lane, const struct call_site *site, enum wire_extra kind,
		     struct wire_ev_map event, const uint64_t *from)
{
	uint64_t payload[sizeof event / 8 + 2];
	uint32_t words = sizeof event / 8;
	hook_raise(lane, site);
	event.node_and_fd |= (uint64_t)unwind(lane, site) << 32;
	__builtin_memcpy(payload, &event, sizeof event);
	if (from) {
		payload[words++] = from[0];
		payload[words++] = from[1];
	}
	emit_extra(lane, kind, payload, words);
	hook_lower(lane);
}

static void emit_range(struct lane *lane, const struct call_site *site, enum wire_extra kind,
		       uint64_t address, uint64_t bytes, uint64_t more)
{
	uint64_t payload[3] = {address, bytes, more};
	hook_raise(lane, site);
	emit_extra(lane, kind, payload, 3);
	hook_lower(lane);
}

static void emit_mmap(struct lane *lane, const struct call_site *site, const uintptr_t *a,
		      uintptr_t got)
{
	int fd = (int)a[4];
	emit_map(lane, site, WIRE_EV_MMAP,
		 (struct wire_ev_map){.address = got,
				      .bytes = a[1],
				      .prot = (uint32_t)a[2],
				      .flags = (uint32_t)a[3],
				      .node_and_fd = a[3] & MAP_ANONYMOUS ? 0 : (uint32_t)(fd + 1),
				      .offset = a[5]},
		 NULL);
}

/* The kernel takes nothing away for these: they fail, whatever is mapped. */
static bool is_no_range(uintptr_t address, uintptr_t bytes)
{
	return (address & (AGENT_PAGE - 1)) || !bytes || address > ADDRESSES_END ||
	       bytes > ADDRESSES_END - address;
}

/* What was at the old place stays mapped: with no bytes to move, shared memory is mapped again. */
static bool leaves_old(const uintptr_t *a)
{
	return !a[1] || (a[3] & MREMAP_DONTUNMAP);
}

/* Of the new place: whether there is a file behind it, mremap does not say. */
static void emit_second(struct lane *lane, const struct call_site *site, const uintptr_t *a,
			void *got)
{
	if (got == MAP_FAILED_RESULT)
		return;
	emit_map(lane, site, WIRE_EV_MMAP,
		 (struct wire_ev_map){.address = (uint64_t)got,
				      .bytes = a[2],
				      .prot = PROT_READ | PROT_WRITE,
				      .flags = MAP_ANONYMOUS | (a[1] ? MAP_PRIVATE : MAP_SHARED)},
		 NULL);
}

static void emit_mremap(struct lane *lane, const struct call_site *site, const uintptr_t *a,
			void *got)
{
	const uint64_t from[2] = {a[0], a[1]};
	if (got == MAP_FAILED_RESULT)
		emit_range(lane, site, WIRE_EV_MREMAP_FAIL, a[0], a[1], 0);
	else
		emit_map(lane, site, WIRE_EV_MREMAP_END,
			 (struct wire_ev_map){.address = (uint64_t)got, .bytes = a[2]}, from);
}

uintptr_t maps_break(void)
{
	return (uintptr_t)sys_call3(SYS_NR_BRK_, 0, 0, 0);
}

void maps_moved_break(struct lane *lane, const struct call_site *site, uint64_t from, uint64_t to)
{
	if (lane_is_wiped(lane))
		return;
	hook_raise(lane, site);
	uint64_t payload[3] = {from, to, unwind(lane, site)};
	emit_extra(lane, WIRE_EV_BRK, payload, 3);
	hook_lower(lane);
}

bool maps_wanted(void)
{
	/* Also in a pause: they are few, and what is mapped then would be missing later. */
	return !agent_fixed.no_maps && hook_frees_recorded();
}

void maps_before(struct lane *lane, const struct call_site *site, enum wire_hook hook,
		 const uintptr_t *a)
{
	if (is_no_range(a[0], a[1]))
		return;
	if (hook == WIRE_HOOK_MUNMAP)
		emit_range(lane, site, WIRE_EV_MUNMAP, a[0], a[1], 0);
	else if (hook == WIRE_HOOK_MREMAP && !leaves_old(a))
		emit_range(lane, site, WIRE_EV_MREMAP_BEGIN, a[0], a[1], 0);
}

static bool gives_back(uintptr_t advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE;
}

void maps_after(struct lane *lane, const struct call_site *site, enum wire_hook hook,
		const uintptr_t *a, uintptr_t result)
{
	void *got = (void *)result;
	if (lane_is_wiped(lane))
		return;
	if (hook == WIRE_HOOK_MMAP && got != MAP_FAILED_RESULT)
		emit_mmap(lane, site, a, result);
	else if (hook == WIRE_HOOK_MREMAP && leaves_old(a))
		emit_second(lane, site, a, got);
	else if (hook == WIRE_HOOK_MREMAP && !is_no_range(a[0], a[1]))
		emit_mremap(lane, site, a, got);
	else if (hook == WIRE_HOOK_MUNMAP && (int)result && !is_no_range(a[0], a[1]))
		emit_range(lane, site, WIRE_EV_MUNMAP_FAIL, a[0], a[1], 0);
	else if (hook == WIRE_HOOK_MPROTECT && !(int)result)
		emit_range(lane, site, WIRE_EV_MPROTECT, a[0], a[1], (uint32_t)a[2]);
	else if (hook == WIRE_HOOK_MADVISE && !(int)result && gives_back(a[2]))
		emit_range(lane, site, WIRE_EV_MADVISE, a[0], a[1], (uint32_t)a[2]);
	else if (hook == WIRE_HOOK_SBRK && got != MAP_FAILED_RESULT && a[0])
		maps_moved_break(lane, site, result, result + a[0]);
}

/* The call with what is told before and after it. */
#define RECORDED(hook, type, call, ...)                              \
	struct call_site site = CALL_SITE();                         \
	struct lane *lane = maps_begin(&site);                       \
	const uintptr_t a[6] = {__VA_ARGS__};                        \
	if (lane)                                                    \
		maps_before(lane, &site, hook, a);                   \
	type result = call;                                          \
	if (lane)                                                    \
		maps_after(lane, &site, hook, a, (uintptr_t)result); \
	return result

#define MMAP_HOOK(function)                                                                       \
	EXPORT void *function(void *at, size_t bytes, int prot, int flags, int fd, long offset)   \
	{                                                                                         \
		if (PASSING())                                                                    \
			return real.function(at, bytes, prot, flags, fd, offset);                 \
		RECORDED(WIRE_HOOK_MMAP, void *,                                                  \
			 real.function(at, bytes, prot, flags, fd, offset), (uintptr_t)at, bytes, \
			 (uint32_t)prot, (uint32_t)flags, (uint32_t)fd, (uintptr_t)offset);       \
	}

MMAP_HOOK(mmap)
MMAP_HOOK(mmap64)

EXPORT int munmap(void *at, size_t bytes)
{
	if (PASSING())
		return real.munmap(at, bytes);
	RECORDED(WIRE_HOOK_MUNMAP, int, real.munmap(at, bytes), (uintptr_t)at, bytes);
}

/* Variadic in the C library; the fifth argument is passed on whether or not it was given. */
EXPORT void *mremap(void *at, size_t old_bytes, size_t bytes, int flags, void *to)
{
	if (PASSING())
		return real.mremap(at, old_bytes, bytes, flags, to);
	RECORDED(WIRE_HOOK_MREMAP, void *, real.mremap(at, old_bytes, bytes, flags, to),
		 (uintptr_t)at, old_bytes, bytes, (uint32_t)flags);
}

EXPORT int mprotect(void *at, size_t bytes, int prot)
{
	if (PASSING())
		return real.mprotect(at, bytes, prot);
	RECORDED(WIRE_HOOK_MPROTECT, int, real.mprotect(at, bytes, prot), (uintptr_t)at, bytes,
		 (uint32_t)prot);
}

EXPORT int madvise(void *at, size_t bytes, int advice)
{
	if (PASSING())
		return real.madvise(at, bytes, advice);
	RECORDED(WIRE_HOOK_MADVISE, int, real.madvise(at, bytes, advice), (uintptr_t)at, bytes,
		 (uint32_t)advice);
}

EXPORT int brk(void *to)
{
	if (PASSING())
		return real.brk(to);
	struct call_site site = CALL_SITE();
	struct lane *lane = maps_begin(&site);
	void *from = real.sbrk(0);
	int result = real.brk(to);
	if (lane && !result)
		maps_moved_break(lane, &site, (uint64_t)from, (uint64_t)to);
	return result;
}

EXPORT void *sbrk(intptr_t bytes)
{
	if (PASSING() || !bytes)
		return real.sbrk(bytes);
	RECORDED(WIRE_HOOK_SBRK, void *, real.sbrk(bytes), (uintptr_t)bytes);
}
