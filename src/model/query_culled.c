/* SPDX-License-Identifier: Apache-2.0 */
/* What threads did with blocks that were culled: slices say it, each for itself. */
#include <errno.h>

#include "base/memory.h"
#include "model/query_fast.h"
#include "model/query_section.h"

struct adding {
	struct query_thread *threads; /* by thread_id */
	size_t count;
	uint64_t culled; /* events up to the last slice before the end of the range */
};

static int add_slice(void *ctx, const struct trace_slice *slice)
{
	struct adding *adding = ctx;
	for (uint32_t i = 0; i < slice->culled_thread_count; i++) {
		const struct trace_culled_thread *row = &slice->culled_threads[i];
		if (row->thread_id >= adding->count)
			continue;
		struct query_thread *thread = &adding->threads[row->thread_id];
		thread->allocations += row->births;
		thread->allocated_bytes += row->birth_bytes;
		thread->frees += row->ends;
		thread->freed_bytes += row->end_bytes;
		thread->foreign_frees += row->foreign_ends;
		thread->temporary += row->temporary;
	}
	return 0;
}

static int take_culled(void *ctx, const struct trace_slice *slice)
{
	struct adding *adding = ctx;
	adding->culled = slice->culled_events;
	return 0;
}

static bool is_empty(const struct query_thread *thread)
{
	return !thread->allocations && !thread->frees && !thread->freed_bytes &&
	       !thread->foreign_frees && !thread->temporary && !thread->end_blocks;
}

int add_culled_threads(struct query_section *section, const struct query_range *range,
		       struct query_answer *answer, struct tm_error *err)
{
	struct adding adding = {.count = section->thread_count};
	adding.threads = tm_alloc_array(adding.count + 1, sizeof *adding.threads);
	if (!adding.threads)
		return tm_fail(err, -ENOMEM, "no memory to answer");
	for (size_t i = 0; i < adding.count; i++)
		adding.threads[i].thread_id = (uint32_t)i;
	for (size_t i = 0; i < answer->thread_count; i++)
		adding.threads[answer->threads[i].thread_id] = answer->threads[i];
	int rc = 0;
	size_t end = 0;
	for (; end < section->slice_count && !rc; end++) {
		if (fast_boundary(section, end + 1) > range->end_event)
			break;
		if (fast_boundary(section, end) >= range->first_event)
			rc = trace_reader_plain_slice(section->reader, end, add_slice, &adding,
						      err);
	}
	if (!rc && end)
		rc = trace_reader_plain_slice(section->reader, end - 1, take_culled, &adding, err);
	if (rc) {
		tm_free(adding.threads);
		return rc;
	}
	tm_free(answer->threads);
	answer->threads = adding.threads;
	answer->thread_count = 0;
	/* The others are missing for other reasons. */
	answer->unread_events -=
		adding.culled < answer->unread_events ? adding.culled : answer->unread_events;
	for (size_t i = 0; i < adding.count; i++)
		if (!is_empty(&adding.threads[i]))
			answer->threads[answer->thread_count++] = adding.threads[i];
	return 0;
}
