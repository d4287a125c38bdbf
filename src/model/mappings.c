/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mappings.h"

#include "model/maps.h"

struct listing {
	const struct trace_map_event *events;
	size_t count;
	uint64_t now_ns;
	uint32_t thread_id; /* of the present call */
	mapping_fn fn;
	void *ctx;
	int rc;
};

static uint64_t whole_us(uint64_t time_ns)
{
	return time_ns / 1000 * 1000;
}

static int tell(struct listing *list, uint64_t start, uint64_t end, uint32_t call, bool ended)
{
	const struct trace_map_event *made = &list->events[call];
	struct mapping mapping = {
		.address = start,
		.bytes = end - start,
		.birth_ns = whole_us(made->time_ns),
		.end_ns = ended ? list->now_ns : UINT64_MAX,
		.stack_id = made->stack_id,
		.thread_id = made->thread_id,
		.end_thread_id = list->thread_id,
	};
	/* A clock that steps back ends nothing before it began. */
	if (mapping.end_ns < mapping.birth_ns)
		mapping.end_ns = mapping.birth_ns;
	return list->fn(list->ctx, &mapping);
}

static void on_ended(void *ctx, uint64_t start, uint64_t end, uint8_t kind, uint32_t call)
{
	struct listing *list = ctx;
	if (kind == 0 && !list->rc)
		list->rc = tell(list, start, end, call, true);
}

static int on_left(void *ctx, uint64_t start, uint64_t end, uint8_t kind, uint32_t call)
{
	return kind == 0 ? tell(ctx, start, end, call, false) : 0;
}

int mappings_each(const struct trace_map_event *events, size_t count, uint64_t page_bytes,
		  mapping_fn fn, void *ctx)
{
	struct listing list = {.events = events, .count = count, .fn = fn, .ctx = ctx};
	struct map_set set;
	maps_init(&set, page_bytes);
	set.ended = on_ended;
	set.ended_ctx = &list;
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		set.call = (uint32_t)i;
		list.now_ns = whole_us(events[i].time_ns);
		list.thread_id = events[i].thread_id;
		rc = maps_apply(&set, &events[i]);
		if (!rc)
			rc = list.rc;
	}
	if (!rc)
		rc = maps_each(&set, on_left, &list);
	maps_done(&set);
	return rc;
}
