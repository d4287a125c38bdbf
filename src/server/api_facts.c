/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, lifetimes, threads, modules, a single stack. */
#include "server/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "server/fine_sizes.h"
#include "server/look.h"
#include "views/to_json.h"

enum { TOP_PER_BUCKET = 5 };

static int ask(struct call *call, struct selection *selection, unsigned want,
	       struct query_answer *ret_answer, struct tm_error *err)
{
	int code = selection_init(selection, call, err);
	if (code)
		return code;
	const struct query query = {
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.filter = selection->bound,
		.want = want,
		.progress = call_progress(call),
	};
	code = query_ask(call->facts->section, &query, ret_answer, err);
	if (code)
		selection_done(selection);
	return code;
}

/* ---- histograms ---- */

struct share { /* of one site in one bucket */
	uint32_t bucket, site;
	uint64_t count;
	const char *name;
};

static int by_bucket_and_site(const void *a, const void *b)
{
	const struct share *x = a, *y = b;
	if (x->bucket != y->bucket)
		return x->bucket < y->bucket ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

static int by_count(const void *a, const void *b)
{
	const struct share *x = a, *y = b;
	return x->count < y->count ? 1 : x->count > y->count ? -1 : by_bucket_and_site(a, b);
}

/* Joins equal (bucket, site); returns how many are left, in order of buckets. */
static size_t join(struct share *shares, size_t count)
{
	size_t kept = 0;
	if (count)
		qsort(shares, count, sizeof *shares, by_bucket_and_site);
	for (size_t i = 0; i < count; i++) {
		if (kept && !by_bucket_and_site(&shares[kept - 1], &shares[i]))
			shares[kept - 1].count += shares[i].count;
		else
			shares[kept++] = shares[i];
	}
	return kept;
}

/* What there is of a histogram, before it is put: steps of two, or finer ones. */
struct histogram {
	struct share *shares;
	size_t count;
	bool is_fine;
};

static void put_bucket(struct json *json, const struct histogram *histogram, struct share *shares,
		       size_t count)
{
	uint32_t bucket = shares[0].bucket;
	bool is_fine = histogram->is_fine;
	uint64_t all = 0;
	for (size_t i = 0; i < count; i++)
		all += shares[i].count;
	qsort(shares, count, sizeof *shares, by_count);
	json_begin_object(json, NULL);
	json_u64(json, "least", is_fine ? fine_least(bucket) : bucket ? 1ull << (bucket - 1) : 0);
	json_u64(json, "most", is_fine ? fine_most(bucket) : bucket ? (1ull << bucket) - 1 : 0);
	json_u64(json, "count", all);
	json_begin_array(json, "sites");
	for (size_t i = 0; i < count && i < TOP_PER_BUCKET; i++) {
		json_begin_object(json, NULL);
		json_string(json, "function", shares[i].name);
		json_u64(json, "count", shares[i].count);
		json_end(json);
	}
	json_end(json);
	json_end(json);
}

static void put_buckets(struct json *json, struct histogram *histogram)
{
	struct share *shares = histogram->shares;
	size_t count = join(shares, histogram->count);
	json_begin_array(json, "buckets");
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from; to < count && shares[to].bucket == shares[from].bucket;)
			to++;
		put_bucket(json, histogram, shares + from, to - from);
	}
	json_end(json);
}

static struct share share_of(const struct call *call, uint32_t stack_id, uint32_t bucket,
			     uint64_t count)
{
	return (struct share){.bucket = bucket,
			      .site = view_site_of(call->facts->data, stack_id),
			      .count = count,
			      .name = view_site_name(call->facts->data, stack_id)};
}

static int take_buckets(struct histogram *histogram, const struct call *call,
			const struct query_bucket *buckets, size_t count)
{
	histogram->shares = tm_alloc_array(count + 1, sizeof *histogram->shares);
	for (size_t i = 0; histogram->shares && i < count; i++)
		histogram->shares[i] =
			share_of(call, buckets[i].stack_id, buckets[i].bucket, buckets[i].count);
	histogram->count = count;
	return histogram->shares ? 0 : -ENOMEM;
}

static int take_fine(struct histogram *histogram, const struct call *call,
		     const struct selection *selection, struct tm_error *err)
{
	struct fine_size *sizes;
	size_t count;
	int code = fine_sizes(call, selection, &sizes, &count, err);
	if (code)
		return code;
	histogram->is_fine = true;
	histogram->shares = tm_alloc_array(count + 1, sizeof *histogram->shares);
	for (size_t i = 0; histogram->shares && i < count; i++)
		histogram->shares[i] =
			share_of(call, sizes[i].stack_id, sizes[i].bucket, sizes[i].count);
	histogram->count = count;
	tm_free(sizes);
	return histogram->shares ? 0 : -ENOMEM;
}

static int put_histogram(struct call *call, bool lives, struct tm_error *err)
{
	struct selection selection;
	struct query_answer answer;
	struct histogram histogram = {0};
	bool is_fine = !lives && request_bool(call->request, "fine");
	int code = ask(call, &selection, lives ? QUERY_LIVES : QUERY_SIZES, &answer, err);
	if (code)
		return code;
	if (is_fine)
		code = take_fine(&histogram, call, &selection, err);
	else
		code = take_buckets(&histogram, call, lives ? answer.lives : answer.sizes,
				    lives ? answer.life_count : answer.size_count);
	if (!code) {
		struct json *json = answer_json(call->answer);
		json_begin_object(json, NULL);
		api_put_found(json, &selection, &answer);
		json_string(json, "unit", lives ? "microseconds" : "bytes");
		put_buckets(json, &histogram);
		json_end(json);
	} else if (code == -ENOMEM) {
		code = tm_fail(err, -ENOMEM, "no memory for the histogram");
	}
	tm_free(histogram.shares);
	query_answer_done(&answer);
	selection_done(&selection);
	return code;
}

int api_sizes(struct call *call, struct tm_error *err)
{
	return put_histogram(call, false, err);
}

int api_lifetimes(struct call *call, struct tm_error *err)
{
	return put_histogram(call, true, err);
}

/* ---- threads ---- */

static void put_thread(struct json *json, const struct trace_thread *thread,
		       const struct query_thread *figures)
{
	json_begin_object(json, NULL);
	json_u64(json, "thread", thread->thread_id);
	json_u64(json, "tid", thread->tid);
	json_string(json, "name", thread->name[0] ? thread->name : NULL);
	json_u64(json, "start_ns", thread->start_ns);
	if (thread->end_ns == UINT64_MAX)
		json_null(json, "end_ns");
	else
		json_u64(json, "end_ns", thread->end_ns);
	json_u64(json, "allocations", figures->allocations);
	json_u64(json, "allocated_bytes", figures->allocated_bytes);
	json_u64(json, "frees", figures->frees);
	json_u64(json, "freed_bytes", figures->freed_bytes);
	json_u64(json, "foreign_frees", figures->foreign_frees);
	json_u64(json, "temporary_allocations", figures->temporary);
	json_u64(json, "unfreed_allocations", figures->end_blocks);
	json_u64(json, "unfreed_bytes", figures->end_bytes);
	json_end(json);
}

int api_threads(struct call *call, struct tm_error *err)
{
	struct selection selection;
	struct query_answer answer;
	const struct view_input *input = &call->facts->input;
	int code = ask(call, &selection, QUERY_THREADS, &answer, err);
	if (code)
		return code;
	struct json *json = answer_json(call->answer);
	json_begin_object(json, NULL);
	api_put_found(json, &selection, &answer);
	json_begin_array(json, "threads");
	for (size_t i = 0; i < answer.thread_count; i++)
		if (answer.threads[i].thread_id < input->thread_count)
			put_thread(json, &input->threads[answer.threads[i].thread_id],
				   &answer.threads[i]);
	json_end(json);
	json_end(json);
	query_answer_done(&answer);
	selection_done(&selection);
	return 0;
}

/* ---- modules and stacks ---- */

int api_modules(struct call *call, struct tm_error *err)
{
	const struct view_input *input = &call->facts->input;
	struct json *json = answer_json(call->answer);
	(void)err;
	json_begin_object(json, NULL);
	json_begin_array(json, "modules");
	for (size_t i = 1; i < input->module_count; i++) {
		const struct trace_module *module = &input->modules[i];
		char id[2 * sizeof module->build_id + 1] = "";
		uint32_t bytes = module->build_id_bytes;
		for (uint32_t k = 0; k < bytes && k < sizeof module->build_id; k++)
			snprintf(id + 2 * k, 3, "%02x", module->build_id[k]);
		json_begin_object(json, NULL);
		json_string(json, "path", module->path);
		json_hex(json, "start", module->start);
		json_u64(json, "bytes", module->end - module->start);
		json_string(json, "build_id", id[0] ? id : NULL);
		json_u64(json, "mapped_ns", module->mapped_ns);
		if (module->unmapped_ns == UINT64_MAX)
			json_null(json, "unmapped_ns");
		else
			json_u64(json, "unmapped_ns", module->unmapped_ns);
		json_end(json);
	}
	json_end(json);
	json_end(json);
	return 0;
}

int api_stack(struct call *call, struct tm_error *err)
{
	char *end;
	unsigned long id = strtoul(call->request->item, &end, 10);
	if (*end || id >= call->facts->input.stack_count)
		return tm_fail(err, -ENOENT, "there is no stack '%.20s'", call->request->item);
	struct json *json = answer_json(call->answer);
	json_begin_object(json, NULL);
	json_u64(json, "stack", id);
	view_json_frames(json, "frames", call->facts->data,
			 view_node_of(call->facts->data, (uint32_t)id));
	json_end(json);
	return 0;
}
