/* SPDX-License-Identifier: Apache-2.0 */
#include "model/merge_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/trim.h"

enum { CLOSE_TOGETHER_S = 60 };

static uint64_t last_ns(struct trace_reader *reader, const struct trace_end *end)
{
	uint64_t last = end->duration_ns;
	struct trace_event_block block;
	for (size_t i = 0; i < trace_reader_event_block_count(reader); i++)
		if (!trace_reader_event_block(reader, i, &block) && block.end_ns > last)
			last = block.end_ns;
	return last;
}

static int read_part(struct merge_part *part, struct trace_reader *reader, struct tm_error *err)
{
	*part = (struct merge_part){.reader = reader};
	int rc = trace_reader_meta(reader, &part->meta, err);
	if (!rc)
		rc = trace_reader_end(reader, &part->end, err);
	if (rc)
		return rc;
	if (part->end->events_not_stored || part->meta->unknown & TRACE_UNKNOWN_EVENTS)
		return tm_fail(
			err, -ENODATA,
			"the trace of '%s' (process %u) does not have all events, only sums: "
			"it cannot be merged",
			part->meta->program, part->meta->pid);
	part->last_ns = last_ns(reader, part->end);
	if (part->last_ns > INT64_MAX || part->meta->start_unix_ns > INT64_MAX ||
	    part->meta->piece_start_ns > INT64_MAX)
		return tm_fail(err, -EBADMSG,
			       "the times of process %u make no sense: 'tidemark "
			       "verify' says what is wrong with the file",
			       part->meta->pid);
	return 0;
}

static int by_number(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* All of one recording beside each other, and by the start. */
static int by_series(const void *left, const void *right)
{
	const struct trace_meta *a = ((const struct merge_part *)left)->meta;
	const struct trace_meta *b = ((const struct merge_part *)right)->meta;
	int order = by_number(a->series_id, b->series_id);
	order = order ? order : by_number(a->start_unix_ns, b->start_unix_ns);
	order = order ? order : by_number(a->piece, b->piece);
	return order ? order : by_number(a->pid, b->pid);
}

static int check_piece(const struct merge_part *before, const struct merge_part *part,
		       struct tm_error *err)
{
	uint32_t number = before->meta->piece;
	if (part->meta->piece == number && part->meta->start_unix_ns == before->meta->start_unix_ns)
		return tm_fail(err, -EINVAL, "piece %u of process %u is given twice: leave one out",
			       number, part->meta->pid);
	/* Only what was cut goes on; what ended otherwise has another program behind it. */
	uint32_t cause = before->end->cause;
	bool goes_on = cause == TRACE_END_ROTATED || cause == TRACE_END_UNKNOWN ||
		       cause == TRACE_END_COLLECTOR_LOST;
	if (part->meta->piece != number + 1 || !goes_on)
		return tm_fail(
			err, -ENODATA,
			"piece %u of process %u is missing between %u and %u: name its file, "
			"too, or merge what is before and behind it apart",
			number + 1, part->meta->pid, number, part->meta->piece);
	if (part->meta->piece_start_ns < before->meta->piece_start_ns)
		return tm_fail(err, -ENODATA, "piece %u of process %u begins before piece %u",
			       number + 1, part->meta->pid, number);
	return 0;
}

/* The first piece of another image of the process, after an exec, is one of its own. */
static bool begins_anew(const struct merge_part *part, const struct merge_part *before)
{
	bool same_series =
		part->meta->series_id && part->meta->series_id == before->meta->series_id;
	return !same_series ||
	       (part->meta->piece <= 1 && part->meta->start_unix_ns > before->meta->start_unix_ns);
}

static int make_streams(struct merge_plan *plan, struct tm_error *err)
{
	int rc = 0;
	for (size_t i = 0; i < plan->part_count && !rc; i++) {
		struct merge_part *part = &plan->parts[i];
		if (!i || begins_anew(part, part - 1))
			plan->first[plan->stream_count++] = i;
		else
			rc = check_piece(part - 1, part, err);
		part->stream = plan->stream_count - 1;
	}
	plan->first[plan->stream_count] = plan->part_count;
	return rc;
}

/* ---- when each began ---- */

/* A later piece's first real event stands at TRIM_START_NS of its times. */
static uint64_t piece_offset(const struct merge_part *first, const struct merge_part *part)
{
	if (part == first)
		return 0;
	uint64_t start = part->meta->piece_start_ns - first->meta->piece_start_ns;
	return start > TRIM_START_NS ? start - TRIM_START_NS : 0;
}

struct span_of_time {
	uint64_t from_ns, to_ns;
};

static int by_begin(const void *a, const void *b)
{
	return by_number(((const struct span_of_time *)a)->from_ns,
			 ((const struct span_of_time *)b)->from_ns);
}

static bool same_host(const struct merge_plan *plan)
{
	for (size_t i = 1; i < plan->part_count; i++)
		if (strcmp(plan->parts[i].meta->host, plan->parts[0].meta->host) != 0)
			return false;
	return true;
}

/* No pause between them that is longer than a minute. */
static bool close_together(const struct merge_plan *plan, struct span_of_time *spans)
{
	const uint64_t gap_ns = CLOSE_TOGETHER_S * 1000000000ull;
	for (size_t i = 0; i < plan->stream_count; i++) {
		const struct merge_part *first = &plan->parts[plan->first[i]];
		const struct merge_part *last = &plan->parts[plan->first[i + 1] - 1];
		spans[i].from_ns = first->meta->start_unix_ns;
		spans[i].to_ns =
			first->meta->start_unix_ns + piece_offset(first, last) + last->last_ns;
	}
	qsort(spans, plan->stream_count, sizeof *spans, by_begin);
	uint64_t end_ns = spans[0].to_ns;
	for (size_t i = 1; i < plan->stream_count; i++) {
		if (spans[i].from_ns > end_ns && spans[i].from_ns - end_ns > gap_ns)
			return false;
		end_ns = spans[i].to_ns > end_ns ? spans[i].to_ns : end_ns;
	}
	return true;
}

static int set_offsets(struct merge_plan *plan, enum merge_align align, struct tm_error *err)
{
	struct span_of_time *spans = tm_alloc_array(plan->stream_count + 1, sizeof *spans);
	if (!spans)
		return tm_fail(err, -ENOMEM, "no memory to merge the traces");
	plan->by_wall_clock =
		align == MERGE_ALIGN_WALL ||
		(align == MERGE_ALIGN_AUTO && same_host(plan) && close_together(plan, spans));
	tm_free(spans);
	plan->start_unix_ns = UINT64_MAX;
	for (size_t i = 0; i < plan->stream_count; i++) {
		uint64_t start = plan->parts[plan->first[i]].meta->start_unix_ns;
		plan->start_unix_ns = start < plan->start_unix_ns ? start : plan->start_unix_ns;
	}
	for (size_t i = 0; i < plan->part_count; i++) {
		struct merge_part *part = &plan->parts[i];
		const struct merge_part *first = &plan->parts[plan->first[part->stream]];
		part->offset_ns = piece_offset(first, part);
		if (plan->by_wall_clock)
			part->offset_ns += first->meta->start_unix_ns - plan->start_unix_ns;
		/* The file counts microseconds. */
		part->offset_ns = part->offset_ns / 1000 * 1000;
	}
	return 0;
}

int merge_plan_make(struct merge_plan *plan, struct trace_reader *const *readers, size_t count,
		    enum merge_align align, struct tm_error *err)
{
	*plan = (struct merge_plan){.part_count = count};
	plan->parts = tm_alloc_array(count + 1, sizeof *plan->parts);
	plan->first = tm_alloc_array(count + 1, sizeof *plan->first);
	if (!plan->parts || !plan->first)
		return tm_fail(err, -ENOMEM, "no memory to merge the traces");
	if (!count)
		return tm_fail(err, -EINVAL, "there is no trace to merge");
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++)
		rc = read_part(&plan->parts[i], readers[i], err);
	if (rc)
		return rc;
	qsort(plan->parts, count, sizeof *plan->parts, by_series);
	rc = make_streams(plan, err);
	return rc ? rc : set_offsets(plan, align, err);
}

void merge_plan_done(struct merge_plan *plan)
{
	plan->parts = tm_free(plan->parts);
	plan->first = tm_free(plan->first);
}

bool merge_keeps_addresses(struct trace_reader *const *readers, size_t count)
{
	struct merge_plan plan;
	struct tm_error ignored;
	bool keeps = !merge_plan_make(&plan, readers, count, MERGE_ALIGN_START, &ignored) &&
		     plan.stream_count == 1;
	for (size_t i = 0; i < count && keeps; i++)
		keeps = plan.parts[i].meta->addresses;
	merge_plan_done(&plan);
	return keeps;
}
