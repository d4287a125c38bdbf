/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack's files, as it stores them: interpreted (with names; a free tells size
 * and stack, not the block) and raw (addresses and pointers). Formats 0 to 3.
 *
 * A free of an interpreted file ends the youngest block of its size and stack:
 * whichever it was, the figures per stack are the same, and lifetimes, which are
 * not, are noted as unknown.
 *
 * Temporary is what heaptrack calls so: the next event after an allocation is a
 * free of the same stack and size (raw: of the same block), whatever thread. That
 * is what the model finds when all is one thread and ends take the youngest. Its
 * own reader counts some more: it remembers the last allocation by its number and
 * takes 0, which is a number, for none.
 */
#include "import/heaptrack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "import/formats.h"

enum { SAMPLE_STEP_MS = 100, SAMPLES_BEFORE_DOUBLING = 65536, MS_MAX_LOG2 = 43 };

#define NONE 16
#define ROW  NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE
#define ROW4 ROW, ROW, ROW, ROW
const uint8_t heaptrack_digits[256] = {
	ROW,  ROW,  ROW,  ROW,                                         /* 0x00 */
	ROW,  ROW,                                                     /* 0x20 */
	0,    1,    2,    3,    4,    5,    6,    7,                   /* 0x30 */
	8,    9,    NONE, NONE, NONE, NONE, NONE, NONE,                /* 0x38 */
	ROW4,                                                          /* 0x40 */
	NONE, 10,   11,   12,   13,   14,   15,   NONE, ROW, ROW, ROW, /* 0x60 */
	ROW4, ROW4, ROW4, ROW4,                                        /* 0x80 */
};

/* ---- the head ---- */

static int begin(struct heaptrack *h)
{
	char origin[160];
	if (h->begun)
		return 0;
	h->begun = true;
	int used = snprintf(origin, sizeof origin, "heaptrack");
	if (h->version)
		used += snprintf(origin + used, sizeof origin - (size_t)used,
				 " %" PRIu64 ".%" PRIu64 ".%" PRIu64, h->version >> 16,
				 h->version >> 8 & 0xff, h->version & 0xff);
	snprintf(origin + used, sizeof origin - (size_t)used, ", format %" PRIu64 ", %s%s",
		 h->format, h->raw ? "raw" : "interpreted", h->attached ? ", attached" : "");
	bool blocks = h->raw || h->format == 0;
	const struct trace_meta meta = {
		.program = h->program,
		.command = h->command,
		.clock = "monotonic",
		.page_bytes = h->page_bytes,
		.machine_bytes =
			h->pages > UINT64_MAX / (h->page_bytes + 1) ? 0 : h->pages * h->page_bytes,
		.addresses = blocks,
		.origin = origin,
		.unknown = TRACE_UNKNOWN_THREADS | (blocks ? 0 : TRACE_UNKNOWN_LIFETIMES),
	};
	const struct events_options how = {.page_bytes = h->page_bytes, .known = !blocks};
	int code = import_begin(h->job, &meta, h->err);
	return code ? code : events_new(h->job, &how, &h->events, h->err);
}

static int read_version(struct heaptrack *h, const char *rest)
{
	uint64_t version, format;
	if (!heaptrack_number(&rest, &version) || h->begun || h->has_v) {
		h->odd_lines++;
		return 0;
	}
	h->has_v = true;
	h->version = version;
	if (!heaptrack_number(&rest, &format))
		format = version >= 0x10000 ? 1 : 0;
	if (format > 3)
		return tm_fail(h->err, -EBADMSG,
			       "it is a file of heaptrack in format %" PRIu64
			       ", which is newer than what is known here (3)",
			       format);
	h->format = format;
	return 0;
}

static int read_command(struct heaptrack *h, const char *rest, const char *end)
{
	struct text copy = {0};
	if (h->command) {
		h->odd_lines++;
		return 0;
	}
	text_put_bytes(&copy, rest, strnlen(rest, (size_t)(end - rest)));
	text_put(&copy, "");
	if (text_take(&copy, &h->command))
		return heaptrack_no_memory(h);
	if (h->program)
		return 0;
	text_put_bytes(&copy, h->command, strcspn(h->command, " "));
	text_put(&copy, "");
	return text_take(&copy, &h->program) ? heaptrack_no_memory(h) : 0;
}

/* In format 3 it came to be sized, which heaptrack itself does not expect. */
static void read_suppression(struct heaptrack *h, const char *rest, const char *end)
{
	const char *text = rest, *at = rest;
	size_t length = (size_t)(end - rest);
	if (h->format >= 3 && strncmp(rest, "leak:", 5) != 0 &&
	    !heaptrack_text(h, &at, end, true, &text, &length)) {
		text = rest;
		length = (size_t)(end - rest);
	}
	if (length > 5 && !strncmp(text, "leak:", 5))
		import_suppression(h->job, text, length);
	else
		h->odd_lines++;
}

static void read_machine(struct heaptrack *h, const char *rest)
{
	uint64_t page_bytes, pages = 0;
	if (!heaptrack_number(&rest, &page_bytes) || !heaptrack_number(&rest, &pages) ||
	    page_bytes > 1 << 30 || h->begun) {
		h->odd_lines++;
		return;
	}
	h->page_bytes = page_bytes;
	h->pages = pages;
}

/* ---- time ---- */

static void read_clock(struct heaptrack *h, const char *rest)
{
	uint64_t ms;
	if (!heaptrack_number(&rest, &ms) || ms >> MS_MAX_LOG2)
		h->odd_lines++;
	else if (ms < h->time_ms)
		h->late_clocks++;
	else
		h->time_ms = ms;
}

/* Every 10 ms is more than anybody looks at; the largest of all is always kept. */
static int read_resident(struct heaptrack *h, const char *rest)
{
	uint64_t pages, page_bytes = h->page_bytes ? h->page_bytes : 4096, bytes;
	if (!heaptrack_number(&rest, &pages) || __builtin_mul_overflow(pages, page_bytes, &bytes)) {
		h->odd_lines++;
		return 0;
	}
	if (pages <= h->largest_pages && h->time_ms < h->next_sample_ms)
		return 0;
	if (pages > h->largest_pages)
		h->largest_pages = pages;
	if (++h->sample_count % SAMPLES_BEFORE_DOUBLING == 0)
		h->sample_step_ms *= 2;
	h->next_sample_ms = h->time_ms + h->sample_step_ms;
	const struct trace_sample sample = {.time_ns = h->time_ms * 1000000, .rss_bytes = bytes};
	int code = begin(h);
	return code ? code : events_sample(h->events, &sample, h->err);
}

/* ---- events ---- */

static int read_info(struct heaptrack *h, const char *rest)
{
	uint64_t size = 0, stack = 0;
	if (h->info_count >= HEAPTRACK_IDS_MAX)
		return tm_fail(h->err, -EFBIG, "the file has too many sizes and stacks");
	if (!heaptrack_number(&rest, &size) || !heaptrack_number(&rest, &stack))
		h->odd_lines++;
	if (stack > h->stack_count) {
		h->odd_ids++;
		stack = 0;
	}
	if (size >> 48) {
		h->odd_sizes++;
		size = (1ull << 48) - 1;
	}
	void *grown = heaptrack_room(h->infos, h->info_count, &h->info_room, sizeof *h->infos);
	if (!grown)
		return heaptrack_no_memory(h);
	h->infos = grown;
	h->infos[h->info_count++] =
		(struct heaptrack_info){.size_bytes = size, .stack_id = (uint32_t)stack};
	return h->alike.first ? heaptrack_alike_add(h, (uint32_t)h->info_count - 1) : 0;
}

/* Mostly the number itself. */
static inline uint64_t first_of(const struct heaptrack *h, uint64_t id)
{
	return __builtin_expect(h->alike.first != NULL, 0) ? h->alike.first[id] : id;
}

static inline int put_birth(struct heaptrack *h, struct heaptrack_info *info)
{
	*events_next(h->events) = (struct trace_event){.time_ns = h->time_ms * 1000000,
						       .size_bytes = info->size_bytes,
						       .block_id = h->births,
						       .stack_id = info->stack_id,
						       .op = TRACE_ALLOC};
	int code = heaptrack_push(h, info, h->births++);
	h->last_block = h->births;
	return code ? code : events_put(h->events, h->err);
}

static inline int put_end(struct heaptrack *h, struct heaptrack_info *info)
{
	uint64_t block_id = heaptrack_pop(h, info);
	bool temporary = h->last_block == block_id + 1;
	h->temporary += temporary;
	h->last_block = 0;
	*events_next(h->events) =
		(struct trace_event){.time_ns = h->time_ms * 1000000,
				     .size_bytes = info->size_bytes,
				     .block_id = block_id,
				     .stack_id = info->stack_id,
				     .op = TRACE_FREE,
				     .flags = temporary ? TRACE_EVENT_TEMPORARY : 0};
	return events_put(h->events, h->err);
}

static inline int put_indexed(struct heaptrack *h, const char **rest, bool is_alloc)
{
	uint64_t id;
	if (__builtin_expect(!heaptrack_number(rest, &id), 0)) {
		h->odd_lines++;
		return 0;
	}
	if (__builtin_expect(id >= h->info_count, 0)) {
		h->odd_ids++;
		return 0;
	}
	if (is_alloc) {
		h->print_last = id;
		return put_birth(h, &h->infos[first_of(h, id)]);
	}
	h->print_temporary += h->print_last == id;
	h->print_last = 0;
	struct heaptrack_info *info = &h->infos[first_of(h, id)];
	if (__builtin_expect(info->top == 0, 0) && !h->alike.first) {
		if (heaptrack_unite(h))
			return h->err->code;
		info = &h->infos[first_of(h, id)];
	}
	if (__builtin_expect(info->top == 0, 0)) {
		h->odd_frees++;
		return 0;
	}
	return put_end(h, info);
}

static int put_pointer(struct heaptrack *h, const char **rest, bool is_alloc)
{
	uint64_t size = 0, stack = 0, pointer;
	if ((is_alloc && (!heaptrack_number(rest, &size) || !heaptrack_number(rest, &stack))) ||
	    !heaptrack_number(rest, &pointer)) {
		h->odd_lines++;
		return 0;
	}
	if (stack > h->stack_count) {
		h->odd_ids++;
		stack = 0;
	}
	*events_next(h->events) = (struct trace_event){.time_ns = h->time_ms * 1000000,
						       .address = pointer,
						       .size_bytes = size,
						       .stack_id = (uint32_t)stack,
						       .op = is_alloc ? TRACE_ALLOC : TRACE_FREE};
	return events_put(h->events, h->err);
}

/* *rest moves behind what was understood of the line. */
static int read_event(struct heaptrack *h, const char **rest, bool is_alloc)
{
	if (__builtin_expect(!h->begun, 0) && begin(h))
		return h->err->code;
	if (h->raw || h->format == 0)
		return put_pointer(h, rest, is_alloc);
	return put_indexed(h, rest, is_alloc);
}

/* ---- lines ---- */

/* Records that belong to the head, or come seldom. */
static int read_other(struct heaptrack *h, char letter, const char *rest, const char *end)
{
	switch (letter) {
	case 'v':
		return read_version(h, rest);
	case 'x':
		return heaptrack_program(h, rest, end);
	case 'X':
		return read_command(h, rest, end);
	case 'I':
		read_machine(h, rest);
		return 0;
	case 'S':
		read_suppression(h, rest, end);
		return 0;
	case 'c':
		read_clock(h, rest);
		return 0;
	case 'R':
		return read_resident(h, rest);
	case 'm':
		return heaptrack_module(h, rest, end);
	default:
		h->odd_lines++;
		return 0;
	}
}

static int read_line(struct heaptrack *h, const char *line, const char *end)
{
	if (line == end || *line == '#')
		return 0;
	if (line + 1 == end && *line == 'A') {
		h->attached = true;
		return 0;
	}
	if (line + 1 == end || line[1] != ' ') {
		h->odd_lines++;
		return 0;
	}
	const char *rest = line + 2;
	if (*line != 's' && *line != 'i' && *line != 't' && *line != 'a')
		return read_other(h, *line, rest, end);
	if (!h->begun && begin(h))
		return h->err->code;
	switch (*line) {
	case 's':
		return heaptrack_string(h, rest, end);
	case 'i':
		return heaptrack_ip(h, rest);
	case 't':
		return heaptrack_stack(h, rest);
	default:
		return read_info(h, rest);
	}
}

/* Whole lines; end is behind the last LF. */
static int read_block(struct heaptrack *h, const char *at, const char *end)
{
	int code = 0;
	while (at < end && !code) {
		/* Most lines are of these two. */
		if ((*at == '+' || *at == '-') && at[1] == ' ') {
			const char *rest = at + 2;
			code = read_event(h, &rest, *at == '+');
			if (__builtin_expect(*rest != '\n', 0))
				rest = memchr(rest, '\n', (size_t)(end - rest));
			at = rest + 1;
			continue;
		}
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		code = read_line(h, at, stop);
		at = stop + 1;
	}
	return code;
}

static const char *last_break(const char *data, size_t bytes)
{
	while (bytes && data[bytes - 1] != '\n')
		bytes--;
	return data + bytes;
}

static int read_lines(struct heaptrack *h)
{
	struct import_input *in = import_input(h->job);
	size_t want = 1;
	int code = 0;
	while (!code) {
		const char *data;
		size_t bytes = input_peek(in, want, &data);
		const char *end = last_break(data, bytes);
		if (end == data && bytes >= INPUT_PEEK_MAX)
			return tm_fail(h->err, -EBADMSG, "a line is longer than a MiB");
		if (end == data && bytes < want)
			break;
		if (end == data) {
			want = bytes + 1;
			continue;
		}
		want = 1;
		code = read_block(h, data, end);
		input_take(in, (size_t)(end - data));
		if (!code)
			code = import_tick(h->job, h->err);
	}
	const char *rest;
	if (!code && input_peek(in, 1, &rest) > 0)
		import_cut(h->job);
	return code;
}

/* ---- the end ---- */

static void say(struct heaptrack *h, const struct events_counts *counts)
{
	struct import_job *job = h->job;
	if (!h->raw && h->format > 0)
		import_fact(job, "heaptrack's interpreted files tell size and stack of a free, not "
				 "the block: there are no lifetimes.");
	import_fact(job,
		    "Temporary is what heaptrack calls so: freed by the next event of the "
		    "process, %s.",
		    h->raw || h->format == 0 ? "the same block" : "one of the same size and stack");
	if (h->print_temporary != h->temporary && !h->raw && h->format > 0)
		import_fact(job,
			    "heaptrack_print counts %" PRIu64 " as temporary, not %" PRIu64
			    ": it takes the first allocation for none.",
			    h->print_temporary, h->temporary);
	if (counts->unseen)
		import_fact(job,
			    "%" PRIu64 " allocations came on a live address: the old block "
			    "counts as freed unseen.",
			    counts->unseen);
	if (h->odd_frees)
		import_fact(job, "%" PRIu64 " frees have no allocation and were left out.",
			    h->odd_frees);
	if (h->odd_ids)
		import_fact(job, "%" PRIu64 " numbers refer to what is not in the file.",
			    h->odd_ids);
	if (h->odd_sizes)
		import_fact(job, "%" PRIu64 " sizes are beyond any memory and were cut.",
			    h->odd_sizes);
	if (h->odd_lines)
		import_fact(job, "%" PRIu64 " lines make no sense and were left out.",
			    h->odd_lines);
	if (h->late_clocks)
		import_fact(job,
			    "%" PRIu64 " times lie before the one before them and were left "
			    "out.",
			    h->late_clocks);
}

static int finish(struct heaptrack *h)
{
	struct events_counts counts;
	int code = begin(h);
	if (!code)
		code = heaptrack_names_finish(h);
	if (!code && h->raw)
		code = heaptrack_resolve(h);
	if (!code)
		code = events_finish(h->events, &counts, h->err);
	if (code)
		return code;
	say(h, &counts);
	import_count(h->job, counts.events, h->stack_count);
	const struct trace_end end = {.cause = TRACE_END_UNSAID,
				      .duration_ns = h->time_ms * 1000000,
				      .freed_unseen = counts.unseen,
				      .freed_older = counts.older};
	return import_end(h->job, &end, h->err);
}

static int read_heaptrack(struct import_job *job, struct tm_error *err)
{
	struct heaptrack *h = tm_alloc(sizeof *h);
	if (!h)
		return tm_fail(err, -ENOMEM, "no memory to import the file");
	h->job = job;
	h->err = err;
	h->sample_step_ms = SAMPLE_STEP_MS;
	int code = read_lines(h);
	if (!code)
		code = finish(h);
	events_free(h->events);
	heaptrack_names_done(h);
	heaptrack_piles_done(h);
	tm_free(h->infos);
	tm_free(h->alike.slots);
	tm_free(h->alike.first);
	tm_free(h->command);
	tm_free(h->program);
	tm_free(h);
	return code;
}

/* ---- is it one? ---- */

/* Without its first line (before 1.0): lines of known letters, some of them hex. */
static bool looks_old(const char *head, size_t bytes, bool whole)
{
	size_t lines = 0, numbers = 0;
	while (bytes && lines < 50) {
		const char *end = memchr(head, '\n', bytes);
		if (!end && !whole)
			break;
		size_t length = end ? (size_t)(end - head) : bytes;
		uint64_t value;
		const char *rest = head + 2;
		if (length && *head != '#') {
			if (length < 3 || head[1] != ' ' || !strchr("XxsitaIcRmS+-", *head))
				return false;
			lines++;
			numbers +=
				end && strchr("itac+-", *head) && heaptrack_number(&rest, &value);
		}
		head += length + (end != NULL);
		bytes -= length + (end != NULL);
	}
	return lines > 2 && numbers * 3 >= lines;
}

static bool recognise_heaptrack(const char *head, size_t bytes, bool whole)
{
	uint64_t version;
	const char *rest = head + 2;
	if (bytes > 3 && head[0] == 'v' && head[1] == ' ' && memchr(head, '\n', bytes))
		return heaptrack_number(&rest, &version) && version >> 24 == 0;
	return looks_old(head, bytes, whole);
}

const struct import_format import_heaptrack = {
	.name = "heaptrack",
	.title = "heaptrack, interpreted and raw, formats 0 to 3",
	.recognise = recognise_heaptrack,
	.read = read_heaptrack,
};
