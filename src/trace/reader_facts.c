/* SPDX-License-Identifier: Apache-2.0 */
/* What a section says about itself: meta data, its end, its slices. */
#include "trace/reader.h"

#include "base/memory.h"
#include "trace/decode.h"
#include "trace/slices.h"

#include <errno.h>
#include <inttypes.h>

/* The payload of the first sealed block of a type; -ENODATA if there is none. */
static int load_single(struct trace_reader *r, enum format_type type, struct bytes *raw,
		       struct tm_error *err)
{
	if (section_count(&r->section, type) == 0)
		return tm_fail(err, -ENODATA, "'%s': there is no block of %s", r->source.path,
			       source_type_name(type));
	const struct section_group *group = section_group(&r->section, type, 0);
	return source_load(&r->source, &r->scan.entries[r->section.members[group->first]], raw,
			   err);
}

int trace_reader_meta(struct trace_reader *r, const struct trace_meta **ret, struct tm_error *err)
{
	if (!r->meta_loaded) {
		struct bytes raw = {0};
		int rc = load_single(r, FORMAT_BEGIN, &raw, err);
		if (rc == 0 && !rows_get_meta(span_of(raw.data, raw.used), &r->texts, &r->meta))
			rc = tm_fail(err, r->texts.failed ? -ENOMEM : -EBADMSG,
				     "'%s': the meta data cannot be read", r->source.path);
		bytes_done(&raw);
		if (rc < 0)
			return rc;
		r->meta_loaded = true;
	}
	*ret = &r->meta;
	return 0;
}

static int take_end(void *ctx, const struct trace_slice *slice)
{
	*(struct trace_slice *)ctx = *slice;
	return 0;
}

/*
 * Events may be folded after the section has ended, and a file that is being
 * written has no end: which blocks of events are left tells. The last slice
 * tells how many were culled.
 */
static int find_folded(struct trace_reader *r, bool has_end, struct tm_error *err)
{
	struct trace_slice last = {0};
	uint64_t next = 0, missing = 0;
	int rc = 0;
	const struct trace_meta *meta;
	bool culled = !has_end && !trace_reader_meta(r, &meta, NULL) && meta->cull_ns;
	bool folded = r->source.reuse || r->end.folded_events;
	if (!folded && !culled)
		return 0;
	if (r->slices.count)
		rc = trace_reader_plain_slice(r, r->slices.count - 1, take_end, &last, err);
	struct trace_event_block block = {.first_event = last.first_event + last.event_count,
					  .start_ns = last.end_ns};
	r->end.folded_events = block.first_event;
	r->end.exact_since_ns = block.start_ns;
	for (size_t i = 0; !trace_reader_event_block(r, i, &block); i++) {
		if (i == 0) {
			r->end.folded_events = block.first_event;
			r->end.exact_since_ns = block.start_ns;
		}
		missing += block.first_event > next ? block.first_event - next : 0;
		next = block.first_event + block.event_count;
	}
	uint64_t counted = last.first_event + last.event_count;
	missing += counted > next ? counted - next : 0;
	r->end.events_not_stored = missing;
	if (!has_end)
		r->end.culled_events = last.culled_events < missing ? last.culled_events : missing;
	/* What was culled before the first event that is left was never stored. */
	uint64_t others = missing > r->end.culled_events ? missing - r->end.culled_events : 0;
	if (!folded || r->end.folded_events > others)
		r->end.folded_events = folded ? others : 0;
	if (!r->end.folded_events)
		r->end.exact_since_ns = 0;
	return rc == -EBADMSG ? 0 : rc;
}

int reader_load_end(struct trace_reader *r, struct tm_error *err)
{
	struct bytes raw = {0};
	bool has_end = section_count(&r->section, FORMAT_END) > 0;
	bool lost = !has_end && !source_is_written(&r->source);
	r->end = (struct trace_end){.cause = lost ? TRACE_END_COLLECTOR_LOST : TRACE_END_UNKNOWN};
	int rc = 0;
	if (has_end)
		rc = load_single(r, FORMAT_END, &raw, err);
	if (rc == 0 && raw.used > 0 &&
	    !rows_get_end(span_of(raw.data, raw.used), &r->texts, &r->end))
		rc = r->texts.failed ? tm_fail(err, -ENOMEM, "no memory for the trace's end")
				     : -EBADMSG;
	bytes_done(&raw);
	if (rc == -EBADMSG) {
		source_warn(&r->source, "the section's end is damaged");
		rc = 0;
	}
	return rc ? rc : find_folded(r, has_end, err);
}

int trace_reader_end(struct trace_reader *r, const struct trace_end **ret, struct tm_error *err)
{
	(void)err;
	*ret = &r->end;
	return 0;
}

int trace_reader_slice_range(struct trace_reader *r, size_t first, size_t count, trace_slice_fn fn,
			     void *ctx, struct tm_error *err)
{
	struct slices_reader slices = {0};
	struct bytes raw = {0};
	size_t have = trace_reader_slice_count(r);
	int rc = 0;
	for (size_t i = first; i < have && i - first < count && rc == 0; i++) {
		rc = reader_slice_load(r, i, &raw, &slices, err);
		if (rc == 0)
			rc = fn(ctx, &slices.slice);
	}
	slices_done(&slices);
	bytes_done(&raw);
	return rc;
}

int trace_reader_slices(struct trace_reader *r, trace_slice_fn fn, void *ctx, struct tm_error *err)
{
	return trace_reader_slice_range(r, 0, SIZE_MAX, fn, ctx, err);
}

static void forget_table(struct reader_table *table)
{
	tm_free(table->rows);
	*table = (struct reader_table){0};
}

void reader_forget(struct trace_reader *r)
{
	forget_table(&r->stacks);
	forget_table(&r->modules);
	forget_table(&r->threads);
	forget_table(&r->samples);
	forget_table(&r->moments);
	forget_table(&r->maps);
	forget_table(&r->symbols);
	forget_table(&r->sources);
	forget_table(&r->refs);
	texts_done(&r->texts);
	r->meta_loaded = false;
}
