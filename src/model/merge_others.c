/* SPDX-License-Identifier: Apache-2.0 */
#include "model/merge_others.h"

#include <errno.h>
#include <string.h>

/* Addresses of programs are below: bits from here on tell whose a mapping is. */
enum { PROCESS_SHIFT = 47, PROCESSES_MAX = 1 << 16 };

int merge_others_open(struct merge_others *others, struct merge_stream *s, struct tm_error *err)
{
	struct trace_reader *reader = others->plan->parts[s->part].reader;
	int rc = trace_reader_maps(reader, &s->maps, &s->map_count, err);
	if (!rc)
		rc = trace_reader_samples(reader, &s->samples, &s->sample_count, err);
	if (!rc)
		rc = trace_reader_moments(reader, &s->moments, &s->moment_count, err);
	s->next_map = s->next_sample = s->next_moment = 0;
	if (rc || !merge_is_next_piece(others->plan, s->part))
		return rc;
	/* What is there at time 0 of a later piece was there before. */
	while (s->next_map < s->map_count && !s->maps[s->next_map].time_ns)
		s->next_map++;
	while (s->next_moment < s->moment_count && !s->moments[s->next_moment].time_ns)
		s->next_moment++;
	return 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t merge_others_next(const struct merge_stream *s)
{
	uint64_t next_ns = UINT64_MAX;
	if (s->next_map < s->map_count)
		next_ns = earlier(next_ns, s->maps[s->next_map].time_ns);
	if (s->next_sample < s->sample_count)
		next_ns = earlier(next_ns, s->samples[s->next_sample].time_ns);
	if (s->next_moment < s->moment_count)
		next_ns = earlier(next_ns, s->moments[s->next_moment].time_ns);
	/* Only a damaged file has one that is never due. */
	return next_ns == UINT64_MAX ? next_ns : earlier(next_ns, INT64_MAX);
}

static uint64_t moment(const struct merge_others *others, const struct merge_stream *s,
		       uint64_t time_ns, uint64_t *now_ns)
{
	uint64_t merged = earlier(time_ns, INT64_MAX) + others->plan->parts[s->part].offset_ns;
	if (merged > *now_ns)
		*now_ns = merged;
	return *now_ns;
}

static int written(struct tm_error *err, int rc)
{
	return rc ? tm_fail(err, rc, "the merged trace cannot be written: %s", strerror(-rc)) : 0;
}

/* ---- mappings ---- */

static int write_map(struct merge_others *others, struct trace_map_event *event,
		     struct tm_error *err)
{
	int rc = merge_names_flush(others->names);
	if (!rc)
		rc = model_apply_map(others->copy->model, event, err);
	return rc ? rc : written(err, trace_writer_maps(others->copy->writer, event, 1));
}

static int take_map(struct merge_others *others, struct merge_stream *s, uint64_t *now_ns,
		    struct tm_error *err)
{
	struct trace_map_event event = s->maps[s->next_map++];
	const struct merge_ids *ids = &others->names->ids[s->part];
	event.time_ns = moment(others, s, event.time_ns, now_ns);
	if (event.stack_id >= ids->stack_count)
		event.stack_id = 0;
	event.thread_id = event.thread_id < ids->thread_count ? event.thread_id : 0;
	event.thread_id += ids->thread_base;
	int rc = merge_names_stack(others->names, s->part, &event.stack_id);
	if (rc)
		return tm_fail(err, rc, "no memory to merge the traces");
	if (others->plan->stream_count > 1 && event.op != TRACE_MAP_FOLDED) {
		uint64_t above = (uint64_t)(s->number % PROCESSES_MAX) << PROCESS_SHIFT;
		if (event.op == TRACE_MAP_BRK || event.address >> PROCESS_SHIFT)
			return 0;
		event.address += above;
		event.moved_from += event.moved_from ? above : 0;
	}
	return write_map(others, &event, err);
}

/* ---- memory from outside ---- */

static void move_sum(uint64_t *sum, uint64_t old, uint64_t new)
{
	*sum = *sum - old + new;
}

static int put_sum(struct merge_others *others, struct merge_stream *s,
		   const struct trace_sample *sample, struct tm_error *err)
{
	struct trace_sample *sum = &others->sum, *last = &s->last_sample;
	sum->time_ns = sample->time_ns;
	move_sum(&sum->rss_bytes, last->rss_bytes, sample->rss_bytes);
	move_sum(&sum->pss_bytes, last->pss_bytes, sample->pss_bytes);
	move_sum(&sum->anon_bytes, last->anon_bytes, sample->anon_bytes);
	move_sum(&sum->agent_bytes, last->agent_bytes, sample->agent_bytes);
	/* The group's memory is one for all of them. */
	sum->cgroup_bytes = sample->cgroup_bytes;
	sum->cgroup_limit_bytes = sample->cgroup_limit_bytes;
	*last = *sample;
	model_apply_sample(others->copy->model, sum);
	return written(err, trace_writer_sample(others->copy->writer, sum));
}

static int take_sample(struct merge_others *others, struct merge_stream *s, uint64_t *now_ns,
		       struct tm_error *err)
{
	struct trace_sample sample = s->samples[s->next_sample++];
	sample.time_ns = moment(others, s, sample.time_ns, now_ns);
	return put_sum(others, s, &sample, err);
}

int merge_others_end(struct merge_others *others, struct merge_stream *s, uint64_t *now_ns,
		     struct tm_error *err)
{
	const struct merge_part *part = &others->plan->parts[s->part];
	if (others->plan->stream_count == 1 || !s->last_sample.rss_bytes)
		return 0;
	const struct trace_sample gone = {
		.time_ns = moment(others, s, part->last_ns, now_ns),
		.cgroup_bytes = s->last_sample.cgroup_bytes,
		.cgroup_limit_bytes = s->last_sample.cgroup_limit_bytes,
	};
	return put_sum(others, s, &gone, err);
}

/* ---- marks ---- */

static int take_moment(struct merge_others *others, struct merge_stream *s, uint64_t *now_ns,
		       struct tm_error *err)
{
	struct trace_moment mark = s->moments[s->next_moment++];
	mark.time_ns = moment(others, s, mark.time_ns, now_ns);
	/* A pause of one of several processes is none of the others. */
	bool is_pause = mark.kind == TRACE_MOMENT_PAUSE || mark.kind == TRACE_MOMENT_RESUME;
	if (others->plan->stream_count > 1 && is_pause)
		return 0;
	return written(err, trace_writer_moment(others->copy->writer, &mark));
}

int merge_others_take(struct merge_others *others, struct merge_stream *s, uint64_t *now_ns,
		      struct tm_error *err)
{
	uint64_t next_ns = merge_others_next(s);
	if (s->next_map < s->map_count && s->maps[s->next_map].time_ns <= next_ns)
		return take_map(others, s, now_ns, err);
	if (s->next_sample < s->sample_count && s->samples[s->next_sample].time_ns <= next_ns)
		return take_sample(others, s, now_ns, err);
	if (s->next_moment < s->moment_count && s->moments[s->next_moment].time_ns <= next_ns)
		return take_moment(others, s, now_ns, err);
	/* Times beyond all sense: see merge_others_next(). */
	if (s->next_map < s->map_count)
		return take_map(others, s, now_ns, err);
	if (s->next_sample < s->sample_count)
		return take_sample(others, s, now_ns, err);
	return take_moment(others, s, now_ns, err);
}
