/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a section for questions. */
#include "model/query.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/units.h"
#include "model/query_section.h"
#include "model/tick_store.h"

static int load_tables(struct query_section *s, struct tm_error *err)
{
	int rc = trace_reader_stacks(s->reader, &s->stacks, &s->stack_count, err);
	if (!rc)
		rc = trace_reader_threads(s->reader, &s->thread_rows, &s->thread_count, err);
	if (!rc)
		rc = trace_reader_samples(s->reader, &s->samples, &s->sample_count, err);
	if (!rc)
		rc = trace_reader_maps(s->reader, &s->maps, &s->map_count, err);
	if (!rc)
		rc = trace_reader_moments(s->reader, &s->moments, &s->moment_count, err);
	return rc;
}

/* Times and ordinals of blocks of events that go back are as good as damaged. */
static int load_parts(struct query_section *s, struct tm_error *err)
{
	s->part_count = trace_reader_event_block_count(s->reader);
	s->parts = tm_alloc_array(s->part_count + 1, sizeof *s->parts);
	if (!s->parts)
		return tm_fail(err, -ENOMEM, "no memory for the index of the events");
	uint64_t last_ns = 0;
	for (size_t i = 0; i < s->part_count; i++) {
		struct trace_event_block facts;
		int rc = trace_reader_event_block(s->reader, i, &facts);
		if (rc)
			return tm_fail(err, rc, "event block %zu of the trace cannot be found", i);
		if (facts.first_event < s->stored_events ||
		    facts.event_count > UINT64_MAX / 2 - facts.first_event)
			return tm_fail(err, -EBADMSG,
				       "event block %zu of the trace begins with event %llu, "
				       "before the end of the block before it",
				       i, (unsigned long long)facts.first_event);
		if (facts.start_ns > last_ns)
			last_ns = facts.start_ns;
		struct section_part *part = &s->parts[i];
		*part = (struct section_part){
			.first_event = facts.first_event,
			.event_count = facts.event_count,
			.first_block_id = facts.first_block_id,
			.start_ns = last_ns,
			.min_size_bytes = facts.min_size_bytes,
			.max_size_bytes = facts.max_size_bytes,
		};
		if (facts.end_ns > last_ns)
			last_ns = facts.end_ns;
		part->end_ns = last_ns;
		s->stored_events = facts.first_event + facts.event_count;
	}
	return 0;
}

/* Slices that do not follow each other are as good as none. */
static int check_slices(struct query_section *s, struct tm_error *err)
{
	uint64_t next = 0, births = 0;
	for (size_t i = 0; i < s->slice_count; i++) {
		const struct trace_slice *slice = &s->slices[i];
		s->births_before[i] = births;
		if (slice->first_event != next ||
		    __builtin_add_overflow(next, slice->event_count, &next) ||
		    __builtin_add_overflow(births, slice->births, &births))
			return tm_fail(err, -EBADMSG, "slice %zu of the trace is out of order", i);
	}
	s->births_before[s->slice_count] = births;
	return 0;
}

/* Slices of which events are missing: folded, culled, or in a part that was not to be repaired. */
static int find_gaps(struct query_section *s, struct tm_error *err)
{
	uint64_t next = 0;
	size_t slice = 0;
	s->slice_stored = tm_alloc_array(s->slice_count + 1, sizeof *s->slice_stored);
	if (!s->slice_stored)
		return tm_fail(err, -ENOMEM, "no memory for the slices of the trace");
	for (size_t i = 0; i < s->slice_count; i++)
		s->slice_stored[i] = true;
	for (size_t i = 0; i < s->part_count; i++) {
		uint64_t first = s->parts[i].first_event;
		s->has_gaps |= first > next;
		for (; slice < s->slice_count && first > next; slice++) {
			uint64_t begin = s->slices[slice].first_event;
			uint64_t end = begin + s->slices[slice].event_count;
			if (end > next && begin < first)
				s->slice_stored[slice] = false;
			if (end > first) /* it may have the next gap, too */
				break;
		}
		next = first + s->parts[i].event_count;
	}
	for (size_t i = s->slice_count; s->culled && i-- > 0;) {
		if (s->slices[i].first_event + s->slices[i].event_count <= next)
			break;
		s->slice_stored[i] = false;
		s->has_gaps = true;
	}
	return 0;
}

/* A realloc that failed may have begun among events that are missing: its slice as a whole knows.
 */
static void find_undone(struct query_section *s)
{
	for (size_t i = 0; s->has_gaps && i < s->part_count; i++) {
		struct trace_ends_facts ends;
		uint64_t end = s->parts[i].first_event + s->parts[i].event_count;
		if (trace_reader_ends_facts(s->reader, i, &ends) || !ends.undone)
			continue;
		for (size_t k = 0; k < s->slice_count; k++)
			if (s->slices[k].first_event < end &&
			    s->slices[k].first_event + s->slices[k].event_count >
				    s->parts[i].first_event)
				s->slice_stored[k] = false;
	}
}

static int load_slices(struct query_section *s, struct tm_error *err)
{
	int rc = trace_reader_curve(s->reader, &s->slices, &s->slice_count, err);
	if (rc)
		return rc;
	s->births_before = tm_alloc_array(s->slice_count + 1, sizeof *s->births_before);
	if (!s->births_before)
		return tm_fail(err, -ENOMEM, "no memory for the slices of the trace");
	rc = check_slices(s, err);
	if (!rc)
		rc = find_gaps(s, err);
	if (!rc)
		find_undone(s);
	return rc;
}

static void drop_slices(struct query_section *s)
{
	s->slice_stored = tm_free(s->slice_stored);
	s->has_gaps = s->culled = false;
	s->slices = tm_free(s->slices);
	s->births_before = tm_free(s->births_before);
	s->slice_count = 0;
}

struct trace_event *section_take_buffer(struct query_section *s)
{
	struct trace_event *buffer = NULL;
	pthread_mutex_lock(&s->lock);
	if (s->buffer_count > 0)
		buffer = s->buffers[--s->buffer_count];
	pthread_mutex_unlock(&s->lock);
	return buffer ? buffer : tm_grow_array(NULL, SECTION_BUFFER_EVENTS, sizeof *buffer);
}

void section_give_buffer(struct query_section *s, struct trace_event *buffer)
{
	pthread_mutex_lock(&s->lock);
	if (buffer && s->buffer_count < SECTION_BUFFERS) {
		s->buffers[s->buffer_count++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	tm_free(buffer);
}

static int load_model(struct query_section *s, const struct query_open_options *options,
		      struct tm_error *err)
{
	struct model_load_options load = {.threads = s->threads};
	if (options) {
		load.progress = options->progress.fn;
		load.ctx = options->progress.ctx;
	}
	int rc = model_load_with(s->reader, &load, &s->model, &s->rebuilt, err);
	if (!rc && s->rebuilt)
		drop_slices(s);
	return rc;
}

/* Another recording may have been written into the same file. */
static int load_ticks(struct query_section *s, const struct query_open_options *options,
		      struct tm_error *err)
{
	const struct trace_meta *meta;
	uint64_t identity = 0;
	if (!trace_reader_meta(s->reader, &meta, NULL))
		identity = hash_pair(meta->start_unix_ns, (uint64_t)meta->piece << 32 | meta->pid);
	if (options && options->ticks && tick_store_identity(options->ticks) == identity)
		s->ticks = tick_store_share(options->ticks);
	else
		s->ticks = tick_store_new(identity, options ? options->tick_events : 0);
	return s->ticks ? 0 : tm_fail(err, -ENOMEM, "no memory to open the trace");
}

int query_open(struct trace_reader *reader, const struct query_open_options *options,
	       struct query_section **ret_section, struct tm_error *err)
{
	struct query_section *s = tm_alloc(sizeof *s);
	if (!s)
		return tm_fail(err, -ENOMEM, "no memory to open the trace");
	s->reader = reader;
	pthread_mutex_init(&s->lock, NULL);
	s->threads = options ? options->threads : 0;
	int rc = load_ticks(s, options, err);
	if (!rc)
		rc = load_tables(s, err);
	if (!rc)
		rc = load_parts(s, err);
	const struct trace_meta *meta = NULL;
	if (!trace_reader_meta(reader, &meta, NULL)) {
		s->unknown = meta->unknown;
		s->culled = meta->cull_ns;
	}
	if (!rc)
		rc = load_slices(s, err);
	if (rc == -EBADMSG) {
		drop_slices(s);
		rc = 0;
	}
	if (!rc)
		rc = load_model(s, options, err);
	if (rc) {
		query_close(s);
		return rc;
	}
	s->sample_bytes = trace_reader_sample_bytes(reader);
	struct model_totals totals;
	model_totals(s->model, &totals);
	s->duration_ns = totals.duration_ns;
	rc = section_take_marks(s, err);
	if (rc) {
		query_close(s);
		return rc;
	}
	*ret_section = s;
	return 0;
}

struct query_section *query_close(struct query_section *s)
{
	if (!s)
		return NULL;
	section_drop_marks(s);
	tick_store_free(s->ticks);
	model_free(s->model);
	tm_free(s->parts);
	drop_slices(s);
	for (size_t i = 0; i < s->buffer_count; i++)
		tm_free(s->buffers[i]);
	pthread_mutex_destroy(&s->lock);
	return tm_free(s);
}

struct tick_store *query_keep_ticks(const struct query_section *s)
{
	return tick_store_share(s->ticks);
}

struct tick_store *query_drop_ticks(struct tick_store *ticks)
{
	return tick_store_free(ticks);
}

const struct model *query_model(const struct query_section *s)
{
	return s->model;
}

struct trace_reader *query_reader(const struct query_section *s)
{
	return s->reader;
}

uint64_t query_duration_ns(const struct query_section *s)
{
	return s->duration_ns;
}

bool query_rebuilt(const struct query_section *s)
{
	return s->rebuilt;
}

static int bind_moment(void *ctx, const char *text, uint64_t *ret_ns, struct tm_error *err)
{
	return query_time_parse(ctx, text, ret_ns, err);
}

int query_bind(const struct query_section *s, const struct filter *filter,
	       const struct filter_names *names, struct filter_bound **ret_bound,
	       struct tm_error *err)
{
	struct filter_context context = {
		.unknown = s->unknown,
		.stacks = s->stacks,
		.stack_count = s->stack_count,
		.threads = s->thread_rows,
		.thread_count = s->thread_count,
		.names = names,
		.moment = bind_moment,
		.moment_ctx = (void *)s,
	};
	return filter_bind(filter, &context, ret_bound, err);
}

int query_tell_progress(const struct query_progress *progress, uint64_t done, uint64_t total,
			struct tm_error *err)
{
	if (!progress->fn || !progress->fn(progress->ctx, done, total))
		return 0;
	return tm_fail(err, -ECANCELED, "stopped after %llu of %llu events",
		       (unsigned long long)done, (unsigned long long)total);
}
