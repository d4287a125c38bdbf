/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw files have addresses and the list of modules, anew after each dlopen. The
 * names are looked up here in the modules' files, on this machine or below the
 * sysroot. Nothing in the file says whether these are the ones that ran.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "import/heaptrack.h"
#include "symbols/symbols.h"

struct module_key {
	const char *path;
	uint64_t bias;
};

static bool same_module(const void *ctx, uint32_t id, const void *key)
{
	const struct trace_module *have = &((const struct heaptrack *)ctx)->modules[id];
	const struct module_key *wanted = key;
	return have->bias == wanted->bias && !strcmp(have->path, wanted->path);
}

uint32_t heaptrack_module_id(struct heaptrack *h, const char *path, uint64_t bias)
{
	const struct module_key key = {path, bias};
	uint64_t hash = hash_pair(hash_bytes(path, strlen(path)), bias);
	uint32_t id = idmap_find(&h->module_map, hash, same_module, h, &key);
	if (id != IDMAP_NONE)
		return id + 1;
	void *grown =
		heaptrack_room(h->modules, h->module_count, &h->module_room, sizeof *h->modules);
	if (!grown)
		return 0;
	h->modules = grown;
	id = (uint32_t)h->module_count;
	const char *kept = texts_add(&h->texts, path, strlen(path));
	if (!kept || idmap_add(&h->module_map, hash, id))
		return 0;
	h->modules[h->module_count++] = (struct trace_module){
		.module_id = id + 1, .bias = bias, .path = kept, .unmapped_ns = UINT64_MAX};
	return id + 1;
}

/* Only a file that has no names yet can turn out to be raw. */
static bool becomes_raw(struct heaptrack *h)
{
	if (h->begun && !h->raw) {
		h->odd_lines++;
		return false;
	}
	h->raw = true;
	return true;
}

int heaptrack_program(struct heaptrack *h, const char *rest, const char *end)
{
	const char *text;
	size_t length;
	if (!becomes_raw(h))
		return 0;
	if (h->program || !heaptrack_text(h, &rest, end, true, &text, &length)) {
		h->odd_lines++;
		return 0;
	}
	struct text copy = {0};
	text_put_bytes(&copy, text, strnlen(text, length));
	return text_take(&copy, &h->program) ? heaptrack_no_memory(h) : 0;
}

static int add_segment(struct heaptrack *h, uint32_t module_id, uint64_t start, uint64_t bytes)
{
	struct trace_module *module = &h->modules[module_id - 1];
	uint64_t end;
	if (__builtin_add_overflow(start, bytes, &end) || !bytes) {
		h->odd_lines += bytes > 0;
		return 0;
	}
	void *grown = heaptrack_room(h->segments, h->segment_count, &h->segment_room,
				     sizeof *h->segments);
	if (!grown)
		return heaptrack_no_memory(h);
	h->segments = grown;
	h->segments[h->segment_count++] =
		(struct heaptrack_segment){.start = start, .end = end, .module_id = module_id};
	h->segments_sorted = false;
	if (!module->end || start < module->start)
		module->start = start;
	if (end > module->end)
		module->end = end;
	return 0;
}

static const char *path_of(struct heaptrack *h, const char *text, size_t length)
{
	/* The program itself is called "x"; its path came before. */
	if (length == 1 && *text == 'x' && h->program)
		return h->program;
	return texts_add(&h->texts, text, length);
}

int heaptrack_module(struct heaptrack *h, const char *rest, const char *end)
{
	const char *text;
	size_t length;
	uint64_t bias, address, bytes;
	if (!becomes_raw(h))
		return 0;
	if (!heaptrack_text(h, &rest, end, false, &text, &length)) {
		h->odd_lines++;
		return 0;
	}
	if (length == 1 && *text == '-') {
		h->segment_count = 0;
		return 0;
	}
	if (!heaptrack_number(&rest, &bias)) {
		h->odd_lines++;
		return 0;
	}
	if (h->segment_count >= HEAPTRACK_IDS_MAX || h->module_count >= HEAPTRACK_IDS_MAX)
		return tm_fail(h->err, -EFBIG, "the file has too many modules");
	const char *path = path_of(h, text, length);
	uint32_t id = path ? heaptrack_module_id(h, path, bias) : 0;
	if (!id)
		return heaptrack_no_memory(h);
	int code = 0;
	while (!code && heaptrack_number(&rest, &address) && heaptrack_number(&rest, &bytes))
		code = add_segment(h, id, bias + address, bytes);
	return code;
}

static int by_start(const void *a, const void *b)
{
	const struct heaptrack_segment *x = a, *y = b;
	return (x->start > y->start) - (x->start < y->start);
}

uint32_t heaptrack_module_at(struct heaptrack *h, uint64_t address)
{
	if (!h->segments_sorted && h->segment_count)
		qsort(h->segments, h->segment_count, sizeof *h->segments, by_start);
	h->segments_sorted = true;
	size_t low = 0, high = h->segment_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (h->segments[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || address >= h->segments[low - 1].end)
		return 0;
	return h->segments[low - 1].module_id;
}

/* ---- names ---- */

static void warn(void *ctx, const char *sentence)
{
	struct heaptrack *h = ctx;
	import_fact(h->job, "%s.", sentence);
}

int heaptrack_resolve(struct heaptrack *h)
{
	struct symbols_options options = import_symbols(h->job);
	options.warn = warn;
	options.warn_ctx = h;
	struct symbols *symbols = NULL;
	struct symbols_request *requests = NULL;
	struct symbols_result found = {0};
	size_t count = 0;
	if (!h->stack_count || !h->raw_stacks)
		return 0;
	int code = symbols_new(&options, &symbols, h->err);
	if (!code)
		code = symbols_requests(h->raw_stacks, 1, h->stack_count + 1, &requests, &count,
					h->err);
	if (!code)
		code = symbols_resolve(symbols, h->modules, h->module_count, requests, count,
				       &found, h->err);
	if (!code) {
		code = trace_writer_symbols(import_writer(h->job), found.symbols, found.count);
		if (code)
			import_write_failed(code, h->err);
	}
	if (!code && found.unnamed)
		import_fact(h->job,
			    "%zu of %zu addresses have no name: their files are not here, "
			    "or are stripped; --sysroot says where they are.",
			    found.unnamed, count);
	tm_free(found.symbols);
	tm_free(requests);
	symbols_free(symbols);
	return code;
}
