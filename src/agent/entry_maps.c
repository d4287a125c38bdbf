/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped memory, reported apart from the heap. Calls made by the allocator
 * itself are nested in its own and not recorded: their memory is the heap's.
 * What ends a mapping is published before the call, what begins one after it,
 * as with blocks.
 */
#include "agent/entry.h"

#include <linux/mman.h>

#define MAP_FAILED_RESULT ((void *)-1)

/* NULL: not to be recorded. */
static inline struct lane *maps_begin(const struct call_site *site)
{
	struct lane *lane = hook_begin(site);
	/* Also in a pause: they are few, and what is mapped then would be missing later. */
	return lane && !agent_fixed.no_maps && hook_frees_recorded() ? lane : NULL;
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

#define MMAP_HOOK(function)                                                                        \
	EXPORT void *function(void *at, size_t bytes, int prot, int flags, int fd, long offset)    \
	{                                                                                          \
		if (PASSING())                                                                     \
			return real.function(at, bytes, prot, flags, fd, offset);                  \
		struct call_site site = CALL_SITE();                                               \
		struct lane *lane = maps_begin(&site);                                             \
		void *got = real.function(at, bytes, prot, flags, fd, offset);                     \
		if (lane && got != MAP_FAILED_RESULT)                                              \
			emit_map(lane, &site, WIRE_EV_MMAP,                                        \
				 (struct wire_ev_map){.address = (uint64_t)got,                    \
						      .bytes = bytes,                              \
						      .prot = (uint32_t)prot,                      \
						      .flags = (uint32_t)flags,                    \
						      .node_and_fd = flags & MAP_ANONYMOUS         \
									     ? 0                   \
									     : (uint32_t)(fd + 1), \
						      .offset = (uint64_t)offset},                 \
				 NULL);                                                            \
		return got;                                                                        \
	}

MMAP_HOOK(mmap)
MMAP_HOOK(mmap64)

EXPORT int munmap(void *at, size_t bytes)
{
	if (PASSING())
		return real.munmap(at, bytes);
	struct call_site site = CALL_SITE();
	struct lane *lane = maps_begin(&site);
	if (lane)
		emit_range(lane, &site, WIRE_EV_MUNMAP, (uint64_t)at, bytes, 0);
	int result = real.munmap(at, bytes);
	if (lane && result)
		emit_range(lane, &site, WIRE_EV_MUNMAP_FAIL, (uint64_t)at, bytes, 0);
	return result;
}

/* Variadic in the C library; the fifth argument is passed on whether or not it was given. */
EXPORT void *mremap(void *at, size_t old_bytes, size_t bytes, int flags, void *to)
{
	if (PASSING())
		return real.mremap(at, old_bytes, bytes, flags, to);
	struct call_site site = CALL_SITE();
	struct lane *lane = maps_begin(&site);
	if (lane)
		emit_range(lane, &site, WIRE_EV_MREMAP_BEGIN, (uint64_t)at, old_bytes, 0);
	void *got = real.mremap(at, old_bytes, bytes, flags, to);
	const uint64_t from[2] = {(uint64_t)at, old_bytes};
	if (lane && got == MAP_FAILED_RESULT)
		emit_range(lane, &site, WIRE_EV_MREMAP_FAIL, (uint64_t)at, old_bytes, 0);
	else if (lane)
		emit_map(lane, &site, WIRE_EV_MREMAP_END,
			 (struct wire_ev_map){.address = (uint64_t)got, .bytes = bytes}, from);
	return got;
}

EXPORT int mprotect(void *at, size_t bytes, int prot)
{
	if (PASSING())
		return real.mprotect(at, bytes, prot);
	struct call_site site = CALL_SITE();
	struct lane *lane = maps_begin(&site);
	int result = real.mprotect(at, bytes, prot);
	if (lane && !result)
		emit_range(lane, &site, WIRE_EV_MPROTECT, (uint64_t)at, bytes, (uint32_t)prot);
	return result;
}

EXPORT int madvise(void *at, size_t bytes, int advice)
{
	if (PASSING())
		return real.madvise(at, bytes, advice);
	struct call_site site = CALL_SITE();
	struct lane *lane = maps_begin(&site);
	int result = real.madvise(at, bytes, advice);
	if (lane && !result &&
	    (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE))
		emit_range(lane, &site, WIRE_EV_MADVISE, (uint64_t)at, bytes, (uint32_t)advice);
	return result;
}

static void emit_break(struct lane *lane, const struct call_site *site, uint64_t from, uint64_t to)
{
	hook_raise(lane, site);
	uint64_t payload[3] = {from, to, unwind(lane, site)};
	emit_extra(lane, WIRE_EV_BRK, payload, 3);
	hook_lower(lane);
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
		emit_break(lane, &site, (uint64_t)from, (uint64_t)to);
	return result;
}

EXPORT void *sbrk(intptr_t bytes)
{
	if (PASSING() || !bytes)
		return real.sbrk(bytes);
	struct call_site site = CALL_SITE();
	struct lane *lane = maps_begin(&site);
	void *from = real.sbrk(bytes);
	if (lane && from != MAP_FAILED_RESULT)
		emit_break(lane, &site, (uint64_t)from, (uint64_t)from + (uint64_t)bytes);
	return from;
}
