/* SPDX-License-Identifier: Apache-2.0 */
/*
 * massif.out of valgrind: snapshots of the heap; some of them (detailed, and the
 * peak) with a tree, which begins at the allocating function and goes up to its
 * callers:
 *
 *	n2: 3000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 *	 n1: 2000 0x109163: cart_add (shop.c:7)
 *	  n0: 2000 0x1091B2: main (shop.c:20)
 *	 n0: 1000 in 3 places, all below massif's threshold (1.00%)
 *
 * Known limits: what a snapshot without a tree has is of no known stack; stacks of
 * threads and the allocator's own bytes are left out.
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "import/formats.h"
#include "import/frames.h"
#include "import/profile.h"
#include "import/sites.h"

enum { DEPTH_MAX = 4096, COMMAND_BYTES = 4096 };

enum unit { UNIT_INSTRUCTIONS, UNIT_MS, UNIT_BYTES };

struct massif {
	struct import_job *job;
	struct frames *frames;
	struct profile *profile;
	enum unit unit;
	char command[COMMAND_BYTES];
	bool begun, open; /* open: a snapshot of the profile */
	bool seen;        /* a snapshot of the file */
	bool all;         /* no snapshot has a tree: show those without */
	uint64_t time, heap_bytes, listed_bytes;
	/* The tree of the snapshot at hand: frames from the allocating function outwards. */
	uint32_t *path;    /* frame ids */
	uint64_t *bytes;   /* of each level that its children have not taken yet */
	size_t depth;      /* levels that are open */
	uint32_t below_id; /* frame for what is below the threshold */
	uint64_t snapshots, trees, odd;
};

static bool starts(const char *line, size_t length, const char *word)
{
	size_t bytes = strlen(word);
	return length >= bytes && !memcmp(line, word, bytes);
}

static bool recognise_massif(const char *head, size_t bytes, bool whole)
{
	(void)whole;
	if (!starts(head, bytes, "desc: "))
		return false;
	for (size_t at = 0; at < bytes && at < 8192;) {
		const char *end = memchr(head + at, '\n', bytes - at);
		if (starts(head + at, bytes - at, "time_unit: "))
			return true;
		if (!end)
			return false;
		at = (size_t)(end - head) + 1;
	}
	return false;
}

/* Digits; *at moves behind them. False: there are none, or too many. */
static bool take_number(const char *line, size_t length, size_t *at, uint64_t *ret)
{
	size_t begin = *at;
	uint64_t value = 0;
	for (; *at < length && line[*at] >= '0' && line[*at] <= '9'; ++*at)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(line[*at] - '0'), &value))
			return false;
	*ret = value;
	return *at > begin;
}

static uint64_t field(const char *line, size_t length, const char *word, uint64_t otherwise)
{
	size_t at = strlen(word);
	uint64_t value;
	return take_number(line, length, &at, &value) && at == length ? value : otherwise;
}

/* ---- the tree ---- */

static int add_row(struct massif *m, size_t depth, uint64_t bytes, bool below, struct tm_error *err)
{
	uint32_t stack_id = 0;
	int code = below ? frames_stack(m->frames, 0, m->below_id, &stack_id, err) : 0;
	/* Level 0 is what all allocate through: it stands for nothing. */
	for (size_t i = depth; i > 1 && !code; i--)
		code = frames_stack(m->frames, stack_id, m->path[i - 1], &stack_id, err);
	if (!code && !stack_id)
		code = frames_no_stack(m->frames, &stack_id, err);
	const struct profile_row row = {
		.stack_id = stack_id, .allocations = PROFILE_UNKNOWN, .live_bytes = bytes};
	m->listed_bytes += bytes;
	return code ? code : profile_row(m->profile, &row, err);
}

/* Levels from this one on are over: what no caller took is theirs. */
static int close_levels(struct massif *m, size_t depth, struct tm_error *err)
{
	int code = 0;
	while (m->depth > depth && !code) {
		uint64_t left = m->bytes[m->depth - 1];
		if (left)
			code = add_row(m, m->depth, left, false, err);
		m->depth--;
	}
	return code;
}

static int take_node(struct massif *m, size_t level, const char *text, size_t length,
		     uint64_t bytes, struct tm_error *err)
{
	static const char places[] = "below massif's threshold";
	int code = close_levels(m, level, err);
	if (code)
		return code;
	if (level > m->depth || level >= DEPTH_MAX) {
		m->odd++;
		return 0;
	}
	/* A child has what its parent has, or a part of it. */
	if (level && bytes > m->bytes[level - 1]) {
		m->odd++;
		bytes = m->bytes[level - 1];
	}
	if (level)
		m->bytes[level - 1] -= bytes;
	bool below = false;
	for (size_t i = 0; i + sizeof places - 1 <= length && !below; i++)
		below = !memcmp(text + i, places, sizeof places - 1);
	if (below && level)
		return bytes ? add_row(m, level, bytes, true, err) : 0;
	m->bytes[level] = bytes;
	m->path[level] = 0;
	m->depth = level + 1;
	return level ? sites_frame(m->frames, text, length, &m->path[level], err) : 0;
}

/* " n2: 3000 text": the level is the number of blanks. False: it is no such line. */
static bool is_node(const char *line, size_t length, size_t *ret_level, size_t *ret_text,
		    uint64_t *ret_bytes)
{
	size_t at = 0;
	uint64_t children;
	while (at < length && line[at] == ' ')
		at++;
	*ret_level = at;
	if (at >= length || line[at++] != 'n' || !take_number(line, length, &at, &children) ||
	    at + 1 >= length || line[at] != ':' || line[at + 1] != ' ')
		return false;
	at += 2;
	if (!take_number(line, length, &at, ret_bytes) || at >= length || line[at] != ' ')
		return false;
	*ret_text = at + 1;
	return true;
}

/* ---- snapshots ---- */

static uint64_t time_ns(const struct massif *m)
{
	uint64_t scale = m->unit == UNIT_MS ? 1000000 : 1, result;
	return __builtin_mul_overflow(m->time, scale, &result) || result > INT64_MAX ? INT64_MAX
										     : result;
}

static int open_snapshot(struct massif *m, struct tm_error *err)
{
	m->open = true;
	m->depth = 0;
	m->listed_bytes = 0;
	return profile_snapshot(m->profile, time_ns(m), err);
}

/*
 * One without a tree would only hide where the memory of the others is: it counts
 * where it is the last, or where there are no others.
 */
static int close_snapshot(struct massif *m, bool last, struct tm_error *err)
{
	int code = 0;
	if (!m->open && m->seen && (last || m->all))
		code = open_snapshot(m, err);
	m->seen = false;
	if (!m->open || code)
		return code;
	m->open = false;
	code = close_levels(m, 0, err);
	/* The rest is of no known stack. */
	if (!code && m->heap_bytes > m->listed_bytes) {
		struct profile_row row = {.allocations = PROFILE_UNKNOWN,
					  .live_bytes = m->heap_bytes - m->listed_bytes};
		code = frames_no_stack(m->frames, &row.stack_id, err);
		if (!code)
			code = profile_row(m->profile, &row, err);
	}
	return code ? code : profile_close(m->profile, err);
}

static int begin(struct massif *m, struct tm_error *err)
{
	if (m->begun)
		return 0;
	m->begun = true;
	const struct trace_meta meta = {
		.origin = "massif",
		.command = m->command,
		.unknown = PROFILE_BYTES_ALONE,
	};
	static const char below[] = "[below massif's threshold]";
	const struct frames_name name = {.function = frames_text(below, sizeof below - 1)};
	int code = import_begin(m->job, &meta, err);
	if (!code)
		code = frames_new(m->job, &m->frames, err);
	if (!code)
		code = profile_new(m->job, &m->profile, err);
	return code ? code : frames_add(m->frames, 0, 0, &name, 1, &m->below_id, err);
}

static void take_unit(struct massif *m, const char *line, size_t length)
{
	if (starts(line, length, "time_unit: ms"))
		m->unit = UNIT_MS;
	else if (starts(line, length, "time_unit: B"))
		m->unit = UNIT_BYTES;
}

static int take_line(struct massif *m, const char *line, size_t length, struct tm_error *err)
{
	size_t level, text;
	uint64_t bytes;
	if (starts(line, length, "cmd: ")) {
		size_t part = length - 5 < COMMAND_BYTES - 1 ? length - 5 : COMMAND_BYTES - 1;
		memcpy(m->command, line + 5, part);
		m->command[part] = '\0';
	} else if (starts(line, length, "time_unit: ")) {
		take_unit(m, line, length);
	} else if (starts(line, length, "snapshot=")) {
		int code = begin(m, err);
		return code ? code : close_snapshot(m, false, err);
	} else if (starts(line, length, "time=")) {
		m->time = field(line, length, "time=", m->time);
	} else if (starts(line, length, "mem_heap_B=")) {
		m->heap_bytes = field(line, length, "mem_heap_B=", 0);
		m->seen = m->begun;
		m->snapshots += m->seen;
	} else if (m->seen && is_node(line, length, &level, &text, &bytes)) {
		int code = m->open ? 0 : open_snapshot(m, err);
		m->trees += level == 0;
		return code ? code : take_node(m, level, line + text, length - text, bytes, err);
	}
	return 0;
}

/* ---- all ---- */

static int read_lines(struct massif *m, struct tm_error *err)
{
	const char *line;
	size_t length;
	int got, code = 0;
	while (!code && (got = input_line(import_input(m->job), &line, &length)) != 0) {
		if (got < 0)
			return tm_fail(err, -EBADMSG, "a line is longer than a MiB");
		if (length && line[length - 1] == '\r')
			length--;
		code = take_line(m, line, length, err);
		if (!code)
			code = import_tick(m->job, err);
	}
	return code;
}

static int read_snapshots(struct massif *m, struct tm_error *err)
{
	int code = read_lines(m, err);
	if (!code && !m->begun)
		return tm_fail(err, -ENODATA, "massif's file has no snapshot");
	if (!code && !m->trees) {
		m->all = true;
		m->snapshots = m->time = 0;
		m->seen = false;
		code = input_rewind(import_input(m->job), err);
		if (!code)
			code = read_lines(m, err);
	}
	if (!code)
		code = close_snapshot(m, true, err);
	return code ? code : frames_finish(m->frames, err);
}

static void say_facts(struct massif *m)
{
	if (m->unit == UNIT_INSTRUCTIONS)
		import_fact(m->job, "Its times are instructions: a second stands for a billion.");
	else if (m->unit == UNIT_BYTES)
		import_fact(m->job,
			    "Its times are bytes allocated and freed: a second stands for 1 GB.");
	import_fact(m->job, "%llu of %llu snapshots have stacks; these are shown, and the last.",
		    (unsigned long long)m->trees, (unsigned long long)m->snapshots);
	if (m->odd)
		import_fact(m->job, "%llu lines of its trees made no sense.",
			    (unsigned long long)m->odd);
}

static int read_massif(struct import_job *job, struct tm_error *err)
{
	struct massif m = {.job = job};
	m.path = tm_alloc_array(DEPTH_MAX + 1, sizeof *m.path);
	m.bytes = tm_alloc_array(DEPTH_MAX + 1, sizeof *m.bytes);
	int code = m.path && m.bytes ? read_snapshots(&m, err)
				     : tm_fail(err, -ENOMEM, "no memory to read massif's file");
	if (!code) {
		say_facts(&m);
		code = profile_end(m.profile, m.frames, time_ns(&m), err);
	}
	profile_free(m.profile);
	frames_free(m.frames);
	tm_free(m.path);
	tm_free(m.bytes);
	return code;
}

const struct import_format import_massif = {
	.name = "massif",
	.title = "massif.out of valgrind",
	.recognise = recognise_massif,
	.read = read_massif,
};
