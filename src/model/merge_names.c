/* SPDX-License-Identifier: Apache-2.0 */
#include "model/merge_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/restack.h"

struct merge_seen {
	uint32_t module_id;
	uint64_t address;
};

/* Process frames are addresses 1, 2, ... of this module. */
static const char process_module[] = "[process]";
/* As trace_symbol.kind stores it: the application's, so that no folding hides it. */
enum { KIND_OF_PROCESS = 2 };

static int no_memory(const struct merge_names *names)
{
	return tm_fail(names->err, -ENOMEM, "no memory to merge the traces");
}

static int written(const struct merge_names *names, int rc)
{
	return rc ? tm_fail(names->err, rc, "the merged trace cannot be written: %s", strerror(-rc))
		  : 0;
}

static void *with_room(void *list, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return list;
	void *grown = tm_grow_array(list, *room * 2 + 256, bytes);
	if (grown)
		*room = *room * 2 + 256;
	return grown;
}

/* ---- stacks ---- */

static bool same_stack(const void *ctx, uint32_t id, const void *key)
{
	const struct trace_stack *have = &((const struct merge_names *)ctx)->stacks[id - 1];
	const struct trace_stack *wanted = key;
	return have->parent_id == wanted->parent_id && have->module_id == wanted->module_id &&
	       have->pc == wanted->pc;
}

static int intern_stack(struct merge_names *names, const struct trace_stack *stack,
			uint32_t *ret_id)
{
	uint64_t hash = hash_pair(hash_pair(stack->parent_id, stack->module_id), stack->pc);
	uint32_t id = idmap_find(&names->stack_map, hash, same_stack, names, stack);
	if (id == IDMAP_NONE) {
		void *grown = with_room(names->stacks, names->stack_count, &names->stack_room,
					sizeof *names->stacks);
		if (!grown)
			return -ENOMEM;
		names->stacks = grown;
		id = (uint32_t)names->stack_count + 1;
		if (idmap_add(&names->stack_map, hash, id))
			return -ENOMEM;
		names->stacks[names->stack_count++] = *stack;
	}
	*ret_id = id;
	return 0;
}

static uint32_t module_of(const struct merge_ids *ids, uint32_t module_id)
{
	if (module_id == TRACE_MODULE_MARK)
		return module_id;
	if (module_id && module_id < ids->module_count)
		return ids->module_ids[module_id];
	return ids->anonymous_id;
}

int merge_names_stack(struct merge_names *names, size_t part, uint32_t *id)
{
	struct merge_ids *ids = &names->ids[part];
	size_t depth = 0;
	uint32_t at = *id;
	if (at >= ids->stack_count)
		return -EBADMSG;
	/* Up to the first ancestor that is known, then down again. Parents are below: it ends. */
	while (at && !ids->stack_ids[at]) {
		void *grown = with_room(names->path, depth, &names->path_room, sizeof(uint32_t));
		if (!grown)
			return -ENOMEM;
		names->path = grown;
		names->path[depth++] = at;
		uint32_t parent = ids->stacks[at].parent_id;
		at = parent < at ? parent : 0;
	}
	uint32_t merged = at ? ids->stack_ids[at] : ids->root_id;
	while (depth > 0) {
		uint32_t old = names->path[--depth];
		struct trace_stack stack = ids->stacks[old];
		stack.parent_id = merged;
		stack.module_id = module_of(ids, stack.module_id);
		if (intern_stack(names, &stack, &merged))
			return -ENOMEM;
		ids->stack_ids[old] = merged;
	}
	*id = merged;
	return 0;
}

int merge_names_flush(struct merge_names *names)
{
	size_t first = names->stacks_written;
	names->stacks_written = names->stack_count;
	if (first == names->stack_count)
		return 0;
	return written(names, trace_writer_stacks(names->writer, names->stacks + first,
						  names->stack_count - first));
}

/* ---- modules ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_module(const struct trace_module *a, const struct trace_module *b)
{
	return a->bias == b->bias && a->start == b->start && a->end == b->end &&
	       a->build_id_bytes == b->build_id_bytes &&
	       !memcmp(a->build_id, b->build_id, a->build_id_bytes) && same_text(a->path, b->path);
}

static uint64_t shifted(const struct merge_part *part, uint64_t time_ns)
{
	return time_ns == UINT64_MAX ? time_ns : time_ns + part->offset_ns;
}

/* Pieces of a recording give a module the same id. */
static int write_modules(struct merge_names *names, size_t at, uint32_t *next_id)
{
	const struct merge_part *part = &names->plan->parts[at];
	struct merge_ids *ids = &names->ids[at];
	const struct merge_ids *before =
		merge_is_next_piece(names->plan, at) ? &names->ids[at - 1] : NULL;
	int rc = 0;
	for (size_t id = 1; id < ids->module_count && !rc; id++) {
		struct trace_module module = ids->modules[id];
		bool known = before && id < before->module_count &&
			     same_module(&before->modules[id], &module);
		module.module_id = ids->module_ids[id] =
			known ? before->module_ids[id] : (*next_id)++;
		module.path = module.path ? module.path : "[lost]";
		/* The first piece knows when it was mapped, the last until when. */
		ids->mapped_ns[id] =
			known ? before->mapped_ns[id] : shifted(part, module.mapped_ns);
		module.mapped_ns = ids->mapped_ns[id];
		module.unmapped_ns = shifted(part, module.unmapped_ns);
		rc = written(names, trace_writer_module(names->writer, &module));
	}
	return rc;
}

static int write_special_module(struct merge_names *names, uint32_t id, const char *path)
{
	const struct trace_module module = {
		.module_id = id, .unmapped_ns = UINT64_MAX, .path = path};
	return written(names, trace_writer_module(names->writer, &module));
}

/* ---- threads ---- */

static int write_thread(struct merge_names *names, size_t at, size_t id)
{
	const struct merge_ids *ids = &names->ids[at];
	size_t first = names->plan->first[names->plan->parts[at].stream];
	struct trace_thread thread = ids->threads[id];
	/* The last piece knows its name and end, the first in which it is its start. */
	size_t born = first;
	while (born < at && id >= names->ids[born].thread_count)
		born++;
	thread.start_ns = shifted(&names->plan->parts[born], names->ids[born].threads[id].start_ns);
	thread.end_ns = shifted(&names->plan->parts[at], thread.end_ns);
	thread.thread_id = ids->thread_base + (uint32_t)id;
	return written(names, trace_writer_thread(names->writer, &thread));
}

/* All threads of a stream, and "[exit]", which gives back what the process left. */
static int write_threads(struct merge_names *names, size_t stream, uint32_t *next_id)
{
	const struct merge_plan *plan = names->plan;
	size_t most = 1;
	for (size_t at = plan->first[stream]; at < plan->first[stream + 1]; at++) {
		names->ids[at].thread_base = *next_id;
		if (names->ids[at].thread_count > most)
			most = names->ids[at].thread_count;
	}
	int rc = 0;
	for (size_t id = 0; id < most && !rc; id++) {
		size_t at = plan->first[stream + 1];
		while (at-- > plan->first[stream])
			if (id < names->ids[at].thread_count)
				break;
		const struct trace_thread nameless = {.thread_id = *next_id, .end_ns = UINT64_MAX};
		if (at + 1 > plan->first[stream])
			rc = write_thread(names, at, id);
		else
			rc = written(names, trace_writer_thread(names->writer, &nameless));
	}
	if (most >= UINT32_MAX - 1 - *next_id)
		return tm_fail(names->err, -EFBIG, "there are too many threads in all");
	*next_id += (uint32_t)most;
	names->exit_threads[stream] = *next_id;
	if (plan->stream_count == 1 || rc)
		return rc;
	const struct trace_thread exit = {
		.thread_id = (*next_id)++, .end_ns = UINT64_MAX, .name = "[exit]"};
	return written(names, trace_writer_thread(names->writer, &exit));
}

/* ---- processes ---- */

static bool all_on_one_host(const struct merge_plan *plan)
{
	for (size_t i = 1; i < plan->part_count; i++)
		if (strcmp(plan->parts[i].meta->host, plan->parts[0].meta->host) != 0)
			return false;
	return true;
}

static int make_label(struct merge_names *names, size_t stream, bool with_host)
{
	const struct trace_meta *meta = names->plan->parts[names->plan->first[stream]].meta;
	const char *slash = strrchr(meta->program, '/');
	struct text text = {0};
	unsigned same = 0;
	text_print(&text, "process %u %s", meta->pid, slash ? slash + 1 : meta->program);
	if (with_host)
		text_print(&text, " on %s", meta->host);
	size_t bytes = text.length;
	for (size_t i = 0; i < stream && !text.error; i++)
		same += !strncmp(names->labels[i], text.data, bytes) &&
			(!names->labels[i][bytes] || names->labels[i][bytes] == ' ');
	if (same)
		text_print(&text, " (%u)", same + 1);
	return text_take(&text, &names->labels[stream]);
}

static int write_processes(struct merge_names *names, uint32_t module_id)
{
	const struct merge_plan *plan = names->plan;
	bool with_host = !all_on_one_host(plan);
	names->labels = tm_alloc_array(plan->stream_count + 1, sizeof *names->labels);
	if (!names->labels)
		return no_memory(names);
	int rc = write_special_module(names, module_id, process_module);
	for (size_t i = 0; i < plan->stream_count && !rc; i++) {
		const struct trace_stack root = {.module_id = module_id,
						 .pc = (i + 1) | TRACE_PC_EXACT};
		uint32_t root_id = 0;
		rc = make_label(names, i, with_host);
		if (rc || intern_stack(names, &root, &root_id))
			return no_memory(names);
		for (size_t at = plan->first[i]; at < plan->first[i + 1]; at++)
			names->ids[at].root_id = root_id;
		const struct trace_symbol symbol = {.module_id = module_id,
						    .address = i + 1,
						    .function = names->labels[i],
						    .source = TRACE_SYM_SYMTAB,
						    .kind = KIND_OF_PROCESS};
		rc = written(names, trace_writer_symbols(names->writer, &symbol, 1));
	}
	return rc;
}

/* ---- all ---- */

static int load(struct merge_names *names, size_t at)
{
	struct trace_reader *reader = names->plan->parts[at].reader;
	struct merge_ids *ids = &names->ids[at];
	int rc = trace_reader_stacks(reader, &ids->stacks, &ids->stack_count, names->err);
	if (!rc)
		rc = trace_reader_modules(reader, &ids->modules, &ids->module_count, names->err);
	if (!rc)
		rc = trace_reader_threads(reader, &ids->threads, &ids->thread_count, names->err);
	if (rc)
		return rc;
	ids->stack_ids = tm_alloc_array(ids->stack_count + 1, sizeof *ids->stack_ids);
	ids->module_ids = tm_alloc_array(ids->module_count + 1, sizeof *ids->module_ids);
	ids->mapped_ns = tm_alloc_array(ids->module_count + 1, sizeof *ids->mapped_ns);
	return ids->stack_ids && ids->module_ids && ids->mapped_ns ? 0 : no_memory(names);
}

int merge_names_make(struct merge_names *names, const struct merge_plan *plan,
		     struct trace_writer *writer, struct tm_error *err)
{
	*names = (struct merge_names){.plan = plan, .writer = writer, .err = err};
	names->ids = tm_alloc_array(plan->part_count + 1, sizeof *names->ids);
	names->exit_threads = tm_alloc_array(plan->stream_count + 1, sizeof *names->exit_threads);
	if (!names->ids || !names->exit_threads)
		return no_memory(names);
	bool several = plan->stream_count > 1;
	uint32_t next_module = 1, next_thread = 0;
	int rc = 0;
	for (size_t at = 0; at < plan->part_count && !rc; at++)
		rc = load(names, at);
	for (size_t at = 0; at < plan->part_count && !rc; at++) {
		rc = write_modules(names, at, &next_module);
		if (rc || !several)
			continue;
		bool known = merge_is_next_piece(plan, at);
		names->ids[at].anonymous_id =
			known ? names->ids[at - 1].anonymous_id : next_module++;
		if (!known)
			rc = write_special_module(names, names->ids[at].anonymous_id, NULL);
	}
	for (size_t i = 0; i < plan->stream_count && !rc; i++)
		rc = write_threads(names, i, &next_thread);
	if (!rc && next_module >= RESTACK_MODULES_MAX)
		rc = tm_fail(err, -EFBIG, "there are too many modules in all");
	if (!rc && several)
		rc = write_processes(names, next_module);
	return rc ? rc : merge_names_flush(names);
}

void merge_names_done(struct merge_names *names)
{
	for (size_t at = 0; names->ids && at < names->plan->part_count; at++) {
		tm_free(names->ids[at].stack_ids);
		tm_free(names->ids[at].module_ids);
		tm_free(names->ids[at].mapped_ns);
	}
	for (size_t i = 0; names->labels && i < names->plan->stream_count; i++)
		tm_free(names->labels[i]);
	tm_free(names->labels);
	tm_free(names->ids);
	tm_free(names->exit_threads);
	tm_free(names->stacks);
	tm_free(names->path);
	tm_free(names->seen);
	tm_free(names->lines);
	idmap_done(&names->stack_map);
	idmap_done(&names->symbol_map);
	idmap_done(&names->source_map);
	*names = (struct merge_names){0};
}

/* ---- symbols ---- */

static bool same_seen(const void *ctx, uint32_t id, const void *key)
{
	const struct merge_seen *have = &((const struct merge_names *)ctx)->seen[id];
	const struct merge_seen *wanted = key;
	return have->module_id == wanted->module_id && have->address == wanted->address;
}

/* 1: it was seen before; 0: now it is; -ENOMEM. */
static int see(struct merge_names *names, const struct merge_seen *key)
{
	uint64_t hash = hash_pair(key->module_id, key->address);
	if (idmap_find(&names->symbol_map, hash, same_seen, names, key) != IDMAP_NONE)
		return 1;
	void *grown =
		with_room(names->seen, names->seen_count, &names->seen_room, sizeof *names->seen);
	if (!grown)
		return -ENOMEM;
	names->seen = grown;
	names->seen[names->seen_count] = *key;
	return idmap_add(&names->symbol_map, hash, (uint32_t)names->seen_count++);
}

static int part_symbols(struct merge_names *names, size_t at)
{
	const struct trace_symbol *symbols;
	size_t count;
	int rc = trace_reader_symbols(names->plan->parts[at].reader, &symbols, &count, names->err);
	bool skip = false;
	for (size_t i = 0; i < count && !rc; i++) {
		struct trace_symbol symbol = symbols[i];
		symbol.module_id = module_of(&names->ids[at], symbol.module_id);
		bool begins = !i || symbols[i - 1].module_id != symbols[i].module_id ||
			      symbols[i - 1].address != symbols[i].address;
		if (begins) {
			const struct merge_seen key = {symbol.module_id, symbol.address};
			int seen = see(names, &key);
			if (seen < 0)
				return no_memory(names);
			skip = seen;
		}
		if (!skip)
			rc = written(names, trace_writer_symbols(names->writer, &symbol, 1));
	}
	return rc;
}

static bool same_line(const void *ctx, uint32_t id, const void *key)
{
	const struct trace_source_line *have = ((const struct merge_names *)ctx)->lines[id];
	const struct trace_source_line *wanted = key;
	return have->line == wanted->line && same_text(have->file, wanted->file);
}

static int part_sources(struct merge_names *names, size_t at)
{
	const struct trace_source_line *lines;
	size_t count;
	int rc = trace_reader_sources(names->plan->parts[at].reader, &lines, &count, names->err);
	for (size_t i = 0; i < count && !rc; i++) {
		const char *file = lines[i].file ? lines[i].file : "";
		uint64_t hash = hash_pair(hash_bytes(file, strlen(file)), lines[i].line);
		if (idmap_find(&names->source_map, hash, same_line, names, &lines[i]) != IDMAP_NONE)
			continue;
		void *grown = with_room(names->lines, names->line_count, &names->line_room,
					sizeof *names->lines);
		if (!grown)
			return no_memory(names);
		names->lines = grown;
		names->lines[names->line_count] = &lines[i];
		if (idmap_add(&names->source_map, hash, (uint32_t)names->line_count++))
			return no_memory(names);
		rc = written(names, trace_writer_sources(names->writer, &lines[i], 1));
	}
	return rc;
}

int merge_names_symbols(struct merge_names *names)
{
	int rc = 0;
	for (size_t at = 0; at < names->plan->part_count && !rc; at++) {
		rc = part_symbols(names, at);
		if (!rc)
			rc = part_sources(names, at);
	}
	return rc;
}
