/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DHAT's JSON (valgrind --tool=dhat, dhat-rs; version 2): per stack what was
 * allocated in all, what lived at the global peak and at the end. The table of
 * frames stands behind the stacks that use it, so the file is read more than once.
 *
 * Known limits: reads, writes and lifetimes of blocks are left out; so are the
 * modes for copies and for ad-hoc events.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "import/formats.h"
#include "import/frames.h"
#include "import/json_read.h"
#include "import/profile.h"
#include "import/sites.h"

enum { FRAMES_MAX = 1 << 24, DEPTH_MAX = 4096, WORD_BYTES = 64, COMMAND_BYTES = 4096 };

struct point {
	uint64_t total_bytes, total_blocks, peak_bytes, peak_blocks, end_bytes, end_blocks;
	uint32_t frames[DEPTH_MAX];
	size_t depth;
};

struct dhat {
	struct import_job *job;
	struct json_reader json;
	struct frames *frames;
	struct profile *profile;
	uint32_t *table; /* frame ids by the file's numbers */
	size_t table_count, table_room;
	char mode[WORD_BYTES], unit[WORD_BYTES], command[COMMAND_BYTES];
	uint64_t peak_time, end_time, pid, version;
	bool has_lives;
	struct point *point;
	uint64_t odd;
};

static bool recognise_dhat(const char *head, size_t bytes, bool whole)
{
	static const char *const parts[] = {"\"dhatFileVersion\"", NULL};
	(void)whole;
	return json_read_looks(head, bytes, parts);
}

/* ---- what is said of all, and the frames ---- */

static int add_frame(struct dhat *d, struct tm_error *err)
{
	if (d->table_count == FRAMES_MAX)
		return tm_fail(err, -EFBIG, "its table of frames is larger than any program's");
	if (d->table_count == d->table_room) {
		size_t room = d->table_room * 2 + 256;
		void *grown = tm_grow_array(d->table, room, sizeof *d->table);
		if (!grown)
			return tm_fail(err, -ENOMEM, "no memory for the frames of the file");
		d->table = grown;
		d->table_room = room;
	}
	return sites_frame(d->frames, text_string(&d->json.text), d->json.text.length,
			   &d->table[d->table_count++], err);
}

static int read_frames(struct dhat *d, struct tm_error *err)
{
	struct json_reader *json = &d->json;
	if (json_read_next(json) != JSON_READ_ARRAY)
		return 0;
	unsigned depth = json->depth;
	enum json_token token;
	int code = 0;
	while (!code && json->depth >= depth && (token = json_read_next(json)) > JSON_READ_END) {
		if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
			json_read_leave(json, json->depth);
		if (token == JSON_READ_ARRAY_END)
			continue;
		if (token != JSON_READ_TEXT)
			text_clear(&json->text);
		code = add_frame(d, err);
	}
	return code;
}

static int read_head(struct dhat *d, struct tm_error *err)
{
	struct json_reader *json = &d->json;
	int code = 0;
	(void)json_read_next(json); /* the object that all is in */
	while (!code && json_read_key(json, 1)) {
		if (json_read_is(json, "mode"))
			json_read_text(json, d->mode, sizeof d->mode);
		else if (json_read_is(json, "tu"))
			json_read_text(json, d->unit, sizeof d->unit);
		else if (json_read_is(json, "cmd"))
			json_read_text(json, d->command, sizeof d->command);
		else if (json_read_is(json, "pid"))
			d->pid = json_read_number(json);
		else if (json_read_is(json, "dhatFileVersion"))
			d->version = json_read_number(json);
		else if (json_read_is(json, "bklt"))
			d->has_lives = json_read_number(json);
		else if (json_read_is(json, "tg"))
			d->peak_time = json_read_number(json);
		else if (json_read_is(json, "te"))
			d->end_time = json_read_number(json);
		else if (json_read_is(json, "ftbl") && d->frames)
			code = read_frames(d, err);
		else
			json_read_skip(json);
	}
	return code;
}

/* ---- the stacks ---- */

static void read_path(struct dhat *d, struct point *point)
{
	struct json_reader *json = &d->json;
	if (json_read_next(json) != JSON_READ_ARRAY)
		return;
	unsigned depth = json->depth;
	enum json_token token;
	while (json->depth >= depth && (token = json_read_next(json)) > JSON_READ_END) {
		if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
			json_read_leave(json, json->depth);
		if (token != JSON_READ_NUMBER || point->depth == DEPTH_MAX)
			continue;
		if (json->number < d->table_count)
			point->frames[point->depth++] = d->table[json->number];
		else
			d->odd++;
	}
}

/* The object is open. */
static void read_point(struct dhat *d, struct point *point)
{
	struct json_reader *json = &d->json;
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {
		{"tb", &point->total_bytes}, {"tbk", &point->total_blocks},
		{"gb", &point->peak_bytes},  {"gbk", &point->peak_blocks},
		{"eb", &point->end_bytes},   {"ebk", &point->end_blocks},
	};
	enum { NUMBERS = sizeof numbers / sizeof numbers[0] };
	unsigned depth = json->depth;
	memset(point, 0, offsetof(struct point, frames));
	point->depth = 0;
	while (json_read_key(json, depth)) {
		size_t i = 0;
		while (i < NUMBERS && !json_read_is(json, numbers[i].key))
			i++;
		if (i < NUMBERS)
			*numbers[i].to = json_read_number(json);
		else if (json_read_is(json, "fs"))
			read_path(d, point);
		else
			json_read_skip(json);
	}
}

/* Frames have the innermost first. */
static int add_point(struct dhat *d, const struct point *point, bool at_peak, struct tm_error *err)
{
	struct profile_row row = {
		/* By the peak at least what lived then: the rest may come before or after it. */
		.allocations = at_peak ? point->peak_blocks : point->total_blocks,
		.allocated_bytes = at_peak ? point->peak_bytes : point->total_bytes,
		.live_blocks = at_peak ? point->peak_blocks : point->end_blocks,
		.live_bytes = at_peak ? point->peak_bytes : point->end_bytes,
	};
	if (at_peak && !row.live_blocks && !row.live_bytes)
		return 0;
	int code = 0;
	for (size_t i = point->depth; i > 0 && !code; i--)
		code = frames_stack(d->frames, row.stack_id, point->frames[i - 1], &row.stack_id,
				    err);
	if (!code && !row.stack_id)
		code = frames_no_stack(d->frames, &row.stack_id, err);
	/* Without lifetimes nothing is known of what lived when. */
	if (!d->has_lives) {
		row.live_blocks = row.allocations;
		row.live_bytes = row.allocated_bytes;
	}
	return code ? code : profile_row(d->profile, &row, err);
}

static int read_points(struct dhat *d, bool at_peak, struct tm_error *err)
{
	struct json_reader *json = &d->json;
	if (json_read_next(json) != JSON_READ_ARRAY)
		return 0;
	unsigned depth = json->depth;
	enum json_token token;
	int code = 0;
	while (!code && json->depth >= depth && (token = json_read_next(json)) > JSON_READ_END) {
		if (token == JSON_READ_ARRAY)
			json_read_leave(json, json->depth);
		if (token != JSON_READ_OBJECT)
			continue;
		read_point(d, d->point);
		code = add_point(d, d->point, at_peak, err);
		if (!code)
			code = import_tick(d->job, err);
	}
	return code;
}

static uint64_t time_ns(const struct dhat *d, uint64_t time)
{
	bool micro = strstr(d->unit, "s") && !strstr(d->unit, "instr");
	uint64_t scale = micro ? 1000 : 1, result;
	return __builtin_mul_overflow(time, scale, &result) || result > INT64_MAX ? INT64_MAX
										  : result;
}

static int again(struct dhat *d, struct tm_error *err)
{
	json_read_done(&d->json);
	int code = input_rewind(import_input(d->job), err);
	if (!code && json_read_init(&d->json, import_input(d->job)))
		code = tm_fail(err, -ENOMEM, "no memory to read the file");
	return code;
}

static int read_moment(struct dhat *d, bool at_peak, struct tm_error *err)
{
	struct json_reader *json = &d->json;
	int code = again(d, err);
	d->odd = 0; /* each time the same */
	if (!code)
		code = profile_snapshot(d->profile,
					time_ns(d, at_peak ? d->peak_time : d->end_time), err);
	if (!code)
		(void)json_read_next(json); /* the object that all is in */
	while (!code && json_read_key(json, 1)) {
		if (json_read_is(json, "pps"))
			code = read_points(d, at_peak, err);
		else
			json_read_skip(json);
	}
	return code ? code : profile_close(d->profile, err);
}

/* ---- all ---- */

static int begin(struct dhat *d, struct tm_error *err)
{
	unsigned unknown = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_THREADS | TRACE_UNKNOWN_EVENTS |
			   TRACE_UNKNOWN_SIZES | TRACE_UNKNOWN_TEMPORARY;
	if (!d->has_lives)
		unknown |= TRACE_UNKNOWN_FREES | TRACE_UNKNOWN_PEAK | TRACE_UNKNOWN_TIMES;
	const struct trace_meta meta = {.origin = "DHAT",
					.command = d->command,
					.pid = d->pid <= UINT32_MAX ? (uint32_t)d->pid : 0,
					.unknown = unknown};
	int code = import_begin(d->job, &meta, err);
	if (!code && d->json.cut)
		import_cut(d->job);
	return code ? code : frames_new(d->job, &d->frames, err);
}

static int read_all(struct dhat *d, struct tm_error *err)
{
	d->point = tm_alloc(sizeof *d->point);
	int code = d->point && !json_read_init(&d->json, import_input(d->job))
			   ? 0
			   : tm_fail(err, -ENOMEM, "no memory to read the file");
	/* What is said of all, then the frames, then the stacks at each of two moments. */
	if (!code)
		code = read_head(d, err);
	if (!code && d->mode[0] && !strstr(d->mode, "heap"))
		return tm_fail(err, -EBADMSG, "it is DHAT's file of mode '%s', not of the heap",
			       d->mode);
	if (!code)
		code = begin(d, err);
	if (!code)
		code = again(d, err);
	if (!code)
		code = read_head(d, err);
	if (!code)
		code = profile_new(d->job, &d->profile, err);
	if (!code && d->has_lives)
		code = read_moment(d, true, err);
	if (!code)
		code = read_moment(d, false, err);
	return code ? code : frames_finish(d->frames, err);
}

static void say_facts(struct dhat *d)
{
	if (strstr(d->unit, "instr"))
		import_fact(d->job, "Its times are instructions: a second stands for a billion.");
	if (!d->has_lives)
		import_fact(d->job,
			    "It has no lifetimes: all that was allocated is shown as live.");
	if (d->odd)
		import_fact(d->job, "%llu frames are not in its table and were left out.",
			    (unsigned long long)d->odd);
}

static int read_dhat(struct import_job *job, struct tm_error *err)
{
	struct dhat d = {.job = job};
	int code = read_all(&d, err);
	if (!code) {
		say_facts(&d);
		code = profile_end(d.profile, d.frames, time_ns(&d, d.end_time), err);
	}
	json_read_done(&d.json);
	profile_free(d.profile);
	frames_free(d.frames);
	tm_free(d.table);
	tm_free(d.point);
	return code;
}

const struct import_format import_dhat = {
	.name = "dhat",
	.title = "DHAT JSON, version 2 (valgrind, dhat-rs)",
	.recognise = recognise_dhat,
	.read = read_dhat,
};
