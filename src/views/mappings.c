/* SPDX-License-Identifier: Apache-2.0 */
#include "views/mappings.h"

#include <errno.h>
#include <string.h>

#include "model/maps.h"
#include "views/data.h"

static const char *const owners[VIEW_OWNERS] = {
	"other mappings", "V8 heap", "Python arenas", "Nim heap", "Java heap",
};
enum { OWNER_OTHER = 0 };

/* The first that fits a frame, from the call of mmap outwards; an ending * is anything. */
static const struct {
	uint8_t owner;
	const char *function, *module; /* NULL: any */
} rules[] = {
	{1, "v8::*", NULL},
	{1, NULL, "libv8*"},
	{2, "_PyObject_Arena*", NULL},
	{2, "new_arena", NULL},
	{2, "_PyMem_Arena*", NULL},
	{3, "osAllocPages*", NULL},
	{3, "osTryAllocPages*", NULL},
	{3, "system.osAllocPages*", NULL},
	{3, "system.osTryAllocPages*", NULL},
	{4, NULL, "libjvm.so*"},
};

static bool fits(const char *pattern, const char *name)
{
	if (!pattern)
		return true;
	size_t bytes = strlen(pattern);
	if (!name)
		return false;
	if (bytes && pattern[bytes - 1] == '*')
		return !strncmp(pattern, name, bytes - 1);
	return !strcmp(pattern, name);
}

/* Without names a Python's own mappings are its arenas: it maps nothing else by itself. */
static bool is_python(const struct view_frame *frame)
{
	const char *module = view_module_name(frame->module);
	return !frame->function && (fits("python3*", module) || fits("libpython3*", module));
}

static uint8_t owner_of(const struct view_data *data, uint32_t stack_id)
{
	uint32_t cursor = view_stack_of(data, stack_id);
	const struct view_frame *frame = view_next_frame(data, &cursor);
	if (frame && is_python(frame))
		return 2;
	for (; frame; frame = view_next_frame(data, &cursor))
		for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
			if (fits(rules[i].function, frame->function) &&
			    fits(rules[i].module, view_module_name(frame->module)))
				return rules[i].owner;
	return OWNER_OTHER;
}

static void note(struct view_mapping *rows, const uint64_t bytes[VIEW_OWNERS], bool is_peak)
{
	for (size_t i = 0; i < VIEW_OWNERS; i++) {
		rows[i].bytes = bytes[i];
		if (rows[i].bytes > rows[i].peak_bytes)
			rows[i].peak_bytes = rows[i].bytes;
		if (is_peak)
			rows[i].at_peak_bytes = rows[i].bytes;
	}
}

static int replay(const struct view_data *data, const struct trace_map_event *events, size_t count,
		  struct view_mapping *rows)
{
	struct map_set set;
	uint64_t bytes[VIEW_OWNERS] = {0};
	int code = 0;
	maps_init(&set, data->input.meta ? data->input.meta->page_bytes : 0);
	set.call_bytes = bytes;
	for (size_t i = 0; !code && i < count; i++) {
		uint64_t peak_bytes = set.mapped_peak_bytes;
		/* What changes its rights stays its owner's. */
		set.call = events[i].op == TRACE_MAP || events[i].op == TRACE_MAP_FOLDED
				   ? owner_of(data, events[i].stack_id)
				   : maps_call_at(&set, events[i].address, OWNER_OTHER);
		rows[set.call].calls += trace_map_calls(&events[i]);
		code = maps_apply(&set, &events[i]);
		note(rows, bytes, set.mapped_peak_bytes > peak_bytes);
	}
	maps_done(&set);
	return code;
}

int view_mappings(const struct view_data *data, struct trace_reader *reader,
		  struct view_mapping ret[VIEW_OWNERS], size_t *ret_count, struct tm_error *err)
{
	struct view_mapping rows[VIEW_OWNERS] = {0};
	const struct trace_map_event *events;
	size_t event_count, count = 0;
	int code = trace_reader_maps(reader, &events, &event_count, err);
	if (code)
		return code;
	if (replay(data, events, event_count, rows))
		return tm_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < VIEW_OWNERS; i++) {
		rows[i].owner = owners[i];
		if (!rows[i].calls)
			continue;
		size_t at = count++;
		for (; at > 0 && ret[at - 1].at_peak_bytes < rows[i].at_peak_bytes; at--)
			ret[at] = ret[at - 1];
		ret[at] = rows[i];
	}
	*ret_count = count;
	return 0;
}
