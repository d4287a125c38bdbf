/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's heap snapshot (.heapsnapshot): every object with its own size, and which
 * refers to which. A "stack" here is the way from the root to an object over those
 * that hold it (its dominators), each by the name of its constructor:
 *
 *	(GC roots) ─ Window ─ Cart ─ Array ─ Item
 *
 * so that a tree from the root down has retained sizes, and a flat list has
 * shallow (self) and retained (inclusive) sizes by constructor. Neighbours of one
 * name are one frame: a list of a million is no million frames.
 */
#include "import/heapsnapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "import/formats.h"
#include "import/frames.h"
#include "import/json_read.h"
#include "import/profile.h"

enum {
	FIELDS_MAX = 32,
	TYPES_MAX = 64,
	TYPE_BYTES = 40,
	NAME_BYTES = 256,
	DEPTH_MAX = 1000, /* of different names above each other; what is deeper is put there */
	FEWEST = 1 << 20, /* rows that any file may have; see is_bomb() */
	ROWS_PER_BYTE = 8,
};

struct fields {
	char names[FIELDS_MAX][TYPE_BYTES];
	size_t count;
};

struct reader {
	struct import_job *job;
	struct json_reader json;
	struct snapshot s;
	struct fields node_fields, edge_fields;
	char types[TYPES_MAX][TYPE_BYTES]; /* of nodes */
	size_t type_count;
	int weak, shortcut;    /* numbers of these types of edges; -1 */
	uint32_t *name_frames; /* by number of a string: frame + 1 */
	size_t name_count;
	uint32_t type_frames[TYPES_MAX]; /* frame + 1 */
	struct frames *frames;
	struct profile *profile;
	uint64_t odd, loose;
	bool has_strings;
};

static bool recognise_heapsnapshot(const char *head, size_t bytes, bool whole)
{
	static const char *const parts[] = {"\"snapshot\"", "\"meta\"", "\"node_fields\"", NULL};
	(void)whole;
	return json_read_looks(head, bytes, parts);
}

/* ---- what the numbers mean ---- */

/* An array of texts; arrays within it are skipped. How many it had. */
static size_t read_names(struct json_reader *json, char names[][TYPE_BYTES], size_t most)
{
	size_t count = 0;
	if (json_read_next(json) != JSON_READ_ARRAY)
		return 0;
	unsigned depth = json->depth;
	enum json_token token;
	while (json->depth >= depth && (token = json_read_next(json)) > JSON_READ_END) {
		if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
			json_read_leave(json, json->depth);
		if (token != JSON_READ_TEXT || count == most)
			continue;
		size_t bytes =
			json->text.length < TYPE_BYTES - 1 ? json->text.length : TYPE_BYTES - 1;
		memcpy(names[count], text_string(&json->text), bytes);
		names[count++][bytes] = '\0';
	}
	return count;
}

/* [[names of types], "string", ...]: the first is that of the field "type". */
static size_t read_types(struct json_reader *json, char names[][TYPE_BYTES], size_t most)
{
	if (json_read_next(json) != JSON_READ_ARRAY)
		return 0;
	unsigned depth = json->depth;
	size_t count = read_names(json, names, most);
	json_read_leave(json, depth);
	return count;
}

static void read_meta(struct reader *r)
{
	struct json_reader *json = &r->json;
	char edge_types[TYPES_MAX][TYPE_BYTES];
	if (json_read_next(json) != JSON_READ_OBJECT)
		return;
	unsigned depth = json->depth;
	while (json_read_key(json, depth)) {
		if (json_read_is(json, "node_fields")) {
			r->node_fields.count = read_names(json, r->node_fields.names, FIELDS_MAX);
		} else if (json_read_is(json, "edge_fields")) {
			r->edge_fields.count = read_names(json, r->edge_fields.names, FIELDS_MAX);
		} else if (json_read_is(json, "node_types")) {
			r->type_count = read_types(json, r->types, TYPES_MAX);
		} else if (json_read_is(json, "edge_types")) {
			size_t count = read_types(json, edge_types, TYPES_MAX);
			for (size_t i = 0; i < count; i++) {
				if (!strcmp(edge_types[i], "weak"))
					r->weak = (int)i;
				else if (!strcmp(edge_types[i], "shortcut"))
					r->shortcut = (int)i;
			}
		} else {
			json_read_skip(json);
		}
	}
}

static void read_head(struct reader *r)
{
	struct json_reader *json = &r->json;
	if (json_read_next(json) != JSON_READ_OBJECT)
		return;
	unsigned depth = json->depth;
	while (json_read_key(json, depth)) {
		if (json_read_is(json, "meta"))
			read_meta(r);
		else
			json_read_skip(json);
	}
}

static int field_of(const struct fields *fields, const char *name)
{
	for (size_t i = 0; i < fields->count; i++)
		if (!strcmp(fields->names[i], name))
			return (int)i;
	return -1;
}

/* ---- objects and references ---- */

/* A packed file can claim anything; a snapshot packs no better than so. */
static bool is_bomb(const struct reader *r, size_t rows)
{
	return rows > FEWEST && rows / ROWS_PER_BYTE > input_packed_bytes(import_input(r->job));
}

static int fail_bomb(struct tm_error *err)
{
	return tm_fail(err, -EFBIG, "the packed file claims more objects than it can have");
}

static void *with_room(void *list, size_t count, size_t *room, size_t bytes)
{
	if (count + 1 < *room)
		return list;
	void *grown = tm_grow_array(list, *room * 2 + 1024, bytes);
	if (grown)
		*room = *room * 2 + 1024;
	return grown;
}

/* The next row of numbers; false at the end of the array. */
static bool next_row(struct json_reader *json, const struct fields *fields,
		     uint64_t row[FIELDS_MAX])
{
	for (size_t i = 0; i < fields->count; i++) {
		enum json_token token = json_read_next(json);
		if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
			json_read_leave(json, json->depth);
		if (token == JSON_READ_ARRAY_END || token == JSON_READ_END)
			return false;
		row[i] = token == JSON_READ_NUMBER ? json->number : 0;
	}
	return fields->count > 0;
}

static int read_nodes(struct reader *r, struct tm_error *err)
{
	int type = field_of(&r->node_fields, "type"), name = field_of(&r->node_fields, "name");
	int size = field_of(&r->node_fields, "self_size");
	int edges = field_of(&r->node_fields, "edge_count");
	uint64_t row[FIELDS_MAX], edge_count = 0;
	struct snapshot *s = &r->s;
	if (type < 0 || name < 0 || size < 0 || edges < 0)
		return tm_fail(err, -EBADMSG,
			       "it does not say what the numbers of its objects are");
	if (json_read_next(&r->json) != JSON_READ_ARRAY)
		return tm_fail(err, -EBADMSG, "its objects are no list");
	int code = 0;
	while (!code && next_row(&r->json, &r->node_fields, row)) {
		void *grown = with_room(s->nodes, s->node_count, &s->node_room, sizeof *s->nodes);
		if (!grown)
			return tm_fail(err, -ENOMEM, "no memory for the objects of the snapshot");
		s->nodes = grown;
		s->nodes[s->node_count++] = (struct snapshot_node){
			.self_bytes = row[size],
			.name = row[name] < UINT32_MAX ? (uint32_t)row[name] : 0,
			.first_edge = (uint32_t)edge_count,
			.type = row[type] < TYPES_MAX ? (uint8_t)row[type] : TYPES_MAX - 1,
		};
		if (row[edges] > UINT32_MAX - 2 - edge_count)
			return tm_fail(err, -EBADMSG,
				       "it claims more references than there can be");
		edge_count += row[edges];
		if (is_bomb(r, s->node_count) || s->node_count >= UINT32_MAX - 2)
			return fail_bomb(err);
		if (s->node_count % 4096 == 0)
			code = import_tick(r->job, err);
	}
	if (s->nodes)
		s->nodes[s->node_count] =
			(struct snapshot_node){.first_edge = (uint32_t)edge_count};
	return code;
}

static int read_edges(struct reader *r, struct tm_error *err)
{
	int type = field_of(&r->edge_fields, "type"), to = field_of(&r->edge_fields, "to_node");
	uint64_t row[FIELDS_MAX], per_node = r->node_fields.count;
	struct snapshot *s = &r->s;
	size_t from = 0;
	if (type < 0 || to < 0 || !per_node)
		return tm_fail(err, -EBADMSG, "it does not say what its references are");
	if (json_read_next(&r->json) != JSON_READ_ARRAY)
		return tm_fail(err, -EBADMSG, "its references are no list");
	int code = 0;
	while (!code && next_row(&r->json, &r->edge_fields, row)) {
		void *grown = with_room(s->edges, s->edge_count, &s->edge_room, sizeof *s->edges);
		if (!grown)
			return tm_fail(err, -ENOMEM,
				       "no memory for the references of the snapshot");
		s->edges = grown;
		while (from < s->node_count && s->nodes[from + 1].first_edge <= s->edge_count)
			from++;
		uint64_t target = row[to] / per_node;
		bool bad = target >= s->node_count || row[to] % per_node;
		/* A weak reference holds nothing; a shortcut counts from the root alone. */
		bool holds = !bad && row[type] != (uint64_t)r->weak &&
			     (row[type] != (uint64_t)r->shortcut || from == 0);
		r->odd += bad;
		s->edges[s->edge_count++] = holds ? (uint32_t)target : SNAPSHOT_NONE;
		if (is_bomb(r, s->edge_count) || s->edge_count >= UINT32_MAX - 2)
			return fail_bomb(err);
		if (s->edge_count % 4096 == 0)
			code = import_tick(r->job, err);
	}
	return code;
}

/* Of a file that is cut, the references that are missing hold nothing. */
static int fill_edges(struct reader *r, struct tm_error *err)
{
	struct snapshot *s = &r->s;
	if (!s->node_count)
		return tm_fail(err, -ENODATA, "the snapshot has no objects");
	size_t promised = s->nodes[s->node_count].first_edge;
	if (promised > s->edge_count)
		import_cut(r->job);
	for (size_t i = 0; i <= s->node_count; i++)
		if (s->nodes[i].first_edge > s->edge_count)
			s->nodes[i].first_edge = (uint32_t)s->edge_count;
	return 0;
}

/* ---- names ---- */

/* As DevTools has it: objects by their constructor, all else by its type. */
static bool has_name(const struct reader *r, uint8_t type)
{
	const char *name = type < r->type_count ? r->types[type] : "";
	return !strcmp(name, "object") || !strcmp(name, "native") || !strcmp(name, "synthetic");
}

static int add_frame(struct reader *r, const char *text, uint32_t *ret_frame, struct tm_error *err)
{
	const struct frames_name name = {.function = frames_text(text, strlen(text))};
	uint32_t frame_id;
	int code = frames_add(r->frames, 0, 0, &name, 1, &frame_id, err);
	*ret_frame = frame_id + 1;
	return code;
}

static int mark_names(struct reader *r, struct tm_error *err)
{
	uint32_t highest = 0;
	for (size_t i = 0; i < r->s.node_count; i++)
		if (has_name(r, r->s.nodes[i].type) && r->s.nodes[i].name > highest)
			highest = r->s.nodes[i].name;
	/* Not more than the file can have strings, whatever its objects say. */
	if (is_bomb(r, highest))
		highest = 0;
	r->name_count = (size_t)highest + 1;
	r->name_frames = tm_alloc_array(r->name_count, sizeof *r->name_frames);
	if (!r->name_frames)
		return tm_fail(err, -ENOMEM, "no memory for the names of the snapshot");
	for (size_t i = 0; i < r->s.node_count; i++) {
		const struct snapshot_node *node = &r->s.nodes[i];
		if (has_name(r, node->type) && node->name < r->name_count)
			r->name_frames[node->name] = SNAPSHOT_NONE; /* wanted */
	}
	return 0;
}

static int read_strings(struct reader *r, struct tm_error *err)
{
	struct json_reader *json = &r->json;
	size_t number = 0;
	int code = mark_names(r, err);
	if (code || json_read_next(json) != JSON_READ_ARRAY)
		return code;
	unsigned depth = json->depth;
	enum json_token token;
	while (!code && json->depth >= depth && (token = json_read_next(json)) > JSON_READ_END) {
		if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
			json_read_leave(json, json->depth);
		if (token == JSON_READ_TEXT && number < r->name_count &&
		    r->name_frames[number] == SNAPSHOT_NONE) {
			char name[NAME_BYTES];
			size_t bytes = json->text.length < NAME_BYTES - 1 ? json->text.length
									  : NAME_BYTES - 1;
			memcpy(name, text_string(&json->text), bytes);
			name[bytes] = '\0';
			code = add_frame(r, bytes ? name : "(no name)", &r->name_frames[number],
					 err);
		}
		number++;
		if (!code && number % 1024 == 0)
			code = import_tick(r->job, err);
	}
	r->has_strings = true;
	return code;
}

static int frame_of(struct reader *r, const struct snapshot_node *node, uint32_t *ret_frame,
		    struct tm_error *err)
{
	uint32_t frame = 0;
	if (has_name(r, node->type) && r->name_frames && node->name < r->name_count)
		frame = r->name_frames[node->name];
	if (!frame || frame == SNAPSHOT_NONE)
		frame = r->type_frames[node->type];
	int code = 0;
	if (!frame) {
		char name[TYPE_BYTES + 4];
		const char *type = node->type < r->type_count ? r->types[node->type] : "unknown";
		if (!strcmp(type, "hidden"))
			type = "system";
		else if (!strcmp(type, "code"))
			type = "compiled code";
		snprintf(name, sizeof name, "(%s)", type);
		code = add_frame(r, name, &r->type_frames[node->type], err);
		frame = r->type_frames[node->type];
	}
	*ret_frame = frame - 1;
	return code;
}

/* ---- rows ---- */

struct place {
	uint32_t stack_id, frame;
	uint32_t depth;
};

static int add_node(struct reader *r, const struct snapshot_node *node, const struct place *above,
		    struct place *ret, struct tm_error *err)
{
	uint32_t frame;
	int code = frame_of(r, node, &frame, err);
	*ret = *above;
	if (!code && (!above->stack_id || frame != above->frame) && above->depth < DEPTH_MAX) {
		ret->frame = frame;
		ret->depth++;
		code = frames_stack(r->frames, above->stack_id, frame, &ret->stack_id, err);
	}
	const struct profile_row row = {.stack_id = ret->stack_id,
					.allocations = PROFILE_UNKNOWN,
					.live_blocks = 1,
					.live_bytes = node->self_bytes};
	return code ? code : profile_row(r->profile, &row, err);
}

/* What only weak references lead to, or nothing at all. */
static int add_loose(struct reader *r, struct tm_error *err)
{
	struct place above = {0}, ignored;
	int code = 0;
	for (size_t i = 1; i < r->s.node_count && !code; i++) {
		if (r->s.nodes[i].holder != SNAPSHOT_NONE)
			continue;
		if (!above.stack_id) {
			code = add_frame(r, "(not held by the root)", &above.frame, err);
			above.frame--;
			if (!code)
				code = frames_stack(r->frames, 0, above.frame, &above.stack_id,
						    err);
		}
		r->loose++;
		if (!code)
			code = add_node(r, &r->s.nodes[i], &above, &ignored, err);
	}
	return code;
}

/* order[0] is the root, which stands for nothing. */
static int add_held(struct reader *r, const uint32_t *order, size_t count, struct tm_error *err)
{
	struct place *places = tm_alloc_array(r->s.node_count + 1, sizeof *places);
	if (!places)
		return tm_fail(err, -ENOMEM, "no memory to find out what holds what");
	int code = 0;
	for (size_t i = 1; i < count && !code; i++) {
		const struct snapshot_node *node = &r->s.nodes[order[i]];
		code = add_node(r, node, &places[node->holder], &places[order[i]], err);
	}
	tm_free(places);
	return code;
}

static int add_rows(struct reader *r, struct tm_error *err)
{
	uint32_t *order = NULL;
	size_t count = 0;
	int code = fill_edges(r, err);
	if (!code && snapshot_dominate(&r->s, &order, &count))
		code = tm_fail(err, -ENOMEM, "no memory to find out what holds what");
	if (!code)
		code = add_held(r, order, count, err);
	if (!code)
		code = add_loose(r, err);
	tm_free(order);
	return code;
}

/* ---- all ---- */

static int read_document(struct reader *r, struct tm_error *err)
{
	struct json_reader *json = &r->json;
	int code = 0;
	(void)json_read_next(json); /* the object that all is in */
	while (!code && json_read_key(json, 1)) {
		if (json_read_is(json, "snapshot"))
			read_head(r);
		else if (json_read_is(json, "nodes") && !r->s.node_count)
			code = read_nodes(r, err);
		else if (json_read_is(json, "edges") && r->s.node_count && !r->s.edge_count)
			code = read_edges(r, err);
		else if (json_read_is(json, "strings") && r->s.node_count && !r->has_strings)
			code = read_strings(r, err);
		else
			json_read_skip(json);
	}
	if (json->cut)
		import_cut(r->job);
	return code;
}

static int read_all(struct reader *r, struct tm_error *err)
{
	int code = json_read_init(&r->json, import_input(r->job))
			   ? tm_fail(err, -ENOMEM, "no memory to read the snapshot")
			   : 0;
	if (!code)
		code = frames_new(r->job, &r->frames, err);
	if (!code)
		code = profile_new(r->job, &r->profile, err);
	if (!code)
		code = profile_snapshot(r->profile, 0, err);
	if (!code)
		code = read_document(r, err);
	if (!code)
		code = add_rows(r, err);
	if (!code)
		code = profile_close(r->profile, err);
	return code ? code : frames_finish(r->frames, err);
}

static void say_facts(struct reader *r)
{
	import_fact(r->job, "Stacks are ways from the root over the objects that hold an object: "
			    "inclusive figures are retained sizes, self figures are shallow.");
	if (r->loose)
		import_fact(r->job,
			    "%llu objects are not held by the root: they wait for the "
			    "garbage collector, or weak references lead to them.",
			    (unsigned long long)r->loose);
	if (r->odd)
		import_fact(r->job, "%llu references lead nowhere and were left out.",
			    (unsigned long long)r->odd);
}

static int read_heapsnapshot(struct import_job *job, struct tm_error *err)
{
	static const struct trace_meta meta = {
		.origin = "V8 heap snapshot",
		.unknown = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_THREADS | TRACE_UNKNOWN_TIMES |
			   TRACE_UNKNOWN_EVENTS | TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_SIZES |
			   TRACE_UNKNOWN_PEAK | TRACE_UNKNOWN_TEMPORARY,
	};
	struct reader r = {.job = job, .weak = -1, .shortcut = -1};
	int code = import_begin(job, &meta, err);
	if (!code)
		code = read_all(&r, err);
	if (!code) {
		say_facts(&r);
		code = profile_end(r.profile, r.frames, 0, err);
	}
	json_read_done(&r.json);
	profile_free(r.profile);
	frames_free(r.frames);
	tm_free(r.s.nodes);
	tm_free(r.s.edges);
	tm_free(r.name_frames);
	return code;
}

const struct import_format import_heapsnapshot = {
	.name = "heapsnapshot",
	.title = "V8 heap snapshot (.heapsnapshot): by constructor and retained size",
	.recognise = recognise_heapsnapshot,
	.read = read_heapsnapshot,
};
