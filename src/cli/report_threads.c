/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: what each allocated and freed, and what of others it freed. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sort.h"
#include "cli/grid.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"

enum { ROWS_TEXT = 25 };

struct thread_row {
	const struct trace_thread *thread; /* NULL: the trace has no record of it */
	const struct query_thread *did;
};

static uint64_t sort_figure(const struct thread_row *row, enum report_sort sort)
{
	const struct query_thread *did = row->did;
	switch (sort) {
	case REPORT_SORT_COUNT:
		return did->allocations;
	case REPORT_SORT_TEMPORARY:
		return did->temporary;
	case REPORT_SORT_AVERAGE:
		return did->allocations ? did->allocated_bytes / did->allocations : 0;
	case REPORT_SORT_NAME:
		return 0;
	case REPORT_SORT_DEFAULT:
	case REPORT_SORT_BYTES:
	case REPORT_SORT_SELF:
		break;
	}
	return did->allocated_bytes;
}

static int compare(const void *left, const void *right, void *ctx)
{
	const struct thread_row *a = left, *b = right;
	enum report_sort sort = *(const enum report_sort *)ctx;
	uint64_t x = sort_figure(a, sort), y = sort_figure(b, sort);
	if (x != y)
		return x > y ? -1 : 1;
	int names = sort == REPORT_SORT_NAME && a->thread && b->thread
			    ? strcmp(a->thread->name, b->thread->name)
			    : 0;
	return names ? names
		     : (a->did->thread_id > b->did->thread_id) -
			       (a->did->thread_id < b->did->thread_id);
}

static struct thread_row *make(const struct report *report)
{
	const struct query_answer *answer = &report->answer;
	struct thread_row *rows = tm_alloc_array(answer->thread_count, sizeof *rows);
	for (size_t i = 0; rows && i < answer->thread_count; i++) {
		uint32_t id = answer->threads[i].thread_id;
		rows[i].did = &answer->threads[i];
		rows[i].thread =
			id < report->input.thread_count ? &report->input.threads[id] : NULL;
	}
	enum report_sort sort = report->options->sort;
	if (rows)
		sort_array(rows, answer->thread_count, sizeof *rows, compare, &sort);
	return rows;
}

static uint64_t average(uint64_t bytes, uint64_t blocks)
{
	return blocks ? (bytes + blocks / 2) / blocks : 0;
}

int report_threads_text(const struct report *report, const struct report_section *section,
			struct out *out, struct tm_error *err)
{
	(void)section;
	struct thread_row *rows = make(report);
	if (!rows)
		return tm_fail(err, -ENOMEM, "out of memory");
	size_t count = report->answer.thread_count, shown = report_limit(report, ROWS_TEXT);
	if (shown > count)
		shown = count;
	static const struct grid_column columns[] = {
		{"allocated", GRID_RIGHT, OUT_FIGURE, 0}, {"blocks", GRID_RIGHT, OUT_PLAIN, 0},
		{"average", GRID_RIGHT, OUT_PLAIN, 0},    {"temporary", GRID_RIGHT, OUT_PLAIN, 100},
		{"live", GRID_RIGHT, OUT_PLAIN, 0},       {"frees", GRID_RIGHT, OUT_PLAIN, 0},
		{"of others", GRID_RIGHT, OUT_PLAIN, 0},  {"tid", GRID_RIGHT, OUT_PLAIN, 0},
		{"thread", GRID_NAME, OUT_BOLD, 0},
	};
	struct grid grid = {.columns = columns, .column_count = sizeof columns / sizeof columns[0]};
	for (size_t i = 0; i < shown; i++) {
		const struct query_thread *did = rows[i].did;
		const struct trace_thread *thread = rows[i].thread;
		grid_cell(&grid, "%s%s", out_bytes(out, did->allocated_bytes).text,
			  put_error(report, did->allocated_bytes, did->allocations).text);
		grid_cell(&grid, "%s", units_grouped(did->allocations).text);
		grid_cell(&grid, "%s",
			  out_bytes(out, average(did->allocated_bytes, did->allocations)).text);
		grid_cell(&grid, "%s", units_grouped(did->temporary).text);
		grid_cell(&grid, "%s", out_bytes(out, did->end_bytes).text);
		grid_cell(&grid, "%s", units_grouped(did->frees).text);
		grid_cell(&grid, "%s", units_grouped(did->foreign_frees).text);
		grid_cell(&grid, "%" PRIu32, thread ? thread->tid : 0);
		grid_cell(&grid, "%s", thread && thread->name[0] ? thread->name : "[no name]");
	}
	put_heading(out, "Threads by what they allocated", shown, count);
	if (count)
		grid_print(&grid, out, 2);
	else
		text_put(&out->text, "  none\n");
	grid_done(&grid);
	tm_free(rows);
	return 0;
}

int report_threads_json(const struct report *report, const struct report_section *section,
			struct json *json, struct tm_error *err)
{
	struct thread_row *rows = make(report);
	if (!rows)
		return tm_fail(err, -ENOMEM, "out of memory");
	size_t shown = report_limit(report, SIZE_MAX);
	json_begin_array(json, section->key);
	for (size_t i = 0; i < report->answer.thread_count && i < shown; i++) {
		const struct query_thread *did = rows[i].did;
		const struct trace_thread *thread = rows[i].thread;
		bool lives = !thread || thread->end_ns == UINT64_MAX;
		json_begin_object(json, NULL);
		json_u64(json, "thread_id", did->thread_id);
		put_json_known(json, "tid", thread != NULL, thread ? thread->tid : 0);
		json_string(json, "name", thread && thread->name[0] ? thread->name : NULL);
		put_json_known(json, "start_ns", thread != NULL, thread ? thread->start_ns : 0);
		put_json_known(json, "end_ns", !lives, lives ? 0 : thread->end_ns);
		json_u64(json, "allocations", did->allocations);
		json_u64(json, "allocated_bytes", did->allocated_bytes);
		json_u64(json, "frees", did->frees);
		json_u64(json, "freed_bytes", did->freed_bytes);
		json_u64(json, "foreign_frees", did->foreign_frees);
		json_u64(json, "temporary_allocations", did->temporary);
		json_u64(json, "unfreed_allocations", did->end_blocks);
		json_u64(json, "unfreed_bytes", did->end_bytes);
		json_end(json);
	}
	json_end(json);
	tm_free(rows);
	return 0;
}

int report_threads_csv(const struct report *report, const struct report_section *section,
		       struct text *out, struct tm_error *err)
{
	(void)section;
	struct thread_row *rows = make(report);
	if (!rows)
		return tm_fail(err, -ENOMEM, "out of memory");
	size_t shown = report_limit(report, SIZE_MAX);
	text_put(out, "thread_id,tid,name,allocations,allocated_bytes,frees,freed_bytes,"
		      "foreign_frees,temporary_allocations,unfreed_allocations,unfreed_bytes\n");
	for (size_t i = 0; i < report->answer.thread_count && i < shown; i++) {
		const struct query_thread *did = rows[i].did;
		const struct trace_thread *thread = rows[i].thread;
		const uint64_t values[] = {
			did->allocations,   did->allocated_bytes, did->frees,      did->freed_bytes,
			did->foreign_frees, did->temporary,       did->end_blocks, did->end_bytes,
		};
		put_csv_u64(out, did->thread_id);
		put_csv_u64(out, thread ? thread->tid : 0);
		put_csv_text(out, thread ? thread->name : NULL);
		for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
			put_csv_u64(out, values[k]);
		put_csv_end(out);
	}
	tm_free(rows);
	return 0;
}
