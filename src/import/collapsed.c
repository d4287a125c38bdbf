/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks, as flamegraph.pl and many tools write and read them: a line
 * per stack, frames from the outermost in, between semicolons, a blank and a
 * number at the end. The number is taken for live bytes; what else it may be, the
 * file does not say.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "import/formats.h"
#include "import/frames.h"
#include "import/profile.h"

/* Where the number begins, and its value; false: the line is none of a stack. */
static bool split(const char *line, size_t length, size_t *ret_stack_bytes, uint64_t *ret_value)
{
	while (length && (line[length - 1] == '\r' || line[length - 1] == ' '))
		length--;
	size_t at = length;
	while (at && isdigit((unsigned char)line[at - 1]))
		at--;
	if (at == length || at < 2 || line[at - 1] != ' ')
		return false;
	uint64_t value = 0;
	for (size_t i = at; i < length; i++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(line[i] - '0'), &value))
			return false;
	*ret_stack_bytes = at - 1;
	*ret_value = value;
	return true;
}

/* All whole lines of the head are stacks with a number, and some have several frames. */
static bool recognise_collapsed(const char *head, size_t bytes, bool whole)
{
	size_t lines = 0, deep = 0;
	while (bytes) {
		const char *end = memchr(head, '\n', bytes);
		size_t length = end ? (size_t)(end - head) : bytes, stack_bytes;
		uint64_t value;
		if (!end && !whole)
			break;
		if (length && *head != '#') {
			if (memchr(head, 0, length) || !split(head, length, &stack_bytes, &value))
				return false;
			lines++;
			deep += memchr(head, ';', stack_bytes) != NULL;
		}
		head += length + (end != NULL);
		bytes -= length + (end != NULL);
	}
	return lines && deep * 2 >= lines;
}

struct collapsed {
	struct frames *frames;
	struct profile *profile;
	uint64_t odd;
};

static int add_stack(struct collapsed *c, const char *line, size_t length, uint64_t value,
		     struct tm_error *err)
{
	uint32_t stack_id = 0, frame_id;
	int code = 0;
	while (length && !code) {
		const char *end = memchr(line, ';', length);
		size_t part = end ? (size_t)(end - line) : length;
		const struct frames_name name = {.function = frames_text(line, part)};
		if (part) {
			code = frames_add(c->frames, 0, 0, &name, 1, &frame_id, err);
			if (!code)
				code = frames_stack(c->frames, stack_id, frame_id, &stack_id, err);
		}
		line += part + (end != NULL);
		length -= part + (end != NULL);
	}
	if (!code && !stack_id) {
		c->odd++;
		return 0;
	}
	const struct profile_row row = {
		.stack_id = stack_id, .allocations = PROFILE_UNKNOWN, .live_bytes = value};
	return code ? code : profile_row(c->profile, &row, err);
}

static int read_lines(struct import_job *job, struct collapsed *c, struct tm_error *err)
{
	const char *line;
	size_t length, stack_bytes;
	uint64_t value;
	int got, code = 0;
	while (!code && (got = input_line(import_input(job), &line, &length)) != 0) {
		if (got < 0)
			return tm_fail(err, -EBADMSG, "a line is longer than a MiB");
		if (!length || *line == '#')
			continue;
		if (split(line, length, &stack_bytes, &value))
			code = add_stack(c, line, stack_bytes, value, err);
		else
			c->odd++;
		if (!code)
			code = import_tick(job, err);
	}
	return code;
}

static int read_all(struct import_job *job, struct collapsed *c, struct tm_error *err)
{
	int code = frames_new(job, &c->frames, err);
	if (!code)
		code = profile_new(job, &c->profile, err);
	if (!code)
		code = profile_snapshot(c->profile, 0, err);
	if (!code)
		code = read_lines(job, c, err);
	if (!code)
		code = profile_close(c->profile, err);
	return code ? code : frames_finish(c->frames, err);
}

static int read_collapsed(struct import_job *job, struct tm_error *err)
{
	const struct trace_meta meta = {
		.origin = "collapsed stacks",
		.unknown = PROFILE_BYTES_ALONE | TRACE_UNKNOWN_TIMES,
	};
	struct collapsed c = {0};
	int code = import_begin(job, &meta, err);
	if (!code)
		code = read_all(job, &c, err);
	if (!code) {
		import_fact(job, "The numbers of the file are taken for live bytes: it does not "
				 "say what they are.");
		if (c.odd)
			import_fact(job, "%llu lines are no stack with a number and were left out.",
				    (unsigned long long)c.odd);
		code = profile_end(c.profile, c.frames, 0, err);
	}
	profile_free(c.profile);
	frames_free(c.frames);
	return code;
}

const struct import_format import_collapsed = {
	.name = "collapsed",
	.title = "collapsed stacks (flamegraph.pl): a line per stack, with a number",
	.recognise = recognise_collapsed,
	.read = read_collapsed,
};
