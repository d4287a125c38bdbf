/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's sampling heap profile (.heapprofile, of node --heap-prof, the inspector and
 * DevTools): a tree of calls, each with the bytes that live of what it allocated.
 * V8 has scaled the samples already. The tree is walked as it comes.
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "import/formats.h"
#include "import/frames.h"
#include "import/json_read.h"
#include "import/profile.h"

enum { NAME_MAX_BYTES = 4096, HEAD_BYTES = 4096 };

/* A call whose object is open. Children follow its callFrame in all files of V8. */
struct level {
	uint32_t parent_id, stack_id;
	unsigned depth; /* of its object in the file */
	uint64_t self_bytes;
	bool has_frame;
};

struct heapprofile {
	struct import_job *job;
	struct json_reader json;
	struct frames *frames;
	struct profile *profile;
	struct level *levels;
	size_t level_count, level_room;
	uint64_t odd;
};

static bool recognise_heapprofile(const char *head, size_t bytes, bool whole)
{
	static const char *const parts[] = {"\"head\"", "\"callFrame\"", NULL};
	(void)whole;
	return json_read_looks(head, bytes < HEAD_BYTES ? bytes : HEAD_BYTES, parts);
}

/* ---- a call ---- */

struct call {
	char function[NAME_MAX_BYTES], url[NAME_MAX_BYTES];
	uint32_t line, column;
};

/* V8 counts from 0 and writes -1 for what it does not know. */
static uint32_t place(uint64_t number)
{
	return number < UINT32_MAX - 1 ? (uint32_t)number + 1 : 0;
}

static void read_call(struct heapprofile *p, struct call *call)
{
	struct json_reader *json = &p->json;
	*call = (struct call){0};
	if (json_read_next(json) != JSON_READ_OBJECT)
		return;
	unsigned depth = json->depth;
	while (json_read_key(json, depth)) {
		if (json_read_is(json, "functionName"))
			json_read_text(json, call->function, sizeof call->function);
		else if (json_read_is(json, "url"))
			json_read_text(json, call->url, sizeof call->url);
		else if (json_read_is(json, "lineNumber"))
			call->line = place(json_read_number(json));
		else if (json_read_is(json, "columnNumber"))
			call->column = place(json_read_number(json));
		else
			json_read_skip(json);
	}
}

static int add_call(struct heapprofile *p, struct level *level, struct tm_error *err)
{
	struct call call;
	uint32_t frame_id;
	read_call(p, &call);
	/* The root of the tree stands for nothing. */
	if (!level->parent_id && p->level_count == 1 && !strcmp(call.function, "(root)"))
		return 0;
	const char *function = call.function[0] ? call.function : "(anonymous)";
	const struct frames_name name = {
		.function = frames_text(function, strlen(function)),
		.file = frames_text(call.url, strlen(call.url)),
		.line = call.url[0] ? call.line : 0,
		.column = call.url[0] ? call.column : 0,
	};
	int code = frames_add(p->frames, 0, 0, &name, 1, &frame_id, err);
	if (!code)
		code = frames_stack(p->frames, level->parent_id, frame_id, &level->stack_id, err);
	level->has_frame = !code;
	return code;
}

/* ---- the tree ---- */

static int open_level(struct heapprofile *p, struct tm_error *err)
{
	if (p->level_count == p->level_room) {
		size_t room = p->level_room * 2 + 64;
		void *grown = tm_grow_array(p->levels, room, sizeof *p->levels);
		if (!grown)
			return tm_fail(err, -ENOMEM, "no memory for the calls of the profile");
		p->levels = grown;
		p->level_room = room;
	}
	uint32_t parent = p->level_count ? p->levels[p->level_count - 1].stack_id : 0;
	p->levels[p->level_count++] =
		(struct level){.parent_id = parent, .stack_id = parent, .depth = p->json.depth};
	return 0;
}

static int close_level(struct heapprofile *p, struct tm_error *err)
{
	struct level level = p->levels[--p->level_count];
	if (!level.self_bytes)
		return 0;
	struct profile_row row = {.stack_id = level.stack_id,
				  .allocations = PROFILE_UNKNOWN,
				  .live_bytes = level.self_bytes};
	int code = row.stack_id ? 0 : frames_no_stack(p->frames, &row.stack_id, err);
	return code ? code : profile_row(p->profile, &row, err);
}

static int take_key(struct heapprofile *p, struct tm_error *err)
{
	struct json_reader *json = &p->json;
	struct level *level = &p->levels[p->level_count - 1];
	if (json_read_is(json, "callFrame"))
		return add_call(p, level, err);
	if (json_read_is(json, "selfSize"))
		level->self_bytes = json_read_number(json);
	else if (!json_read_is(json, "children"))
		json_read_skip(json);
	else
		p->odd += !level->has_frame && p->level_count > 1;
	return 0;
}

/* From the object of the head to its end; calls nest in arrays of children. */
static int read_tree(struct heapprofile *p, struct tm_error *err)
{
	struct json_reader *json = &p->json;
	int code = 0;
	do {
		enum json_token token = json_read_next(json);
		if (token == JSON_READ_END)
			break;
		if (token == JSON_READ_OBJECT)
			code = open_level(p, err);
		else if (token == JSON_READ_KEY && p->level_count)
			code = take_key(p, err);
		else if (token == JSON_READ_OBJECT_END && p->level_count &&
			 json->depth < p->levels[p->level_count - 1].depth)
			code = close_level(p, err);
		if (!code)
			code = import_tick(p->job, err);
	} while (!code && p->level_count);
	/* Of a file that is cut, what is open counts as far as it is known. */
	while (!code && p->level_count)
		code = close_level(p, err);
	return code;
}

static int read_document(struct heapprofile *p, struct tm_error *err)
{
	struct json_reader *json = &p->json;
	int code = 0;
	(void)json_read_next(json); /* the object that all is in */
	while (!code && json_read_key(json, 1)) {
		if (json_read_is(json, "head"))
			code = read_tree(p, err);
		else
			json_read_skip(json);
	}
	if (json->cut)
		import_cut(p->job);
	return code;
}

static int read_all(struct heapprofile *p, struct tm_error *err)
{
	int code = json_read_init(&p->json, import_input(p->job))
			   ? tm_fail(err, -ENOMEM, "no memory to read the profile")
			   : 0;
	if (!code)
		code = frames_new(p->job, &p->frames, err);
	if (!code)
		code = profile_new(p->job, &p->profile, err);
	if (!code)
		code = profile_snapshot(p->profile, 0, err);
	if (!code)
		code = read_document(p, err);
	if (!code)
		code = profile_close(p->profile, err);
	return code ? code : frames_finish(p->frames, err);
}

static int read_heapprofile(struct import_job *job, struct tm_error *err)
{
	static const struct trace_meta meta = {
		.origin = "V8 sampling heap profile",
		.unknown = PROFILE_BYTES_ALONE | TRACE_UNKNOWN_TIMES,
	};
	struct heapprofile p = {.job = job};
	int code = import_begin(job, &meta, err);
	if (!code)
		code = read_all(&p, err);
	if (!code) {
		import_fact(job, "V8 took samples: the bytes are its estimates of what lived.");
		if (p.odd)
			import_fact(job, "%llu calls have no name before their callees.",
				    (unsigned long long)p.odd);
		code = profile_end(p.profile, p.frames, 0, err);
	}
	json_read_done(&p.json);
	profile_free(p.profile);
	frames_free(p.frames);
	tm_free(p.levels);
	return code;
}

const struct import_format import_heapprofile = {
	.name = "heapprofile",
	.title = "V8 sampling heap profile (.heapprofile)",
	.recognise = recognise_heapprofile,
	.read = read_heapprofile,
};
