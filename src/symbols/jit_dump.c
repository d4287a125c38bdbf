/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf's jitdump: records of code that was made and moved, with times. A code
 * that was seen at a time is the youngest at its address then: requests are
 * answered in order of time while the records are read.
 *
 * Known limits: dumps whose times are not CLOCK_MONOTONIC (flag bit 0: the
 * time-stamp counter) are read as if all requests came at their end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/memory.h"
#include "symbols/jit_paint.h"

#define DUMP_BYTES_MAX (4ull << 30)

enum {
	DUMP_MAGIC = 0x4a695444,
	RECORDS_MAX = 1 << 24,
	CODES_MAX = 1 << 20,     /* whose moves are followed */
	LINES_MAX = 1 << 16,     /* of one code */
	LINES_BYTES = 256 * 1024 /* of them, read */
};
enum { RECORD_LOAD = 0, RECORD_MOVE = 1, RECORD_DEBUG = 2 };

struct dump_header {
	uint32_t magic, version, total_size, machine, pad, pid;
	uint64_t time_ns, flags;
};
struct dump_record {
	uint32_t id, total_size;
	uint64_t time_ns;
};
struct dump_load {
	uint32_t pid, tid;
	uint64_t vma, address, bytes, index;
};
struct dump_move {
	uint32_t pid, tid;
	uint64_t vma, old_address, address, bytes, index;
};
struct dump_debug {
	uint64_t address, count;
};
struct dump_line {
	uint64_t address;
	uint32_t line, discriminator;
};

/* A code by its index, for moves. */
struct code {
	uint64_t index;
	struct paint_note note; /* name 0 = empty place */
};

/* A request in order of time. */
struct moment {
	uint64_t time_ns;
	size_t request;
};

struct dump {
	int fd;
	struct paint paint;
	struct code *codes; /* open addressing */
	size_t code_count, code_room;
	uint64_t debug_address, debug_offset; /* of the debug record before the next load */
	struct moment *by_time;               /* requests */
	size_t next;                          /* of them, the first that is not answered */
	struct paint_note *answers;           /* by request; age 0 = none */
};

/* ---- moves ---- */

static struct code *find_code(struct dump *dump, uint64_t index)
{
	size_t at = hash_u64(index) & (dump->code_room - 1);
	while (dump->codes[at].note.name && dump->codes[at].index != index)
		at = (at + 1) & (dump->code_room - 1);
	return &dump->codes[at];
}

static int grow_codes(struct dump *dump)
{
	struct code *old = dump->codes;
	size_t room = dump->code_room;
	dump->code_room = room ? room * 2 : 1024;
	dump->codes = tm_alloc_array(dump->code_room, sizeof *dump->codes);
	if (!dump->codes) {
		dump->codes = old;
		dump->code_room = room;
		return -ENOMEM;
	}
	for (size_t i = 0; i < room; i++)
		if (old[i].note.name)
			*find_code(dump, old[i].index) = old[i];
	tm_free(old);
	return 0;
}

static int keep_code(struct dump *dump, uint64_t index, const struct paint_note *note)
{
	if (dump->code_count * 2 >= dump->code_room) {
		if (dump->code_count >= CODES_MAX)
			return 0;
		int code = grow_codes(dump);
		if (code)
			return code;
	}
	struct code *code = find_code(dump, index);
	dump->code_count += !code->note.name;
	*code = (struct code){.index = index, .note = *note};
	return 0;
}

/* ---- records ---- */

static void answer(struct dump *dump, size_t request)
{
	const struct paint_note *note = paint_find(&dump->paint, request);
	if (note)
		dump->answers[request] = *note;
}

/* All requests from before a time see the code as it is now. */
static void answer_until(struct dump *dump, uint64_t time_ns)
{
	while (dump->next < dump->paint.count && dump->by_time[dump->next].time_ns < time_ns)
		answer(dump, dump->by_time[dump->next++].request);
}

/* The fixed part of a record's body; false if the record is too short for it. */
static bool read_body(const struct dump *dump, uint64_t offset, const struct dump_record *record,
		      void *body, size_t bytes)
{
	size_t got = 0;
	return record->total_size >= sizeof *record + bytes &&
	       !io_pread(dump->fd, body, bytes, offset + sizeof *record, &got) && got == bytes;
}

static int take_load(struct dump *dump, uint64_t offset, const struct dump_record *record)
{
	struct dump_load load;
	if (!read_body(dump, offset, record, &load, sizeof load))
		return 0;
	struct paint_note note = {.name = offset + sizeof *record + sizeof load,
				  .origin = load.address};
	if (dump->debug_offset && dump->debug_address == load.address)
		note.lines = dump->debug_offset;
	dump->debug_offset = 0;
	paint_range(&dump->paint, load.address, load.bytes, &note);
	return keep_code(dump, load.index, &note);
}

static void take_move(struct dump *dump, uint64_t offset, const struct dump_record *record)
{
	struct dump_move move;
	if (!dump->code_room || !read_body(dump, offset, record, &move, sizeof move))
		return;
	const struct code *code = find_code(dump, move.index);
	if (code->note.name)
		paint_range(&dump->paint, move.address, move.bytes, &code->note);
}

static void take_debug(struct dump *dump, uint64_t offset, const struct dump_record *record)
{
	struct dump_debug debug;
	if (!read_body(dump, offset, record, &debug, sizeof debug))
		return;
	dump->debug_address = debug.address;
	dump->debug_offset = offset;
}

static int read_records(struct dump *dump, uint64_t offset, bool timed)
{
	int code = 0;
	for (uint32_t i = 0; i < RECORDS_MAX && !code && offset < DUMP_BYTES_MAX; i++) {
		struct dump_record record;
		size_t got = 0;
		code = io_pread(dump->fd, &record, sizeof record, offset, &got);
		if (code || got < sizeof record || record.total_size < sizeof record)
			return code;
		if (timed)
			answer_until(dump, record.time_ns);
		if (record.id == RECORD_LOAD)
			code = take_load(dump, offset, &record);
		else if (record.id == RECORD_MOVE)
			take_move(dump, offset, &record);
		else if (record.id == RECORD_DEBUG)
			take_debug(dump, offset, &record);
		offset += record.total_size;
	}
	return code;
}

/* ---- lines ---- */

/* Bytes of the terminated text at `at`, with its end; 0 if it has none. */
static size_t text_bytes(const char *at, const char *end)
{
	const char *stop = memchr(at, '\0', (size_t)(end - at));
	return stop ? (size_t)(stop - at) + 1 : 0;
}

/* The last line that begins at or before an address of the code as it was made. */
static void find_line(const char *data, size_t bytes, uint64_t count, uint64_t address,
		      struct jit_name *name)
{
	const char *at = data, *end = data + bytes, *file = NULL;
	uint64_t best = 0;
	bool found = false;
	for (uint64_t i = 0; i < count && i < LINES_MAX; i++) {
		struct dump_line line;
		if ((size_t)(end - at) < sizeof line)
			return;
		memcpy(&line, at, sizeof line);
		at += sizeof line;
		size_t length = text_bytes(at, end);
		if (!length)
			return;
		/* "\xff": the same file as before */
		if (*at && strcmp(at, "\xff") != 0)
			file = at;
		if (file && line.address <= address && (!found || line.address >= best)) {
			size_t fits = strnlen(file, JIT_NAME_MAX - 1);
			memcpy(name->file, file, fits);
			name->file[fits] = '\0';
			name->line = line.line;
			best = line.address;
			found = true;
		}
		at += length;
	}
}

static int add_line(const struct dump *dump, const struct paint_note *note, uint64_t address,
		    struct jit_name *name)
{
	struct dump_record record;
	struct dump_debug debug;
	size_t got = 0;
	int code = io_pread(dump->fd, &record, sizeof record, note->lines, &got);
	if (code || got < sizeof record ||
	    !read_body(dump, note->lines, &record, &debug, sizeof debug))
		return code;
	size_t bytes = record.total_size - sizeof record - sizeof debug;
	bytes = bytes < LINES_BYTES ? bytes : LINES_BYTES;
	char *data = tm_alloc(bytes + 1);
	if (!data)
		return -ENOMEM;
	code = io_pread(dump->fd, data, bytes, note->lines + sizeof record + sizeof debug, &got);
	if (!code)
		find_line(data, got, debug.count, address - note->start + note->origin, name);
	tm_free(data);
	return code;
}

/* ---- all of it ---- */

static int tell(const struct dump *dump, size_t request, struct jit_name *name, jit_found_fn found,
		void *ctx)
{
	const struct paint_note *note = &dump->answers[request];
	size_t got = 0;
	if (!note->age)
		return 0;
	char raw[2 * JIT_NAME_MAX];
	int code = io_pread(dump->fd, raw, sizeof raw, note->name, &got);
	if (code)
		return code;
	jit_readable(raw, strnlen(raw, got), name);
	if (note->lines)
		code = add_line(dump, note, dump->paint.requests[request].address, name);
	return code ? code : found(ctx, request, name);
}

static int by_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static int read_header(int fd, struct dump_header *header)
{
	size_t got = 0;
	int code = io_pread(fd, header, sizeof *header, 0, &got);
	if (code)
		return code;
	return got == sizeof *header && header->magic == DUMP_MAGIC &&
			       header->total_size >= sizeof *header
		       ? 0
		       : -EBADMSG;
}

int jit_read_dump(int fd, const struct jit_request *requests, size_t count, jit_found_fn found,
		  void *ctx)
{
	struct dump dump = {.fd = fd};
	struct dump_header header;
	int code = read_header(fd, &header);
	if (code)
		return code;
	struct jit_name *name = tm_alloc(sizeof *name);
	code = paint_init(&dump.paint, requests, count);
	dump.by_time = tm_alloc_array(count + 1, sizeof *dump.by_time);
	dump.answers = tm_alloc_array(count + 1, sizeof *dump.answers);
	if (!name || !dump.by_time || !dump.answers)
		code = -ENOMEM;
	if (!code) {
		for (size_t i = 0; i < count; i++)
			dump.by_time[i] = (struct moment){requests[i].time_ns, i};
		qsort(dump.by_time, count, sizeof *dump.by_time, by_time);
		code = read_records(&dump, header.total_size, !(header.flags & 1));
	}
	/* What was seen before its record, by clocks that differ a little, is what came after. */
	for (size_t i = 0; i < count && !code; i++) {
		if (!dump.answers[i].age)
			answer(&dump, i);
		code = tell(&dump, i, name, found, ctx);
	}
	paint_done(&dump.paint);
	tm_free(dump.codes);
	tm_free(dump.by_time);
	tm_free(dump.answers);
	tm_free(name);
	return code;
}
