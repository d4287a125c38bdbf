/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, packed by gzip, with the four sample types of a heap
 * profile. The parts of the message are repeated fields, so they are written as
 * they come up: a string, function or place stands before the first that uses it.
 * Strings are numbered from 0, which is "", all else from 1.
 */
#include <errno.h>
#include <stdio.h>

#include "base/memory.h"
#include "export/formats.h"
#include "export/modules.h"
#include "export/proto.h"
#include "export/rows.h"
#include "export/trie.h"

enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING,
	PROFILE_TIME = 9,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENT,
	PROFILE_DEFAULT_TYPE
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES };
enum {
	MAPPING_ID = 1,
	MAPPING_START,
	MAPPING_LIMIT,
	MAPPING_OFFSET,
	MAPPING_FILE,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILES,
	MAPPING_HAS_LINES,
	MAPPING_HAS_INLINED
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE, LINE_COLUMN };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

struct pprof {
	const struct export_input *input;
	struct outlet *outlet;
	struct strings strings;
	struct export_modules modules;
	struct trie trie;
	struct export_rows rows;
	bool *has_function; /* by function_id */
	size_t written_places;
	struct text message, inner; /* kept for their memory */
	int error;
};

static uint64_t put_string(struct pprof *p, const char *text)
{
	size_t before = p->strings.count;
	uint32_t number = 0;
	if (!p->error)
		p->error = strings_number(&p->strings, text, &number);
	if (!p->error && number == before) {
		text_clear(&p->inner);
		export_line_text(&p->inner, text, 0, 0);
		proto_message(&p->outlet->text, PROFILE_STRING, &p->inner);
	}
	return number;
}

static void put_type(struct pprof *p, uint32_t field, const char *type, const char *unit)
{
	uint64_t type_string = put_string(p, type), unit_string = put_string(p, unit);
	text_clear(&p->message);
	proto_u64(&p->message, TYPE_TYPE, type_string);
	proto_u64(&p->message, TYPE_UNIT, unit_string);
	proto_message(&p->outlet->text, field, &p->message);
}

static void put_head(struct pprof *p)
{
	const struct trace_meta *meta = p->input->facts->meta;
	struct text *out = &p->outlet->text;
	put_string(p, "");
	put_type(p, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
	put_type(p, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
	put_type(p, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
	put_type(p, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
	put_type(p, PROFILE_PERIOD_TYPE, "space", "bytes");
	uint64_t sampled = p->input->facts->sample_bytes;
	proto_u64(out, PROFILE_PERIOD, sampled ? sampled : 1);
	if (export_note(p->input))
		proto_u64(out, PROFILE_COMMENT, put_string(p, export_note(p->input)));
	proto_u64(out, PROFILE_DEFAULT_TYPE, put_string(p, "inuse_space"));
	proto_u64(out, PROFILE_TIME, meta->start_unix_ns);
	proto_u64(out, PROFILE_DURATION, p->input->to_ns - p->input->from_ns);
	proto_u64(out, PROFILE_COMMENT, put_string(p, export_command(p->input)));
}

/* Strings are borrowed until the end; a build-id as text is made for the call, so it is kept. */
static uint64_t put_build_id(struct pprof *p, const struct trace_module *module, char **kept)
{
	size_t bytes = module->build_id_bytes;
	if (!bytes || bytes > sizeof module->build_id)
		return 0;
	*kept = tm_alloc(2 * bytes + 1);
	if (!*kept) {
		p->error = -ENOMEM;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		snprintf(*kept + 2 * i, 3, "%02x", module->build_id[i]);
	return put_string(p, *kept);
}

static void put_mapping(struct pprof *p, const struct trace_module *module, uint32_t number,
			char **kept)
{
	uint64_t path = put_string(p, module->path ? module->path : "");
	uint64_t build_id = put_build_id(p, module, kept);
	text_clear(&p->message);
	proto_u64(&p->message, MAPPING_ID, number);
	proto_u64(&p->message, MAPPING_START, module->start);
	proto_u64(&p->message, MAPPING_LIMIT, module->end);
	proto_u64(&p->message, MAPPING_FILE, path);
	proto_u64(&p->message, MAPPING_BUILD_ID, build_id);
	for (uint32_t field = MAPPING_HAS_FUNCTIONS; field <= MAPPING_HAS_INLINED; field++)
		proto_u64(&p->message, field, 1);
	proto_message(&p->outlet->text, PROFILE_MAPPING, &p->message);
}

static void put_function(struct pprof *p, const struct view_frame *frame)
{
	if (p->has_function[frame->function_id])
		return;
	p->has_function[frame->function_id] = true;
	uint64_t name = put_string(p, frame->function);
	uint64_t file = put_string(p, frame->file ? frame->file : "");
	text_clear(&p->message);
	proto_u64(&p->message, FUNCTION_ID, frame->function_id + 1ull);
	proto_u64(&p->message, FUNCTION_NAME, name);
	proto_u64(&p->message, FUNCTION_SYSTEM_NAME, name);
	proto_u64(&p->message, FUNCTION_FILE, file);
	proto_message(&p->outlet->text, PROFILE_FUNCTION, &p->message);
}

static void put_line(struct pprof *p, const struct view_frame *frame)
{
	text_clear(&p->inner);
	proto_u64(&p->inner, LINE_FUNCTION, frame->function_id + 1ull);
	proto_u64(&p->inner, LINE_LINE, frame->line);
	proto_u64(&p->inner, LINE_COLUMN, frame->column);
	proto_message(&p->message, LOCATION_LINE, &p->inner);
}

static const struct view_frame *frame_of(const struct pprof *p, const struct trie_place *place,
					 uint32_t index)
{
	return view_frame_at(p->trie.data, p->trie.place_frames[place->first + index]);
}

/* A place without a name has no lines: pprof then shows its address. */
static void put_place(struct pprof *p, uint32_t number)
{
	const struct trie_place *place = &p->trie.places[number];
	const struct view_frame *first = frame_of(p, place, 0);
	const struct trace_module *module = modules_find(&p->modules, first);
	for (uint32_t i = 0; i < place->count; i++)
		if (frame_of(p, place, i)->function)
			put_function(p, frame_of(p, place, i));
	text_clear(&p->message);
	proto_u64(&p->message, LOCATION_ID, number);
	proto_u64(&p->message, LOCATION_MAPPING,
		  module ? (uint64_t)(module - p->input->facts->modules) : 0);
	proto_u64(&p->message, LOCATION_ADDRESS, modules_address(&p->modules, first));
	for (uint32_t i = 0; i < place->count; i++)
		if (frame_of(p, place, i)->function)
			put_line(p, frame_of(p, place, i));
	proto_message(&p->outlet->text, PROFILE_LOCATION, &p->message);
}

static int put_sample(struct pprof *p, const struct view_stack_row *row)
{
	uint32_t item;
	size_t depth = 0;
	const struct view_mode *mode = p->input->mode;
	bool in_use = mode->bytes != VIEW_ALLOCATED_BYTES && mode->bytes != VIEW_FREED_BYTES;
	int code = trie_item(&p->trie, row->stack, &item);
	if (!code)
		code = trie_path(&p->trie, item, &depth);
	if (code)
		return code;
	for (; p->written_places < p->trie.place_count; p->written_places++)
		put_place(p, (uint32_t)p->written_places);
	text_clear(&p->message);
	text_clear(&p->inner);
	for (size_t i = 0; i < depth; i++)
		proto_varint(&p->inner, p->trie.items[p->trie.path[i]].place);
	proto_message(&p->message, SAMPLE_LOCATIONS, &p->inner);
	text_clear(&p->inner);
	proto_varint(&p->inner, row->figures.of[VIEW_ALLOCATIONS]);
	proto_varint(&p->inner, row->figures.of[VIEW_ALLOCATED_BYTES]);
	proto_varint(&p->inner, row->figures.of[in_use ? mode->blocks : VIEW_UNFREED_BLOCKS]);
	proto_varint(&p->inner, row->figures.of[in_use ? mode->bytes : VIEW_UNFREED_BYTES]);
	proto_message(&p->message, SAMPLE_VALUES, &p->inner);
	proto_message(&p->outlet->text, PROFILE_SAMPLE, &p->message);
	return p->error ? p->error : outlet_flush(p->outlet);
}

static int prepare(struct pprof *p, struct tm_error *err)
{
	const struct view_data *data = p->input->data;
	size_t functions = 0;
	for (uint32_t i = 0; i < view_frame_count(data); i++)
		if (view_frame_at(data, i)->function_id >= functions)
			functions = view_frame_at(data, i)->function_id + 1u;
	p->has_function = tm_alloc_array(functions + 1, sizeof *p->has_function);
	int code = p->has_function ? 0 : -ENOMEM;
	if (!code)
		code = modules_init(&p->modules, p->input->facts);
	if (!code)
		code = trie_init(&p->trie, data, TRIE_PLACES);
	if (!code)
		code = export_rows_choose(&p->rows, p->input,
					  1u << VIEW_ALLOCATIONS | 1u << VIEW_UNFREED_BLOCKS |
						  1u << p->input->mode->blocks,
					  err);
	return code;
}

static int write_pprof(const struct export_input *input, struct outlet *outlet,
		       struct tm_error *err)
{
	struct pprof p = {.input = input, .outlet = outlet, .written_places = 1};
	size_t modules = input->facts->module_count;
	char **build_ids = tm_alloc_array(modules + 1, sizeof *build_ids);
	int code = build_ids ? prepare(&p, err) : -ENOMEM;
	if (!code)
		put_head(&p);
	for (uint32_t i = 1; !code && i < modules; i++) {
		put_mapping(&p, &input->facts->modules[i], i, &build_ids[i]);
		code = p.error ? p.error : outlet_flush(outlet);
	}
	for (size_t i = 0; !code && i < p.rows.count; i++)
		code = put_sample(&p, p.rows.list[i]);
	for (size_t i = 0; build_ids && i < modules; i++)
		tm_free(build_ids[i]);
	tm_free(build_ids);
	strings_done(&p.strings);
	modules_done(&p.modules);
	trie_done(&p.trie);
	export_rows_done(&p.rows);
	tm_free(p.has_function);
	text_done(&p.message);
	text_done(&p.inner);
	return code;
}

const struct export_format export_pprof = {
	.name = "pprof",
	.help = "pprof: inuse and alloc, space and objects; mappings with build-ids",
	.suffix = ".pb.gz",
	.type = "application/gzip",
	.binary = true,
	.gzip = true,
	.write = write_pprof,
};
