/* SPDX-License-Identifier: Apache-2.0 */
#include "import/mapped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "symbols/symbols.h"
#include "trace/texts.h"

enum { MAPPINGS_MAX = 1 << 20, REQUESTS_MAX = 1 << 24 };
/* Programs that are linked to a fixed place begin below this; others are far above. */
#define FIXED_BELOW 0x10000000ull

struct mapping {
	uint64_t start, end, offset;
	const char *path;
	uint32_t module_id; /* 0 = none yet */
};

struct mapped {
	struct import_job *job;
	struct texts texts;
	struct mapping *mappings; /* by start once sorted */
	size_t count, room;
	bool sorted;
	struct trace_module *modules;
	size_t module_count, module_room;
	struct symbols_request *requests;
	size_t request_count, request_room;
	const char *program;
};

static int no_memory(struct tm_error *err)
{
	return tm_fail(err, -ENOMEM, "no memory for the modules of the profile");
}

int mapped_new(struct import_job *job, struct mapped **ret_mapped, struct tm_error *err)
{
	struct mapped *m = tm_alloc(sizeof *m);
	if (!m)
		return no_memory(err);
	m->job = job;
	*ret_mapped = m;
	return 0;
}

struct mapped *mapped_free(struct mapped *m)
{
	if (!m)
		return NULL;
	texts_done(&m->texts);
	tm_free(m->mappings);
	tm_free(m->modules);
	tm_free(m->requests);
	return tm_free(m);
}

static void *with_room(void *list, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return list;
	void *grown = tm_grow_array(list, *room * 2 + 64, bytes);
	if (grown)
		*room = *room * 2 + 64;
	return grown;
}

const char *mapped_program(const struct mapped *m)
{
	return m->program ? m->program : "";
}

/* ---- lines ---- */

static bool take_hex(const char *line, size_t length, size_t *at, uint64_t *ret)
{
	size_t begin = *at;
	*ret = 0;
	for (; *at < length && *at - begin < 16; ++*at) {
		char c = line[*at], lower = (char)(c | 0x20);
		if (c >= '0' && c <= '9')
			*ret = *ret << 4 | (uint64_t)(c - '0');
		else if (lower >= 'a' && lower <= 'f')
			*ret = *ret << 4 | (uint64_t)(lower - 'a' + 10);
		else
			break;
	}
	return *at > begin;
}

/* "55d0-55e0 r-xp 00002000 08:01 123  /path" */
static bool parse(const char *line, size_t length, struct mapping *ret, size_t *ret_path)
{
	size_t at = 0;
	while (at < length && line[at] == ' ')
		at++;
	if (!take_hex(line, length, &at, &ret->start) || at >= length || line[at++] != '-' ||
	    !take_hex(line, length, &at, &ret->end) || at + 6 >= length || line[at] != ' ')
		return false;
	at += 6; /* the rights between blanks */
	if (!take_hex(line, length, &at, &ret->offset))
		return false;
	/* Device and inode, then the path. */
	for (int i = 0; i < 2; i++) {
		while (at < length && line[at] == ' ')
			at++;
		while (at < length && line[at] != ' ')
			at++;
	}
	while (at < length && line[at] == ' ')
		at++;
	*ret_path = at;
	return ret->end > ret->start && at < length && line[at] == '/';
}

int mapped_line(struct mapped *m, const char *line, size_t length, struct tm_error *err)
{
	struct mapping mapping = {0};
	size_t path;
	if (!parse(line, length, &mapping, &path) || m->count == MAPPINGS_MAX)
		return 0;
	size_t bytes = length - path;
	/* The same file lies in several places, one after the other. */
	const char *last = m->count ? m->mappings[m->count - 1].path : NULL;
	bool same = last && !strncmp(last, line + path, bytes) && !last[bytes];
	mapping.path = same ? last : texts_add(&m->texts, line + path, bytes);
	void *grown = with_room(m->mappings, m->count, &m->room, sizeof *m->mappings);
	if (!grown || !mapping.path)
		return no_memory(err);
	m->mappings = grown;
	m->mappings[m->count++] = mapping;
	m->program = m->program ? m->program : mapping.path;
	m->sorted = false;
	return 0;
}

/* ---- frames ---- */

static int by_start(const void *a, const void *b)
{
	uint64_t x = ((const struct mapping *)a)->start, y = ((const struct mapping *)b)->start;
	return x < y ? -1 : x > y;
}

static struct mapping *find(struct mapped *m, uint64_t address)
{
	if (!m->sorted && m->count)
		qsort(m->mappings, m->count, sizeof *m->mappings, by_start);
	m->sorted = true;
	size_t low = 0, high = m->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (m->mappings[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < m->mappings[low - 1].end ? &m->mappings[low - 1] : NULL;
}

static int make_module(struct mapped *m, struct frames *frames, struct mapping *mapping,
		       struct tm_error *err)
{
	/* The file's first page is mapped first; what lies below it belongs to others. */
	uint64_t base = mapping->start - mapping->offset;
	struct trace_module module = {.bias = base < FIXED_BELOW ? 0 : base,
				      .start = mapping->start,
				      .end = mapping->end,
				      .unmapped_ns = UINT64_MAX,
				      .path = mapping->path};
	const struct frames_module wanted = {
		.path = frames_text(mapping->path, strlen(mapping->path)),
		.start = module.start,
		.end = module.end,
		.bias = module.bias,
	};
	int code = frames_module(frames, &wanted, &mapping->module_id, err);
	if (code)
		return code;
	module.module_id = mapping->module_id;
	void *grown = with_room(m->modules, m->module_count, &m->module_room, sizeof *m->modules);
	if (!grown)
		return no_memory(err);
	m->modules = grown;
	m->modules[m->module_count++] = module;
	return 0;
}

int mapped_frame(struct mapped *m, struct frames *frames, uint64_t address, uint32_t *ret_frame_id,
		 struct tm_error *err)
{
	address = address ? address - 1 : 0;
	struct mapping *mapping = find(m, address);
	if (!mapping)
		return frames_add(frames, 0, address, NULL, 0, ret_frame_id, err);
	int code = mapping->module_id ? 0 : make_module(m, frames, mapping, err);
	if (code)
		return code;
	void *grown =
		with_room(m->requests, m->request_count, &m->request_room, sizeof *m->requests);
	if (!grown)
		return no_memory(err);
	m->requests = grown;
	/* Many come again; they are joined when there are too many, and at the end. */
	if (m->request_count < REQUESTS_MAX)
		m->requests[m->request_count++] = (struct symbols_request){
			.module_id = mapping->module_id, .address = address};
	return frames_add(frames, mapping->module_id, address, NULL, 0, ret_frame_id, err);
}

/* ---- names ---- */

static int by_address(const void *a, const void *b)
{
	const struct symbols_request *x = a, *y = b;
	if (x->module_id != y->module_id)
		return x->module_id < y->module_id ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static size_t join(struct symbols_request *list, size_t count)
{
	size_t kept = 0;
	if (count)
		qsort(list, count, sizeof *list, by_address);
	for (size_t i = 0; i < count; i++)
		if (!kept || by_address(&list[kept - 1], &list[i]))
			list[kept++] = list[i];
	return kept;
}

int mapped_names(struct mapped *m, struct tm_error *err)
{
	const struct symbols_options options = import_symbols(m->job);
	struct symbols *symbols = NULL;
	struct symbols_result found = {0};
	m->request_count = join(m->requests, m->request_count);
	if (!m->request_count)
		return 0;
	int code = symbols_new(&options, &symbols, err);
	if (!code)
		code = symbols_resolve(symbols, m->modules, m->module_count, m->requests,
				       m->request_count, &found, err);
	if (!code) {
		code = trace_writer_symbols(import_writer(m->job), found.symbols, found.count);
		if (code)
			import_write_failed(code, err);
	}
	if (!code && found.unnamed)
		import_fact(m->job,
			    "%zu of %zu addresses have no name: their files are not here, or are "
			    "stripped; --sysroot says where they are.",
			    found.unnamed, m->request_count);
	tm_free(found.symbols);
	symbols_free(symbols);
	return code;
}
