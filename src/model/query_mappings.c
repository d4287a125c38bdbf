/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings that a filter chooses. They are few: all are gone through for every question. */
#include "model/query_section.h"

struct choice {
	const struct query_section *section;
	const struct filter_bound *filter;
	uint64_t now_ns;
	mapping_fn fn;
	void *ctx;
};

static bool is_chosen(const struct choice *choice, const struct mapping *mapping)
{
	bool ended = mapping->end_ns != UINT64_MAX;
	struct filter_block block = {
		.stack_id = mapping->stack_id,
		.thread_id = mapping->thread_id,
		.free_thread_id = mapping->end_thread_id,
		.is_mapping = true,
		.end_known = true,
		.ended = ended,
		.size_bytes = mapping->bytes,
		.address = mapping->address,
		.birth_ns = mapping->birth_ns,
		.end_ns = ended ? mapping->end_ns : choice->section->duration_ns,
		.now_ns = choice->now_ns,
		.live_now = mapping->birth_ns <= choice->now_ns && mapping->end_ns > choice->now_ns,
	};
	return filter_block(choice->filter, &block) == FILTER_YES;
}

static int look_at(void *ctx, const struct mapping *mapping)
{
	const struct choice *choice = ctx;
	if (mapping->stack_id >= choice->section->stack_count || !is_chosen(choice, mapping))
		return 0;
	return choice->fn(choice->ctx, mapping);
}

int query_mappings(const struct query_section *section, const struct filter_bound *filter,
		   uint64_t now_ns, mapping_fn fn, void *ctx, struct tm_error *err)
{
	const struct trace_meta *meta;
	if (!filter || !filter_wants_mappings(filter))
		return 0;
	int rc = trace_reader_meta(section->reader, &meta, err);
	if (rc)
		return rc;
	struct choice choice = {
		.section = section, .filter = filter, .now_ns = now_ns, .fn = fn, .ctx = ctx};
	return mappings_each(section->maps, section->map_count, meta->page_bytes, look_at, &choice);
}
