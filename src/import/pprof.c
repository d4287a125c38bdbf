/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's protobuf (profile.proto): what Go, Node, Rust, tcmalloc and many others
 * write, packed by gzip or plain. Tables may stand before or behind the samples
 * that use them, so the file is read twice: tables first, then samples.
 *
 * Known limits: labels other than "bytes" are left out; so are samples that a
 * profile of the CPU has.
 */
#include "import/pprof.h"

#include <errno.h>
#include <string.h>

#include "import/formats.h"
#include "import/frames.h"
#include "import/profile.h"

enum { FRAMES_MAX = 4096, COMMENTS_MAX = 8 };

struct pprof {
	struct import_job *job;
	struct pprof_tables tables;
	struct frames *frames;
	struct profile *profile;
	/* Which value of a sample is what; -1: none. */
	int live_bytes, live_blocks, alloc_bytes, alloc_blocks;
	uint64_t odd;
};

/* ---- what the values are ---- */

static bool is_type(const struct pprof *p, size_t index, const char *type)
{
	struct frames_text text = pprof_string(&p->tables, p->tables.types[index].type);
	return text.length == strlen(type) && !memcmp(text.data, type, text.length);
}

static bool is_unit(const struct pprof *p, size_t index, const char *unit)
{
	struct frames_text text = pprof_string(&p->tables, p->tables.types[index].unit);
	return text.length == strlen(unit) && !memcmp(text.data, unit, text.length);
}

static int find_type(const struct pprof *p, const char *const names[])
{
	for (; *names; names++)
		for (size_t i = 0; i < p->tables.type_count; i++)
			if (is_type(p, i, *names))
				return (int)i;
	return -1;
}

static int choose_types(struct pprof *p, struct tm_error *err)
{
	static const char *const live_bytes[] = {"inuse_space", "inuse_bytes", "space", NULL};
	static const char *const live_blocks[] = {"inuse_objects", "inuse_count", "objects", NULL};
	static const char *const alloc_bytes[] = {"alloc_space", "alloc_bytes", "allocated_bytes",
						  NULL};
	static const char *const alloc_blocks[] = {"alloc_objects", "alloc_count", "allocations",
						   NULL};
	p->live_bytes = find_type(p, live_bytes);
	p->live_blocks = find_type(p, live_blocks);
	p->alloc_bytes = find_type(p, alloc_bytes);
	p->alloc_blocks = find_type(p, alloc_blocks);
	/* Whatever is counted in bytes is better than nothing. */
	for (size_t i = 0; p->live_bytes < 0 && p->alloc_bytes < 0 && i < p->tables.type_count; i++)
		if (is_unit(p, i, "bytes") || is_unit(p, i, "byte"))
			p->live_bytes = (int)i;
	if (p->live_bytes >= 0 || p->alloc_bytes >= 0)
		return 0;
	return tm_fail(err, -EBADMSG,
		       "it is a pprof profile without bytes of memory (of the CPU, of locks?): ask "
		       "the program for its heap profile");
}

static unsigned unknown_of(const struct pprof *p)
{
	unsigned unknown = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_THREADS | TRACE_UNKNOWN_TIMES |
			   TRACE_UNKNOWN_EVENTS | TRACE_UNKNOWN_SIZES | TRACE_UNKNOWN_PEAK |
			   TRACE_UNKNOWN_TEMPORARY;
	if (p->live_bytes < 0)
		unknown |= TRACE_UNKNOWN_FREES;
	if (p->alloc_bytes < 0)
		unknown |= TRACE_UNKNOWN_ALLOCATIONS;
	if (p->live_blocks < 0 && p->alloc_blocks < 0)
		unknown |= TRACE_UNKNOWN_COUNTS;
	return unknown;
}

/* ---- stacks ---- */

static int add_mapping(struct pprof *p, struct pprof_mapping *mapping, struct tm_error *err)
{
	uint8_t build_id[64];
	struct frames_text text = pprof_string(&p->tables, mapping->build_id);
	const struct frames_module module = {
		.path = pprof_string(&p->tables, mapping->file),
		.start = mapping->start,
		.end = mapping->limit,
		.bias = mapping->start - mapping->offset,
		.build_id = build_id,
		.build_id_bytes = pprof_hex(text, build_id, sizeof build_id),
	};
	return frames_module(p->frames, &module, &mapping->module_id, err);
}

static int module_of(struct pprof *p, uint64_t mapping_id, uint32_t *ret_id, struct tm_error *err)
{
	*ret_id = 0;
	struct pprof_mapping *mapping = pprof_mapping(&p->tables, mapping_id);
	if (!mapping || !pprof_string(&p->tables, mapping->file).length)
		return 0;
	int code = mapping->module_id ? 0 : add_mapping(p, mapping, err);
	*ret_id = mapping->module_id;
	return code;
}

static int frame_of(struct pprof *p, struct pprof_location *location, struct tm_error *err)
{
	enum { LINES_MAX = 64 };
	struct frames_name names[LINES_MAX];
	uint32_t module_id, count = 0;
	if (location->frame_known)
		return 0;
	for (uint32_t i = 0; i < location->line_count && count < LINES_MAX; i++) {
		const struct pprof_line *line = &p->tables.lines[location->first_line + i];
		const struct pprof_function *function =
			pprof_function(&p->tables, line->function_id);
		if (!function)
			continue;
		names[count++] = (struct frames_name){
			.function = pprof_string(&p->tables, function->name),
			.file = pprof_string(&p->tables, function->file),
			.line = line->line > 0 && line->line <= UINT32_MAX ? (uint32_t)line->line
									   : 0,
		};
	}
	int code = module_of(p, location->mapping_id, &module_id, err);
	if (!code)
		code = frames_add(p->frames, module_id, location->address, names, count,
				  &location->frame_id, err);
	location->frame_known = !code;
	return code;
}

/* Locations have the innermost first; frames beyond any sense are left out at the outer end. */
static int stack_of(struct pprof *p, struct pprof_span ids, uint32_t *ret_stack_id,
		    struct tm_error *err)
{
	uint64_t list[FRAMES_MAX], id;
	size_t count = 0;
	*ret_stack_id = 0;
	while (count < FRAMES_MAX && pprof_next_number(&ids, &id))
		list[count++] = id;
	while (count > 0) {
		struct pprof_location *location = pprof_location(&p->tables, list[--count]);
		if (!location) {
			p->odd++;
			continue;
		}
		int code = frame_of(p, location, err);
		if (!code)
			code = frames_stack(p->frames, *ret_stack_id, location->frame_id,
					    ret_stack_id, err);
		if (code)
			return code;
	}
	return *ret_stack_id ? 0 : frames_no_stack(p->frames, ret_stack_id, err);
}

/* ---- samples ---- */

struct values {
	uint64_t of[PPROF_TYPES_MAX];
};

static uint64_t value_of(const struct values *values, int index)
{
	return index < 0 ? 0 : values->of[index];
}

static int add_sample(struct pprof *p, const struct pprof_sample *sample, struct tm_error *err)
{
	struct values values = {0};
	struct pprof_span list = sample->values;
	uint64_t number;
	for (size_t i = 0; i < PPROF_TYPES_MAX && pprof_next_number(&list, &number); i++) {
		/* Signed: what is below 0 makes no sense. */
		p->odd += (int64_t)number < 0;
		values.of[i] = (int64_t)number < 0 ? 0 : number;
	}
	struct profile_row row = {
		.allocations = PROFILE_UNKNOWN,
		.live_blocks = value_of(&values, p->live_blocks),
		.live_bytes = value_of(&values, p->live_bytes),
		.block_bytes = sample->block_bytes,
	};
	if (p->alloc_bytes >= 0) {
		row.allocations = value_of(&values, p->alloc_blocks);
		row.allocated_bytes = value_of(&values, p->alloc_bytes);
	}
	if (p->live_bytes < 0) {
		row.live_blocks = row.allocations;
		row.live_bytes = row.allocated_bytes;
	}
	if (!row.live_bytes && !row.live_blocks &&
	    (row.allocations == PROFILE_UNKNOWN || (!row.allocations && !row.allocated_bytes)))
		return 0;
	int code = stack_of(p, sample->locations, &row.stack_id, err);
	return code ? code : profile_row(p->profile, &row, err);
}

static int on_sample(void *ctx, struct pprof_span message, struct tm_error *err)
{
	struct pprof *p = ctx;
	struct pprof_sample sample;
	if (!pprof_read_sample(&p->tables, message, &sample)) {
		p->odd++;
		return 0;
	}
	int code = add_sample(p, &sample, err);
	return code ? code : import_tick(p->job, err);
}

/* ---- all ---- */

static int begin(struct pprof *p, struct tm_error *err)
{
	char program[1024] = "";
	const struct pprof_tables *tables = &p->tables;
	if (tables->mapping_count) {
		struct frames_text file = pprof_string(tables, tables->mappings[0].file);
		size_t bytes = file.length < sizeof program ? file.length : sizeof program - 1;
		if (bytes)
			memcpy(program, file.data, bytes);
	}
	uint64_t start_ns =
		tables->time_ns > tables->duration_ns ? tables->time_ns - tables->duration_ns : 0;
	const struct trace_meta meta = {.origin = "pprof",
					.program = program,
					.start_unix_ns = start_ns,
					.unknown = unknown_of(p)};
	return import_begin(p->job, &meta, err);
}

static void say_facts(struct pprof *p)
{
	for (size_t i = 0; i < p->tables.comment_count && i < COMMENTS_MAX; i++) {
		struct frames_text text = pprof_string(&p->tables, p->tables.comments[i]);
		if (text.length)
			import_fact(p->job, "Its comment: %.*s",
				    (int)(text.length < 500 ? text.length : 500), text.data);
	}
	if (p->alloc_bytes < 0 && p->live_bytes >= 0 && p->tables.type_count > 1)
		import_fact(p->job, "It has %zu kinds of values; those of memory in use are shown.",
			    p->tables.type_count);
	p->odd += p->tables.odd;
	if (p->odd)
		import_fact(p->job, "%llu parts of it made no sense and were left out.",
			    (unsigned long long)p->odd);
}

static int read_samples(struct pprof *p, struct tm_error *err)
{
	int code = begin(p, err);
	if (!code)
		code = frames_new(p->job, &p->frames, err);
	if (!code)
		code = profile_new(p->job, &p->profile, err);
	if (!code)
		code = profile_snapshot(p->profile, p->tables.duration_ns, err);
	if (!code)
		code = input_rewind(import_input(p->job), err);
	if (!code)
		code = pprof_read(&p->tables, import_input(p->job), PPROF_SAMPLE, on_sample, p,
				  err);
	if (!code)
		code = profile_close(p->profile, err);
	if (!code)
		code = frames_finish(p->frames, err);
	if (code)
		return code;
	if (p->tables.cut)
		import_cut(p->job);
	say_facts(p);
	return profile_end(p->profile, p->frames, p->tables.duration_ns, err);
}

static int read_pprof(struct import_job *job, struct tm_error *err)
{
	struct pprof p = {.job = job};
	int code = pprof_read_tables(&p.tables, import_input(job), err);
	if (!code)
		code = choose_types(&p, err);
	if (!code)
		code = read_samples(&p, err);
	profile_free(p.profile);
	frames_free(p.frames);
	pprof_tables_done(&p.tables);
	return code;
}

const struct import_format import_pprof = {
	.name = "pprof",
	.title = "pprof protobuf: memory in use and allocated",
	.recognise = pprof_recognise,
	.read = read_pprof,
};
