/* SPDX-License-Identifier: Apache-2.0 */
/* Strings, addresses and stacks of heaptrack's files. */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "import/heaptrack.h"

/* Addresses for names whose own address has other names already. */
#define MADE_UP_FIRST 0x4000000000000000ull
#define MADE_UP_STEP  16

void *heaptrack_room(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	size_t more = *room + *room / 2 + 256;
	void *grown = tm_grow_array(array, more, bytes);
	if (grown)
		*room = more;
	return grown;
}

int heaptrack_no_memory(struct heaptrack *h)
{
	return tm_fail(h->err, -ENOMEM, "no memory for the stacks of the file");
}

static int too_many(struct heaptrack *h)
{
	return tm_fail(h->err, -EFBIG, "the file has too many names or stacks");
}

/* ---- strings ---- */

bool heaptrack_text(const struct heaptrack *h, const char **at, const char *end, bool to_end,
		    const char **ret_text, size_t *ret_length)
{
	uint64_t length;
	const char *p = *at;
	if (h->format >= 3) {
		if (!heaptrack_number(&p, &length) || *p != ' ' || length > (uint64_t)(end - p - 1))
			return false;
		p++;
	} else {
		const char *blank = to_end ? NULL : memchr(p, ' ', (size_t)(end - p));
		length = (uint64_t)((blank ? blank : end) - p);
	}
	*ret_text = p;
	*ret_length = (size_t)length;
	*at = p + length;
	return true;
}

int heaptrack_string(struct heaptrack *h, const char *rest, const char *end)
{
	const char *text;
	size_t length;
	if (h->string_count >= HEAPTRACK_IDS_MAX)
		return too_many(h);
	/* Ids are counted: a string that makes no sense still takes its place. */
	if (!heaptrack_text(h, &rest, end, true, &text, &length)) {
		h->odd_lines++;
		text = "";
		length = 0;
	}
	void *grown = heaptrack_room((void *)h->strings, h->string_count, &h->string_room,
				     sizeof *h->strings);
	if (!grown)
		return heaptrack_no_memory(h);
	h->strings = grown;
	const char *kept = texts_add(&h->texts, text, length);
	if (!kept)
		return heaptrack_no_memory(h);
	h->strings[h->string_count++] = kept;
	return 0;
}

static const char *string_at(struct heaptrack *h, uint64_t id)
{
	if (id == 0)
		return NULL;
	if (id > h->string_count) {
		h->odd_ids++;
		return NULL;
	}
	const char *text = h->strings[id - 1];
	return *text ? text : NULL;
}

/* The module whose path is string number `id`; UINT32_MAX without memory. */
static uint32_t module_of_string(struct heaptrack *h, uint64_t id)
{
	const char *path = string_at(h, id);
	if (!path)
		return 0;
	if (id > h->module_room_of_strings) {
		size_t room = h->string_room;
		uint32_t *grown = tm_grow_array(h->string_modules, room, sizeof *grown);
		if (!grown)
			return UINT32_MAX;
		memset(grown + h->module_room_of_strings, 0,
		       (room - h->module_room_of_strings) * sizeof *grown);
		h->string_modules = grown;
		h->module_room_of_strings = room;
	}
	uint32_t *place = &h->string_modules[id - 1];
	if (!*place)
		*place = heaptrack_module_id(h, path, 0);
	return *place ? *place : UINT32_MAX;
}

/* ---- addresses ---- */

static int flush_symbols(struct heaptrack *h)
{
	int code = trace_writer_symbols(import_writer(h->job), h->symbols, h->symbol_count);
	h->symbol_count = 0;
	return code ? import_write_failed(code, h->err) : 0;
}

/* Frames of the address, innermost first, into symbols[]. Returns how many. */
static size_t read_frames(struct heaptrack *h, const char *rest, struct trace_symbol *symbols)
{
	uint64_t function, file, line;
	size_t count = 0;
	while (count < HEAPTRACK_FRAMES_MAX && heaptrack_number(&rest, &function)) {
		struct trace_symbol *symbol = &symbols[count++];
		*symbol = (struct trace_symbol){.function = string_at(h, function)};
		if (!heaptrack_number(&rest, &file) || !heaptrack_number(&rest, &line))
			break;
		symbol->file = string_at(h, file);
		symbol->line = line > UINT32_MAX ? 0 : (uint32_t)line;
	}
	for (size_t i = 0; i < count; i++) {
		symbols[i].inlined = i + 1 < count ? TRACE_INLINED : TRACE_INLINED_NO;
		if (symbols[i].function)
			symbols[i].source = symbols[i].file ? TRACE_SYM_DWARF : TRACE_SYM_SYMTAB;
	}
	return count;
}

static bool same_ip(const void *ctx, uint32_t id, const void *key)
{
	const struct heaptrack_ip *have = &((const struct heaptrack *)ctx)->ips[id];
	const struct heaptrack_ip *wanted = key;
	return have->module_id == wanted->module_id && have->address == wanted->address;
}

/* Writers may give several sets of names to one address: the others get one made up. */
static int place_ip(struct heaptrack *h, struct heaptrack_ip *ip)
{
	uint64_t hash = hash_pair(ip->module_id, ip->address);
	bool taken = !ip->address || idmap_find(&h->ip_map, hash, same_ip, h, ip) != IDMAP_NONE;
	if (taken)
		ip->address = MADE_UP_FIRST + (uint64_t)h->ip_count * MADE_UP_STEP;
	else if (idmap_add(&h->ip_map, hash, (uint32_t)h->ip_count))
		return heaptrack_no_memory(h);
	if (ip->module_id && !taken) {
		struct trace_module *module = &h->modules[ip->module_id - 1];
		if (!module->end || ip->address < module->start)
			module->start = ip->address;
		if (ip->address >= module->end)
			module->end = ip->address + 1;
	}
	return 0;
}

static int add_names(struct heaptrack *h, const struct heaptrack_ip *ip, const char *rest)
{
	if (!h->symbols)
		h->symbols = tm_alloc_array(HEAPTRACK_SYMBOLS, sizeof *h->symbols);
	if (!h->symbols)
		return heaptrack_no_memory(h);
	if (h->symbol_count + HEAPTRACK_FRAMES_MAX > HEAPTRACK_SYMBOLS && flush_symbols(h))
		return h->err->code;
	struct trace_symbol *symbols = h->symbols + h->symbol_count;
	size_t count = read_frames(h, rest, symbols);
	for (size_t i = 0; i < count; i++) {
		symbols[i].module_id = ip->module_id;
		symbols[i].address = ip->address;
	}
	h->symbol_count += count;
	return 0;
}

int heaptrack_ip(struct heaptrack *h, const char *rest)
{
	uint64_t address = 0, module = 0;
	if (h->ip_count >= HEAPTRACK_IDS_MAX)
		return too_many(h);
	if (!heaptrack_number(&rest, &address) || !heaptrack_number(&rest, &module))
		h->odd_lines++;
	struct heaptrack_ip ip = {.module_id = module_of_string(h, module),
				  .address = address & ~TRACE_PC_EXACT};
	void *grown = heaptrack_room(h->ips, h->ip_count, &h->ip_room, sizeof *h->ips);
	if (grown)
		h->ips = grown;
	if (!grown || ip.module_id == UINT32_MAX)
		return heaptrack_no_memory(h);
	int code = place_ip(h, &ip);
	if (code)
		return code;
	h->ips[h->ip_count++] = ip;
	return add_names(h, &ip, rest);
}

/* ---- stacks ---- */

/* Of a raw file: the address itself, in the module that is there now. */
static int keep_raw_stack(struct heaptrack *h, uint64_t address, struct trace_stack *stack)
{
	/* Since 1.3 it is the call's address, before that the one it returns to. */
	bool exact = h->version >= 0x10300;
	stack->module_id = heaptrack_module_at(h, exact || !address ? address : address - 1);
	stack->pc = (address & ~TRACE_PC_EXACT) | (exact ? TRACE_PC_EXACT : 0);
	void *grown = heaptrack_room(h->raw_stacks, h->stack_count + 1, &h->raw_room,
				     sizeof *h->raw_stacks);
	if (!grown)
		return heaptrack_no_memory(h);
	h->raw_stacks = grown;
	h->raw_stacks[h->stack_count + 1] = *stack;
	return 0;
}

int heaptrack_stack(struct heaptrack *h, const char *rest)
{
	uint64_t ip = 0, parent = 0;
	struct trace_stack stack = {0};
	if (h->stack_count >= HEAPTRACK_IDS_MAX)
		return too_many(h);
	if (!heaptrack_number(&rest, &ip) || !heaptrack_number(&rest, &parent))
		h->odd_lines++;
	/* A stack stands after the one that called it: there are no circles. */
	if (parent > h->stack_count) {
		h->odd_ids++;
		parent = 0;
	}
	stack.parent_id = (uint32_t)parent;
	if (h->raw) {
		if (keep_raw_stack(h, ip, &stack))
			return h->err->code;
	} else if (ip == 0 || ip > h->ip_count) {
		h->odd_ids += ip > h->ip_count;
		stack.pc = TRACE_PC_EXACT;
	} else {
		stack.module_id = h->ips[ip - 1].module_id;
		stack.pc = h->ips[ip - 1].address | TRACE_PC_EXACT;
	}
	h->stack_count++;
	return import_stacks(h->job, &stack, 1, h->err);
}

/* ---- the end ---- */

int heaptrack_names_finish(struct heaptrack *h)
{
	int code = h->symbol_count ? flush_symbols(h) : 0;
	for (size_t i = 0; i < h->module_count && !code; i++) {
		code = trace_writer_module(import_writer(h->job), &h->modules[i]);
		if (code)
			import_write_failed(code, h->err);
	}
	return code;
}

void heaptrack_names_done(struct heaptrack *h)
{
	tm_free((void *)h->strings);
	tm_free(h->string_modules);
	tm_free(h->ips);
	tm_free(h->symbols);
	tm_free(h->modules);
	tm_free(h->segments);
	tm_free(h->raw_stacks);
	idmap_done(&h->ip_map);
	idmap_done(&h->module_map);
	texts_done(&h->texts);
}
