/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and lifetimes: a histogram, with the top functions of each bucket. */
#include <stdio.h>
#include <string.h>

#include "cli/grid.h"
#include "cli/plot.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/buckets.h"

enum { BAR_COLUMNS = 16, NAME_COLUMNS = 32, US = 1000 };

static bool is_sizes(const struct report_section *section)
{
	return !strcmp(section->name, "sizes");
}

static int make(const struct report *report, const struct report_section *section,
		struct view_buckets *buckets, struct tm_error *err)
{
	const struct query_answer *answer = &report->answer;
	return is_sizes(section) ? view_buckets_new(report->data, answer->sizes, answer->size_count,
						    buckets, err)
				 : view_buckets_new(report->data, answer->lives, answer->life_count,
						    buckets, err);
}

/* Powers of two read best as such: 16 B, 4 KiB. */
static struct units_text power_text(uint64_t bytes)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct units_text text;
	unsigned unit = 0;
	while (bytes >= 1024 && bytes % 1024 == 0 && unit < 6) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text.text, sizeof text.text, "%llu %s", (unsigned long long)bytes, names[unit]);
	return text;
}

/* "16 to 31 B", "1 KiB to 2 KiB", "524 ms to 1.05 s". */
static void put_span(struct grid *grid, const struct out *out, const struct view_bucket *bucket,
		     bool sizes)
{
	bool last = bucket->to == UINT64_MAX;
	if (sizes && bucket->from == bucket->to)
		grid_cell(grid, "%llu B", (unsigned long long)bucket->from);
	else if (sizes && last)
		grid_cell(grid, "%s and more", power_text(bucket->from).text);
	else if (sizes && (out->exact || bucket->to < 1024))
		grid_cell(grid, "%s to %s B", units_grouped(bucket->from).text,
			  units_grouped(bucket->to).text);
	else if (sizes)
		grid_cell(grid, "%s to %s", power_text(bucket->from).text,
			  power_text(bucket->to + 1).text);
	else if (!bucket->to)
		grid_cell(grid, "below 1 us");
	else if (last)
		grid_cell(grid, "%s and more", out_duration(out, bucket->from * US).text);
	else
		grid_cell(grid, "%s to %s", out_duration(out, bucket->from * US).text,
			  out_duration(out, (bucket->to + 1) * US).text);
}

static void put_tops(struct grid *grid, const struct view_bucket *bucket)
{
	struct text names = {0};
	for (size_t i = 0; i < bucket->top_count; i++) {
		const struct view_bucket_top *top = &bucket->tops[i];
		/* Beside the first only those that count. */
		if (i && top->count < bucket->count / 100)
			break;
		struct out name = {0};
		out_function(&name, top->function ? top->function : view_module_name(top->module),
			     NAME_COLUMNS);
		text_print(&names, "%s%.0f %% %s", i ? ", " : "",
			   100.0 * (double)top->count / (double)bucket->count,
			   text_string(&name.text));
		text_done(&name.text);
	}
	grid_cell(grid, "%s", text_string(&names));
	text_done(&names);
}

int report_sizes_text(const struct report *report, const struct report_section *section,
		      struct out *out, struct tm_error *err)
{
	bool sizes = is_sizes(section);
	struct view_buckets buckets;
	int code = make(report, section, &buckets, err);
	if (code)
		return code;
	static const struct grid_column size_columns[] = {
		{"size", GRID_RIGHT, OUT_PLAIN, 0},     {"allocations", GRID_RIGHT, OUT_FIGURE, 0},
		{"share", GRID_RIGHT, OUT_PLAIN, 0},    {NULL, GRID_LEFT, OUT_BAR, 100},
		{"top sites", GRID_TEXT, OUT_PLAIN, 0},
	};
	static const struct grid_column life_columns[] = {
		{"lifetime", GRID_RIGHT, OUT_PLAIN, 0}, {"frees", GRID_RIGHT, OUT_FIGURE, 0},
		{"share", GRID_RIGHT, OUT_PLAIN, 0},    {NULL, GRID_LEFT, OUT_BAR, 100},
		{"top sites", GRID_TEXT, OUT_PLAIN, 0},
	};
	struct grid grid = {.columns = sizes ? size_columns : life_columns, .column_count = 5};
	uint64_t largest = 0;
	for (size_t i = 0; i < buckets.count; i++)
		if (buckets.list[i].count > largest)
			largest = buckets.list[i].count;
	for (size_t i = 0; i < buckets.count; i++) {
		const struct view_bucket *bucket = &buckets.list[i];
		put_span(&grid, out, bucket, sizes);
		grid_cell(&grid, "%s", units_grouped(bucket->count).text);
		grid_cell(&grid, "%s", put_share(bucket->count, buckets.total).text);
		grid_cell(&grid, "%s", plot_bar(bucket->count, largest, BAR_COLUMNS).text);
		put_tops(&grid, bucket);
	}
	put_heading(out, sizes ? "Allocations by size" : "Freed blocks by lifetime", 0, 0);
	if (!buckets.count)
		text_put(&out->text, "  none\n");
	else
		grid_print(&grid, out, 2);
	if (!sizes && report->sum.of[VIEW_UNFREED_BLOCKS])
		text_print(&out->text, "  Beside them %s block%s lived on: %s in all.\n",
			   units_grouped(report->sum.of[VIEW_UNFREED_BLOCKS]).text,
			   put_plural(report->sum.of[VIEW_UNFREED_BLOCKS]),
			   out_bytes(out, report->sum.of[VIEW_UNFREED_BYTES]).text);
	grid_done(&grid);
	view_buckets_done(&buckets);
	return 0;
}

int report_sizes_json(const struct report *report, const struct report_section *section,
		      struct json *json, struct tm_error *err)
{
	bool sizes = is_sizes(section);
	uint64_t unit = sizes ? 1 : US;
	struct view_buckets buckets;
	int code = make(report, section, &buckets, err);
	if (code)
		return code;
	json_begin_array(json, section->key);
	for (size_t i = 0; i < buckets.count; i++) {
		const struct view_bucket *bucket = &buckets.list[i];
		bool last = bucket->to == UINT64_MAX;
		json_begin_object(json, NULL);
		json_u64(json, sizes ? "from_bytes" : "from_ns", bucket->from * unit);
		/* Lifetimes are whole microseconds. */
		put_json_known(json, sizes ? "to_bytes" : "below_ns", !last,
			       sizes ? bucket->to : (bucket->to + 1) * unit);
		json_u64(json, "count", bucket->count);
		json_begin_array(json, "top");
		for (size_t k = 0; k < bucket->top_count; k++) {
			json_begin_object(json, NULL);
			json_string(json, "function", bucket->tops[k].function);
			json_string(json, "module", bucket->tops[k].module);
			json_u64(json, "count", bucket->tops[k].count);
			json_end(json);
		}
		json_end(json);
		json_end(json);
	}
	json_end(json);
	view_buckets_done(&buckets);
	return 0;
}

int report_sizes_csv(const struct report *report, const struct report_section *section,
		     struct text *out, struct tm_error *err)
{
	bool sizes = is_sizes(section);
	uint64_t unit = sizes ? 1 : US;
	struct view_buckets buckets;
	int code = make(report, section, &buckets, err);
	if (code)
		return code;
	text_put(out, sizes ? "from_bytes,to_bytes,count,top_function,top_count\n"
			    : "from_ns,below_ns,count,top_function,top_count\n");
	for (size_t i = 0; i < buckets.count; i++) {
		const struct view_bucket *bucket = &buckets.list[i];
		put_csv_u64(out, bucket->from * unit);
		if (bucket->to == UINT64_MAX)
			put_csv_text(out, NULL);
		else
			put_csv_u64(out, sizes ? bucket->to : (bucket->to + 1) * unit);
		put_csv_u64(out, bucket->count);
		put_csv_text(out, bucket->top_count ? bucket->tops[0].function : NULL);
		put_csv_u64(out, bucket->top_count ? bucket->tops[0].count : 0);
		put_csv_end(out);
	}
	view_buckets_done(&buckets);
	return 0;
}
