/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings, and how much of them was resident. */
#include "base/hash.h"
#include "base/memory.h"
#include "import/bytehound.h"

enum { REGIONS_MAX = 1 << 22, ROUND_US = 50000 };

static int end_here(struct bytehound *b)
{
	b->ended = true;
	return 0;
}

/* ---- resident memory ---- */

static bool same_map(const void *ctx, uint32_t number, const void *key)
{
	return ((const struct bytehound *)ctx)->usages[number].map_id == *(const uint64_t *)key;
}

static int set_resident(struct bytehound *b, uint64_t map_id, uint64_t kib)
{
	uint32_t found = idmap_find(&b->usage_map, hash_u64(map_id), same_map, b, &map_id);
	if (found == IDMAP_NONE && !kib)
		return 0;
	if (found == IDMAP_NONE) {
		if (b->usage_count >= REGIONS_MAX)
			return 0;
		if (b->usage_count == b->usage_room) {
			size_t room = b->usage_room * 2 + 64;
			void *grown = tm_grow_array(b->usages, room, sizeof *b->usages);
			if (!grown)
				return bytehound_no_memory(b);
			b->usages = grown;
			b->usage_room = room;
		}
		found = (uint32_t)b->usage_count;
		b->usages[found] = (struct bytehound_usage){.map_id = map_id};
		if (idmap_add(&b->usage_map, hash_u64(map_id), found))
			return bytehound_no_memory(b);
		b->usage_count++;
	}
	struct bytehound_usage *usage = &b->usages[found];
	b->resident_kib += kib - usage->resident_kib;
	usage->resident_kib = kib;
	return 0;
}

int bytehound_sample(struct bytehound *b)
{
	if (b->usage_us <= b->sample_us)
		return 0;
	b->sample_us = b->usage_us;
	const struct trace_sample sample = {.time_ns = b->usage_us * 1000,
					    .rss_bytes = b->resident_kib * 1024};
	return events_sample(b->events, &sample, b->err);
}

/* All regions are looked at one after the other: a sample is due when a new round begins. */
static int note_time(struct bytehound *b, uint64_t time_us)
{
	uint64_t us = bytehound_time_ns(b, time_us) / 1000;
	int code = us > b->usage_us + ROUND_US ? bytehound_sample(b) : 0;
	if (us > b->usage_us)
		b->usage_us = us;
	return code;
}

int bytehound_region_usage(struct bytehound *b)
{
	struct bytehound_stream *s = &b->stream;
	uint64_t map_id, bytes, parts[6], kib = 0;
	if (!bytehound_need(s, 8))
		return end_here(b);
	int code = note_time(b, bytehound_u64(s));
	if (!bytehound_varint(s, &map_id) || !bytehound_need(s, 8))
		return end_here(b);
	s->at += 8;
	if (!bytehound_varint(s, &bytes))
		return end_here(b);
	for (unsigned i = 0; i < 6; i++)
		if (!bytehound_varint(s, &parts[i]))
			return end_here(b);
	/* The first is of what the next four have, the last is not resident. */
	for (unsigned i = 1; i < 5; i++)
		kib += parts[i];
	if (kib >> 40) {
		b->odd++;
		return code;
	}
	return code ? code : set_resident(b, map_id, kib);
}

/* ---- mapped memory ---- */

static int put_map(struct bytehound *b, struct trace_map_event *map, uint64_t time_us,
		   uint64_t backtrace, uint32_t tid)
{
	int64_t thread = bytehound_thread(b, tid);
	if (thread < 0)
		return bytehound_no_memory(b);
	map->time_ns = bytehound_time_ns(b, time_us);
	if (map->time_ns < b->map_ns)
		map->time_ns = b->map_ns;
	b->map_ns = map->time_ns;
	map->stack_id = bytehound_stack(b, backtrace);
	map->thread_id = (uint32_t)thread;
	return map->bytes ? events_map(b->events, map, b->err) : 0;
}

int bytehound_remove_region(struct bytehound *b)
{
	struct bytehound_stream *s = &b->stream;
	uint64_t map_id, bytes, count, backtrace;
	if (!bytehound_need(s, 8))
		return end_here(b);
	s->at += 8;
	if (!bytehound_varint(s, &map_id) || !bytehound_need(s, 8))
		return end_here(b);
	uint64_t address = bytehound_u64(s);
	if (!bytehound_varint(s, &bytes) || !bytehound_varint(s, &count))
		return end_here(b);
	if (address + bytes >= address)
		bytehound_drop_range(b, address, address + bytes);
	int code = set_resident(b, map_id, 0);
	for (; count > 0 && !code && !b->ended; count--) {
		struct trace_map_event map = {.op = TRACE_UNMAP};
		if (!bytehound_need(s, 8))
			return end_here(b);
		map.address = bytehound_u64(s);
		if (!bytehound_varint(s, &map.bytes) || !bytehound_need(s, 8))
			return end_here(b);
		uint64_t time_us = bytehound_u64(s);
		if (!bytehound_varint(s, &backtrace) || !bytehound_need(s, 4))
			return end_here(b);
		code = put_map(b, &map, time_us, backtrace, bytehound_u32(s));
	}
	return code;
}

int bytehound_map(struct bytehound *b)
{
	struct bytehound_stream *s = &b->stream;
	struct trace_map_event map = {.op = TRACE_MAP};
	uint64_t map_id, requested, offset, backtrace;
	if (!bytehound_varint(s, &map_id) || !bytehound_need(s, 8))
		return end_here(b);
	map.address = bytehound_u64(s);
	if (!bytehound_varint(s, &requested) || !bytehound_varint(s, &map.bytes) ||
	    !bytehound_need(s, 12))
		return end_here(b);
	map.prot_or_advice = bytehound_u32(s);
	map.flags = bytehound_u32(s) & ~(TRACE_MAP_FILE | TRACE_MAP_RESTATED);
	if (bytehound_u32(s) != UINT32_MAX)
		map.flags |= TRACE_MAP_FILE;
	if (!bytehound_varint(s, &offset) || !bytehound_need(s, 8))
		return end_here(b);
	uint64_t time_us = bytehound_u64(s);
	if (!bytehound_varint(s, &backtrace) || !bytehound_need(s, 4))
		return end_here(b);
	return put_map(b, &map, time_us, backtrace, bytehound_u32(s));
}

int bytehound_old_map(struct bytehound *b, bool is_map)
{
	struct bytehound_stream *s = &b->stream;
	struct trace_map_event map = {.op = is_map ? TRACE_MAP : TRACE_UNMAP};
	if (!bytehound_need(s, is_map ? 64 : 36))
		return end_here(b);
	uint64_t time_us = bytehound_u64(s);
	map.address = bytehound_u64(s);
	map.bytes = bytehound_u64(s);
	uint64_t backtrace = bytehound_u64(s);
	if (is_map) {
		s->at += 8;
		map.prot_or_advice = bytehound_u32(s);
		map.flags = bytehound_u32(s) & ~TRACE_MAP_FILE;
		if (bytehound_u32(s) != UINT32_MAX)
			map.flags |= TRACE_MAP_FILE;
	}
	uint32_t tid = bytehound_u32(s);
	if (is_map)
		s->at += 8;
	return put_map(b, &map, time_us, backtrace, tid);
}
