/* SPDX-License-Identifier: Apache-2.0 */
#include "import/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/memory.h"
#include "symbols/symbols.h"
#include "trace/texts.h"

enum {
	NAMES_MAX = 64,      /* of one address: what the views follow */
	IDS_MAX = 1 << 26,   /* of frames and of stacks: what the views can name */
	TEXT_MAX = 16 << 10, /* of one name */
	SYMBOL_BATCH = 4096,
};
/* Made-up addresses: far from any that a program has, in steps that no lookup mixes up. */
#define MADE_UP_FIRST 0x4000000000000000ull
#define MADE_UP_STEP  16

struct frame {
	uint32_t module_id;
	uint64_t address;
	const struct trace_symbol *first; /* of its names; NULL: it has an address of its own */
	uint32_t count;
};

struct frames {
	struct import_job *job;
	struct texts texts;
	struct idmap text_map, module_map, frame_map, stack_map;
	const char **text_list;
	size_t text_count, text_room;
	struct trace_module *modules; /* by id - 1 */
	size_t module_count, module_room;
	struct frame *frames; /* by id */
	size_t frame_count, frame_room;
	struct stack_key {
		uint32_t parent, frame;
	} * stacks; /* by id - 1 */
	size_t stack_count, stack_room;
	struct symbol_chunk *chunks; /* names of all frames */
	uint32_t no_stack;
};

/* Symbols stay where they are: frames point to them. */
struct symbol_chunk {
	struct symbol_chunk *next;
	size_t used, written;
	struct trace_symbol symbols[SYMBOL_BATCH];
};

static int no_memory(struct tm_error *err)
{
	return tm_fail(err, -ENOMEM, "no memory for the names of the file");
}

static int too_many(struct tm_error *err)
{
	return tm_fail(err, -EFBIG, "the file has too many names or stacks");
}

int frames_new(struct import_job *job, struct frames **ret_frames, struct tm_error *err)
{
	struct frames *f = tm_alloc(sizeof *f);
	if (!f)
		return no_memory(err);
	f->job = job;
	*ret_frames = f;
	return 0;
}

struct frames *frames_free(struct frames *f)
{
	if (!f)
		return NULL;
	while (f->chunks) {
		struct symbol_chunk *next = f->chunks->next;
		tm_free(f->chunks);
		f->chunks = next;
	}
	texts_done(&f->texts);
	idmap_done(&f->text_map);
	idmap_done(&f->module_map);
	idmap_done(&f->frame_map);
	idmap_done(&f->stack_map);
	tm_free((void *)f->text_list);
	tm_free(f->modules);
	tm_free(f->frames);
	tm_free(f->stacks);
	return tm_free(f);
}

static void *with_room(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	void *grown = tm_grow_array(array, *room * 2 + 256, bytes);
	if (grown)
		*room = *room * 2 + 256;
	return grown;
}

/* ---- texts ---- */

static bool same_text(const void *ctx, uint32_t id, const void *key)
{
	const struct frames_text *wanted = key;
	const char *have = ((const struct frames *)ctx)->text_list[id];
	return !strncmp(have, wanted->data, wanted->length) && !have[wanted->length];
}

/* The same pointer for the same text; *ret NULL for none. */
static int intern(struct frames *f, struct frames_text text, const char **ret)
{
	*ret = NULL;
	if (!text.data || !text.length)
		return 0;
	const char *end = memchr(text.data, 0, text.length);
	if (end)
		text.length = (size_t)(end - text.data);
	if (text.length > TEXT_MAX)
		text.length = TEXT_MAX;
	uint64_t hash = hash_bytes(text.data, text.length);
	uint32_t id = idmap_find(&f->text_map, hash, same_text, f, &text);
	if (id == IDMAP_NONE) {
		void *grown = with_room((void *)f->text_list, f->text_count, &f->text_room,
					sizeof *f->text_list);
		if (!grown)
			return -ENOMEM;
		f->text_list = grown;
		id = (uint32_t)f->text_count;
		f->text_list[id] = texts_add(&f->texts, text.data, text.length);
		if (!f->text_list[id] || idmap_add(&f->text_map, hash, id))
			return -ENOMEM;
		f->text_count++;
	}
	*ret = f->text_list[id];
	return 0;
}

/* ---- modules ---- */

static bool same_module(const void *ctx, uint32_t id, const void *key)
{
	const struct trace_module *have = &((const struct frames *)ctx)->modules[id];
	const struct trace_module *wanted = key;
	return have->path == wanted->path && have->bias == wanted->bias &&
	       have->build_id_bytes == wanted->build_id_bytes &&
	       !memcmp(have->build_id, wanted->build_id, wanted->build_id_bytes);
}

static int fill_module(struct frames *f, const struct frames_module *from, struct trace_module *to)
{
	*to = (struct trace_module){.bias = from->bias,
				    .start = from->start,
				    .end = from->end > from->start ? from->end : from->start,
				    .unmapped_ns = UINT64_MAX};
	to->build_id_bytes = from->build_id_bytes < sizeof to->build_id ? from->build_id_bytes
									: sizeof to->build_id;
	if (to->build_id_bytes)
		memcpy(to->build_id, from->build_id, to->build_id_bytes);
	int code = intern(f, from->path, &to->path);
	if (!code && !to->path)
		to->path = "";
	return code;
}

int frames_module(struct frames *f, const struct frames_module *module, uint32_t *ret_module_id,
		  struct tm_error *err)
{
	struct trace_module wanted;
	if (fill_module(f, module, &wanted))
		return no_memory(err);
	uint64_t hash = hash_pair((uint64_t)(uintptr_t)wanted.path, wanted.bias);
	uint32_t id = idmap_find(&f->module_map, hash, same_module, f, &wanted);
	if (id == IDMAP_NONE) {
		if (f->module_count >= IDS_MAX)
			return too_many(err);
		void *grown =
			with_room(f->modules, f->module_count, &f->module_room, sizeof *f->modules);
		if (!grown)
			return no_memory(err);
		f->modules = grown;
		id = (uint32_t)f->module_count;
		if (idmap_add(&f->module_map, hash, id))
			return no_memory(err);
		wanted.module_id = id + 1;
		f->modules[f->module_count++] = wanted;
	}
	*ret_module_id = id + 1;
	return 0;
}

const char *frames_module_path(const struct frames *f, uint32_t module_id)
{
	return module_id && module_id <= f->module_count ? f->modules[module_id - 1].path : NULL;
}

/* Its addresses are all that is known of where it was. */
static void widen_module(struct frames *f, uint32_t module_id, uint64_t address)
{
	struct trace_module *module = &f->modules[module_id - 1];
	if (module->end == 0) {
		module->start = address;
		module->end = address + 1;
	}
	if (address < module->start)
		module->start = address;
	if (address >= module->end)
		module->end = address + 1;
}

/* ---- frames ---- */

static bool same_names(const struct trace_symbol *a, const struct trace_symbol *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (a[i].function != b[i].function || a[i].file != b[i].file ||
		    a[i].line != b[i].line || a[i].column != b[i].column)
			return false;
	return true;
}

static bool same_frame(const void *ctx, uint32_t id, const void *key)
{
	const struct frame *have = &((const struct frames *)ctx)->frames[id];
	const struct frame *wanted = key;
	if (have->module_id != wanted->module_id || !have->first != !wanted->first)
		return false;
	if (!wanted->first)
		return have->address == wanted->address;
	return have->count == wanted->count &&
	       same_names(have->first, wanted->first, wanted->count);
}

static int name_symbols(struct frames *f, const struct frames_name *names, size_t count,
			struct trace_symbol *out)
{
	for (size_t i = 0; i < count; i++) {
		out[i] = (struct trace_symbol){.line = names[i].line,
					       .column = names[i].column,
					       .inlined = i + 1 < count ? TRACE_INLINED
									: TRACE_INLINED_NO};
		if (intern(f, names[i].function, &out[i].function) ||
		    intern(f, names[i].file, &out[i].file))
			return -ENOMEM;
		if (out[i].function)
			out[i].source = out[i].file ? TRACE_SYM_DWARF : TRACE_SYM_SYMTAB;
	}
	return 0;
}

/* A place that stays for these names. */
static struct trace_symbol *keep_symbols(struct frames *f, const struct trace_symbol *symbols,
					 size_t count)
{
	struct symbol_chunk *chunk = f->chunks;
	if (!chunk || chunk->used + count > SYMBOL_BATCH) {
		chunk = tm_alloc(sizeof *chunk);
		if (!chunk)
			return NULL;
		chunk->next = f->chunks;
		f->chunks = chunk;
	}
	struct trace_symbol *kept = &chunk->symbols[chunk->used];
	memcpy(kept, symbols, count * sizeof *symbols);
	chunk->used += count;
	return kept;
}

static uint64_t hash_frame(const struct frame *frame)
{
	uint64_t hash = hash_pair(frame->module_id, frame->address);
	for (uint32_t i = 0; frame->first && i < frame->count; i++)
		hash = hash_pair(hash,
				 hash_pair((uint64_t)(uintptr_t)frame->first[i].function,
					   hash_pair((uint64_t)(uintptr_t)frame->first[i].file,
						     frame->first[i].line)));
	return hash;
}

static int make_frame(struct frames *f, struct frame wanted, uint64_t hash,
		      const struct trace_symbol *symbols, size_t count, struct tm_error *err)
{
	if (f->frame_count >= IDS_MAX)
		return too_many(err);
	void *grown = with_room(f->frames, f->frame_count, &f->frame_room, sizeof *f->frames);
	if (!grown)
		return no_memory(err);
	f->frames = grown;
	uint32_t id = (uint32_t)f->frame_count;
	bool made_up = wanted.first != NULL;
	if (made_up)
		wanted.address = MADE_UP_FIRST + (uint64_t)id * MADE_UP_STEP;
	struct trace_symbol *kept = count ? keep_symbols(f, symbols, count) : NULL;
	if (count && !kept)
		return no_memory(err);
	for (size_t i = 0; i < count; i++) {
		kept[i].module_id = wanted.module_id;
		kept[i].address = wanted.address;
	}
	wanted.first = made_up ? kept : NULL;
	if (idmap_add(&f->frame_map, hash, id))
		return no_memory(err);
	if (wanted.module_id)
		widen_module(f, wanted.module_id, wanted.address);
	f->frames[f->frame_count++] = wanted;
	return 0;
}

int frames_add(struct frames *f, uint32_t module_id, uint64_t address,
	       const struct frames_name *names, size_t count, uint32_t *ret_frame_id,
	       struct tm_error *err)
{
	struct trace_symbol symbols[NAMES_MAX];
	static const struct frames_name nameless;
	if (count > NAMES_MAX)
		count = NAMES_MAX;
	if (!address && !count) {
		names = &nameless;
		count = 1;
	}
	if (module_id > f->module_count)
		return tm_fail(err, -EBADMSG, "a frame is in a module that is not in the file");
	if (name_symbols(f, names, count, symbols))
		return no_memory(err);
	struct frame wanted = {.module_id = module_id,
			       .address = address & ~TRACE_PC_EXACT,
			       .first = address ? NULL : symbols,
			       .count = (uint32_t)count};
	uint64_t hash = hash_frame(&wanted);
	uint32_t id = idmap_find(&f->frame_map, hash, same_frame, f, &wanted);
	if (id == IDMAP_NONE) {
		int code = make_frame(f, wanted, hash, symbols, count, err);
		if (code)
			return code;
		id = (uint32_t)f->frame_count - 1;
	}
	*ret_frame_id = id;
	return 0;
}

/* ---- stacks ---- */

static bool same_stack(const void *ctx, uint32_t id, const void *key)
{
	const struct stack_key *have = &((const struct frames *)ctx)->stacks[id];
	const struct stack_key *wanted = key;
	return have->parent == wanted->parent && have->frame == wanted->frame;
}

static int write_stack(struct frames *f, const struct stack_key *key,
		       const struct trace_stack *stack, uint32_t *ret_stack_id,
		       struct tm_error *err)
{
	if (f->stack_count >= IDS_MAX)
		return too_many(err);
	void *grown = with_room(f->stacks, f->stack_count, &f->stack_room, sizeof *f->stacks);
	if (!grown)
		return no_memory(err);
	f->stacks = grown;
	f->stacks[f->stack_count++] = *key;
	*ret_stack_id = (uint32_t)f->stack_count;
	return import_stacks(f->job, stack, 1, err);
}

int frames_stack(struct frames *f, uint32_t parent_stack_id, uint32_t frame_id,
		 uint32_t *ret_stack_id, struct tm_error *err)
{
	const struct stack_key key = {parent_stack_id, frame_id};
	if (frame_id >= f->frame_count || parent_stack_id > f->stack_count)
		return tm_fail(err, -EBADMSG, "a stack has a frame that is not in the file");
	uint64_t hash = hash_pair(parent_stack_id, frame_id);
	uint32_t id = idmap_find(&f->stack_map, hash, same_stack, f, &key);
	if (id != IDMAP_NONE) {
		*ret_stack_id = id + 1;
		return 0;
	}
	if (idmap_add(&f->stack_map, hash, (uint32_t)f->stack_count))
		return no_memory(err);
	const struct frame *frame = &f->frames[frame_id];
	const struct trace_stack stack = {.parent_id = parent_stack_id,
					  .module_id = frame->module_id,
					  .pc = frame->address | TRACE_PC_EXACT};
	return write_stack(f, &key, &stack, ret_stack_id, err);
}

int frames_no_stack(struct frames *f, uint32_t *ret_stack_id, struct tm_error *err)
{
	static const struct stack_key key = {0, UINT32_MAX};
	static const struct trace_stack stack = {.module_id = TRACE_MODULE_MARK,
						 .pc = TRACE_MARK_NO_STACK};
	int code = f->no_stack ? 0 : write_stack(f, &key, &stack, &f->no_stack, err);
	*ret_stack_id = f->no_stack;
	return code;
}

/* ---- names of addresses ---- */

static int by_module_and_address(const void *left, const void *right)
{
	const struct symbols_request *a = left, *b = right;
	if (a->module_id != b->module_id)
		return a->module_id < b->module_id ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

int frames_resolve(struct frames *f, const struct symbols_options *options, uint64_t *ret_asked,
		   uint64_t *ret_unnamed, struct tm_error *err)
{
	struct symbols *symbols = NULL;
	struct symbols_result found = {0};
	size_t count = 0;
	struct symbols_request *requests = tm_alloc_array(f->frame_count + 1, sizeof *requests);
	int code = requests ? symbols_new(options, &symbols, err) : no_memory(err);
	for (size_t i = 0; i < f->frame_count && !code; i++)
		if (!f->frames[i].count && f->frames[i].module_id)
			requests[count++] =
				(struct symbols_request){.module_id = f->frames[i].module_id,
							 .address = f->frames[i].address};
	if (count && !code) {
		qsort(requests, count, sizeof *requests, by_module_and_address);
		code = symbols_resolve(symbols, f->modules, f->module_count, requests, count,
				       &found, err);
	}
	if (!code) {
		code = trace_writer_symbols(import_writer(f->job), found.symbols, found.count);
		if (code)
			import_write_failed(code, err);
	}
	if (!code) {
		*ret_asked = count;
		*ret_unnamed = found.unnamed;
	}
	tm_free(found.symbols);
	tm_free(requests);
	symbols_free(symbols);
	return code;
}

uint64_t frames_stack_count(const struct frames *f)
{
	return f->stack_count;
}

int frames_finish(struct frames *f, struct tm_error *err)
{
	struct trace_writer *writer = import_writer(f->job);
	int code = 0;
	for (size_t i = 0; i < f->module_count && !code; i++)
		code = trace_writer_module(writer, &f->modules[i]);
	for (struct symbol_chunk *chunk = f->chunks; chunk && !code; chunk = chunk->next) {
		code = trace_writer_symbols(writer, chunk->symbols + chunk->written,
					    chunk->used - chunk->written);
		chunk->written = chunk->used;
	}
	return code ? import_write_failed(code, err) : 0;
}
