/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap profiles as text: jemalloc's "heap_v2" and those of gperftools (tcmalloc,
 * the heap profiler):
 *
 *	heap_v2/524288                        heap profile:  2: 300 [ 5: 700] @ heap_v2/524288
 *	  t*: 2: 300 [0: 0]                     1: 100 [ 2: 200] @ 0x55d1 0x55e2
 *	@ 0x55d1 0x55e2                         1: 200 [ 3: 500] @ 0x55f0 0x55e2
 *	  t*: 1: 100 [0: 0]                   MAPPED_LIBRARIES:
 *	MAPPED_LIBRARIES: ...                 ...
 *
 * In use first, allocated in all in brackets; the innermost address first. Sampled
 * profiles name the mean distance of samples in bytes: what was seen stands for
 * 1 / (1 - exp(-size / distance)) times as much. The modules stand at the end, so
 * the file is read twice.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "import/formats.h"
#include "import/frames.h"
#include "import/mapped.h"
#include "import/profile.h"

enum { DEPTH_MAX = 4096 };

struct heapz {
	struct import_job *job;
	struct mapped *mapped;
	struct frames *frames;
	struct profile *profile;
	bool jemalloc, has_allocated;
	uint64_t distance; /* 0 = every allocation */
	uint64_t *path;
	size_t depth;
	bool has_path; /* jemalloc: sums of all come before the first stack */
	uint64_t odd;
};

struct figures {
	uint64_t blocks, bytes, all_blocks, all_bytes;
};

static bool starts(const char *line, size_t length, const char *word)
{
	size_t bytes = strlen(word);
	return length >= bytes && !memcmp(line, word, bytes);
}

static bool recognise_jemalloc(const char *head, size_t bytes, bool whole)
{
	(void)whole;
	return starts(head, bytes, "heap_v2/");
}

static bool recognise_gperftools(const char *head, size_t bytes, bool whole)
{
	(void)whole;
	return starts(head, bytes, "heap profile:");
}

/* ---- lines ---- */

struct cursor {
	const char *at, *end;
};

static void skip_blanks(struct cursor *c)
{
	while (c->at < c->end && *c->at == ' ')
		c->at++;
}

static bool take(struct cursor *c, char wanted)
{
	skip_blanks(c);
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

static bool take_number(struct cursor *c, uint64_t *ret)
{
	skip_blanks(c);
	const char *begin = c->at;
	uint64_t value = 0;
	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*c->at - '0'), &value))
			return false;
	*ret = value;
	return c->at > begin;
}

/* "1: 100 [2: 200]" */
static bool take_figures(struct cursor *c, struct figures *ret)
{
	return take_number(c, &ret->blocks) && take(c, ':') && take_number(c, &ret->bytes) &&
	       take(c, '[') && take_number(c, &ret->all_blocks) && take(c, ':') &&
	       take_number(c, &ret->all_bytes) && take(c, ']');
}

static bool take_address(struct cursor *c, uint64_t *ret)
{
	skip_blanks(c);
	const char *begin = c->at;
	uint64_t value = 0;
	if (c->end - c->at > 2 && c->at[0] == '0' && (c->at[1] | 0x20) == 'x')
		c->at += 2;
	const char *digits = c->at;
	for (; c->at < c->end && c->at - digits < 16; c->at++) {
		char ch = *c->at, lower = (char)(ch | 0x20);
		if (ch >= '0' && ch <= '9')
			value = value << 4 | (uint64_t)(ch - '0');
		else if (lower >= 'a' && lower <= 'f')
			value = value << 4 | (uint64_t)(lower - 'a' + 10);
		else
			break;
	}
	*ret = value;
	if (c->at > digits)
		return true;
	c->at = begin;
	return false;
}

static void take_path(struct heapz *h, struct cursor *c)
{
	h->depth = 0;
	while (h->depth < DEPTH_MAX && take_address(c, &h->path[h->depth]))
		h->depth++;
}

/* ---- rows ---- */

static void scale(const struct heapz *h, uint64_t *blocks, uint64_t *bytes)
{
	if (!h->distance || !*blocks || !*bytes)
		return;
	double mean = (double)*bytes / (double)*blocks;
	double factor = 1 / -expm1(-mean / (double)h->distance);
	double some = (double)*blocks * factor, all = (double)*bytes * factor;
	*blocks = some < 0x1p62 ? (uint64_t)llround(some) : *blocks;
	*bytes = all < 0x1p62 ? (uint64_t)llround(all) : *bytes;
}

static int add_row(struct heapz *h, struct figures figures, struct tm_error *err)
{
	struct profile_row row = {.allocations = PROFILE_UNKNOWN};
	int code = 0;
	if (!figures.blocks && !figures.bytes && !figures.all_blocks && !figures.all_bytes)
		return 0;
	for (size_t i = h->depth; i > 0 && !code; i--) {
		uint32_t frame_id;
		code = mapped_frame(h->mapped, h->frames, h->path[i - 1], &frame_id, err);
		if (!code)
			code = frames_stack(h->frames, row.stack_id, frame_id, &row.stack_id, err);
	}
	if (!code && !row.stack_id)
		code = frames_no_stack(h->frames, &row.stack_id, err);
	scale(h, &figures.blocks, &figures.bytes);
	scale(h, &figures.all_blocks, &figures.all_bytes);
	row.live_blocks = figures.blocks;
	row.live_bytes = figures.bytes;
	if (h->has_allocated) {
		row.allocations = figures.all_blocks;
		row.allocated_bytes = figures.all_bytes;
	}
	return code ? code : profile_row(h->profile, &row, err);
}

/* A line of the second pass. */
static int take_line(struct heapz *h, const char *line, size_t length, struct tm_error *err)
{
	struct cursor c = {line, line + length};
	struct figures figures;
	skip_blanks(&c);
	if (c.at == c.end || *c.at == '#')
		return 0;
	if (h->jemalloc) {
		if (take(&c, '@')) {
			take_path(h, &c);
			h->has_path = true;
			return 0;
		}
		/* Each thread has a line, too; all together are "t*". */
		if (!h->has_path || c.end - c.at < 3 || c.at[0] != 't' || c.at[1] != '*' ||
		    c.at[2] != ':')
			return 0;
		c.at += 3;
		if (!take_figures(&c, &figures)) {
			h->odd++;
			return 0;
		}
		return add_row(h, figures, err);
	}
	if (!take_figures(&c, &figures) || !take(&c, '@')) {
		h->odd++;
		return 0;
	}
	take_path(h, &c);
	return add_row(h, figures, err);
}

/* ---- two passes ---- */

static void take_distance(struct heapz *h, const char *line, size_t length)
{
	const char *slash = memchr(line, '/', length);
	struct cursor c = {slash ? slash + 1 : line + length, line + length};
	uint64_t distance;
	if (take_number(&c, &distance))
		h->distance = distance;
}

static void look_at_line(struct heapz *h, const char *line, size_t length)
{
	struct cursor c = {line, line + length};
	struct figures figures;
	skip_blanks(&c);
	if (h->jemalloc && c.end - c.at > 3 && c.at[0] == 't' && c.at[2] == ':')
		c.at += 3;
	if (take_figures(&c, &figures))
		h->has_allocated |= figures.all_blocks > 0;
}

static int pass(struct heapz *h, bool rows, struct tm_error *err)
{
	const char *line;
	size_t length, number = 0;
	bool maps = false;
	int got, code = 0;
	while (!code && (got = input_line(import_input(h->job), &line, &length)) != 0) {
		if (got < 0)
			return tm_fail(err, -EBADMSG, "a line is longer than a MiB");
		if (length && line[length - 1] == '\r')
			length--;
		bool first = !number++;
		if (starts(line, length, "MAPPED_LIBRARIES"))
			maps = true;
		else if (maps && !rows)
			code = mapped_line(h->mapped, line, length, err);
		else if (first && !rows)
			take_distance(h, line, length);
		else if (!maps && !first && rows)
			code = take_line(h, line, length, err);
		else if (!maps && !first)
			look_at_line(h, line, length);
		if (!code)
			code = import_tick(h->job, err);
	}
	return code;
}

static int begin(struct heapz *h, struct tm_error *err)
{
	unsigned unknown = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_THREADS | TRACE_UNKNOWN_TIMES |
			   TRACE_UNKNOWN_EVENTS | TRACE_UNKNOWN_SIZES | TRACE_UNKNOWN_PEAK |
			   TRACE_UNKNOWN_TEMPORARY;
	const struct trace_meta meta = {
		.origin = h->jemalloc ? "jemalloc heap_v2" : "gperftools heap profile",
		.program = mapped_program(h->mapped),
		.unknown = unknown | (h->has_allocated ? 0 : TRACE_UNKNOWN_ALLOCATIONS)};
	return import_begin(h->job, &meta, err);
}

static int read_all(struct heapz *h, struct tm_error *err)
{
	h->path = tm_alloc_array(DEPTH_MAX, sizeof *h->path);
	int code = h->path ? mapped_new(h->job, &h->mapped, err)
			   : tm_fail(err, -ENOMEM, "no memory to read the profile");
	if (!code)
		code = pass(h, false, err);
	if (!code)
		code = begin(h, err);
	if (!code)
		code = frames_new(h->job, &h->frames, err);
	if (!code)
		code = profile_new(h->job, &h->profile, err);
	if (!code)
		code = profile_snapshot(h->profile, 0, err);
	if (!code)
		code = input_rewind(import_input(h->job), err);
	if (!code)
		code = pass(h, true, err);
	if (!code)
		code = profile_close(h->profile, err);
	if (!code)
		code = frames_finish(h->frames, err);
	return code ? code : mapped_names(h->mapped, err);
}

static int read_text(struct import_job *job, bool jemalloc, struct tm_error *err)
{
	struct heapz h = {.job = job, .jemalloc = jemalloc};
	int code = read_all(&h, err);
	if (!code) {
		if (h.distance)
			import_fact(job,
				    "It was sampled every %llu bytes: the figures are estimates.",
				    (unsigned long long)h.distance);
		if (h.odd)
			import_fact(job, "%llu lines made no sense and were left out.",
				    (unsigned long long)h.odd);
		code = profile_end(h.profile, h.frames, 0, err);
	}
	profile_free(h.profile);
	frames_free(h.frames);
	mapped_free(h.mapped);
	tm_free(h.path);
	return code;
}

static int read_jemalloc(struct import_job *job, struct tm_error *err)
{
	return read_text(job, true, err);
}

static int read_gperftools(struct import_job *job, struct tm_error *err)
{
	return read_text(job, false, err);
}

const struct import_format import_jemalloc = {
	.name = "jemalloc",
	.title = "jemalloc heap_v2",
	.recognise = recognise_jemalloc,
	.read = read_jemalloc,
};

const struct import_format import_gperftools = {
	.name = "gperftools",
	.title = "gperftools and tcmalloc heap profiles, text",
	.recognise = recognise_gperftools,
	.read = read_gperftools,
};
