/* SPDX-License-Identifier: Apache-2.0 */
/* Whose the memory is that the program mapped itself: V8's heap, Python's arenas, ... */
#include "cli/grid.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/mappings.h"

int report_mappings_text(const struct report *report, const struct report_section *section,
			 struct out *out, struct tm_error *err)
{
	(void)section;
	struct view_mapping rows[VIEW_OWNERS];
	size_t count;
	int code = view_mappings(report->data, report->reader, rows, &count, err);
	if (code)
		return code;
	put_heading(out, "Mapped memory by owner, apart from the heap", count, count);
	static const struct grid_column columns[] = {
		{"at its peak", GRID_RIGHT, OUT_FIGURE, 0}, {"own peak", GRID_RIGHT, OUT_PLAIN, 0},
		{"at the end", GRID_RIGHT, OUT_PLAIN, 0},   {"calls", GRID_RIGHT, OUT_PLAIN, 0},
		{"owner", GRID_LEFT, OUT_PLAIN, 0},
	};
	struct grid grid = {.columns = columns, .column_count = 5};
	for (size_t i = 0; i < count; i++) {
		grid_cell(&grid, "%s", out_bytes(out, rows[i].at_peak_bytes).text);
		grid_cell(&grid, "%s", out_bytes(out, rows[i].peak_bytes).text);
		grid_cell(&grid, "%s", out_bytes(out, rows[i].bytes).text);
		grid_cell(&grid, "%s", units_grouped(rows[i].calls).text);
		grid_cell(&grid, "%s", rows[i].owner);
	}
	if (count)
		grid_print(&grid, out, 2);
	else
		text_put(&out->text, "  none\n");
	grid_done(&grid);
	return 0;
}

int report_mappings_json(const struct report *report, const struct report_section *section,
			 struct json *json, struct tm_error *err)
{
	struct view_mapping rows[VIEW_OWNERS];
	size_t count;
	int code = view_mappings(report->data, report->reader, rows, &count, err);
	if (code)
		return code;
	json_begin_array(json, section->key);
	for (size_t i = 0; i < count; i++) {
		json_begin_object(json, NULL);
		json_string(json, "owner", rows[i].owner);
		json_u64(json, "at_peak_bytes", rows[i].at_peak_bytes);
		json_u64(json, "peak_bytes", rows[i].peak_bytes);
		json_u64(json, "bytes", rows[i].bytes);
		json_u64(json, "calls", rows[i].calls);
		json_end(json);
	}
	json_end(json);
	return 0;
}

int report_mappings_csv(const struct report *report, const struct report_section *section,
			struct text *out, struct tm_error *err)
{
	(void)section;
	struct view_mapping rows[VIEW_OWNERS];
	size_t count;
	int code = view_mappings(report->data, report->reader, rows, &count, err);
	if (code)
		return code;
	text_put(out, "owner,at_peak_bytes,peak_bytes,bytes,calls\n");
	for (size_t i = 0; i < count; i++) {
		put_csv_text(out, rows[i].owner);
		put_csv_u64(out, rows[i].at_peak_bytes);
		put_csv_u64(out, rows[i].peak_bytes);
		put_csv_u64(out, rows[i].bytes);
		put_csv_u64(out, rows[i].calls);
		put_csv_end(out);
	}
	return 0;
}
