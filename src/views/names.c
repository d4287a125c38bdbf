/* SPDX-License-Identifier: Apache-2.0 */
#include "views/names.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "symbols/kinds.h"
#include "symbols/roots.h"
#include "symbols/symbols.h"
#include "trace/labels.h"
#include "views/chains.h"

/* A hostile file can ask for 64 inlined frames on each of 2^32 stacks. */
enum { NODES_MAX = 1 << 26 };
#define NO_CALLEE UINT32_MAX
#define NO_CHAIN  UINT32_MAX

static const char module_anonymous[] = "[anonymous]";
static const char module_mark[] = "[mark]";

/* The array with room for one more entry, perhaps moved; NULL: no memory, and it stays as it was.
 */
static void *with_room(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	void *grown = tm_grow_array(array, *room * 2 + 256, bytes);
	if (grown)
		*room = *room * 2 + 256;
	return grown;
}

static uint64_t hash_string(const char *text)
{
	return text ? hash_bytes(text, strlen(text)) : 0;
}

static bool same_string(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_function(const void *ctx, uint32_t id, const void *key)
{
	const struct names_function *have = &((const struct names *)ctx)->functions[id];
	const struct view_frame *wanted = key;
	return same_string(have->function, wanted->function) &&
	       same_string(have->module, wanted->module);
}

static int intern_function(struct names *names, const struct view_frame *frame, uint32_t *ret_id)
{
	uint64_t hash = hash_pair(hash_string(frame->function), hash_string(frame->module));
	uint32_t id = idmap_find(&names->function_map, hash, same_function, names, frame);
	if (id == IDMAP_NONE) {
		void *grown = with_room(names->functions, names->function_count,
					&names->function_room, sizeof *names->functions);
		if (!grown)
			return -ENOMEM;
		names->functions = grown;
		id = (uint32_t)names->function_count;
		if (idmap_add(&names->function_map, hash, id))
			return -ENOMEM;
		names->functions[names->function_count++] = (struct names_function){
			.function = frame->function,
			.module = frame->module,
			.is_root = frame->function && roots_is_root(frame->function),
		};
	}
	*ret_id = id;
	return 0;
}

/* Addresses within one line (or, without lines, within one function) read alike. */
static bool same_frame(const void *ctx, uint32_t id, const void *key)
{
	const struct view_frame *have = &((const struct names *)ctx)->frames[id];
	const struct view_frame *wanted = key;
	return have->function_id == wanted->function_id && have->line == wanted->line &&
	       have->inlined == wanted->inlined && have->tail_called == wanted->tail_called &&
	       same_string(have->file, wanted->file) &&
	       (have->function || have->address == wanted->address);
}

static void classify(struct names *names, struct view_frame *frame)
{
	struct kinds_answer answer = {.kind = KIND_UNKNOWN, .package = ""};
	if (frame->label)
		answer.kind = KIND_ALLOCATOR;
	else if (frame->module != module_mark)
		answer = kinds_of(names->kinds, &(struct kinds_frame){
							.function = frame->function,
							.file = frame->file,
							.module = frame->module,
							.jit = frame->source == TRACE_SYM_JIT,
						});
	/* A trace without the true names has the kinds that these had. */
	if (frame->kind && frame->kind <= KIND_COUNT)
		answer.kind = (enum frame_kind)(frame->kind - 1);
	frame->kind = (uint8_t)answer.kind;
	frame->package = answer.package;
	frame->is_allocator = answer.kind == KIND_ALLOCATOR;
}

static int intern_frame(struct names *names, struct view_frame *frame, uint32_t *ret_id)
{
	if (intern_function(names, frame, &frame->function_id))
		return -ENOMEM;
	frame->is_root = names->functions[frame->function_id].is_root;
	uint64_t hash = hash_pair(frame->function_id, hash_pair(frame->line, frame->inlined));
	hash = hash_pair(hash, frame->function ? hash_string(frame->file) : frame->address);
	uint32_t id = idmap_find(&names->frame_map, hash, same_frame, names, frame);
	if (id == IDMAP_NONE) {
		void *grown = with_room(names->frames, names->frame_count, &names->frame_room,
					sizeof *names->frames);
		if (!grown)
			return -ENOMEM;
		names->frames = grown;
		id = (uint32_t)names->frame_count;
		if (idmap_add(&names->frame_map, hash, id))
			return -ENOMEM;
		classify(names, frame);
		names->frames[names->frame_count++] = *frame;
	}
	*ret_id = id;
	return 0;
}

static const char *mark_text(uint64_t mark)
{
	switch (mark) {
	case TRACE_MARK_CUT:
		return "[frames missing: the stack is too deep]";
	case TRACE_MARK_NODE_CAP:
		return "[frames missing: too many distinct stacks]";
	case TRACE_MARK_NO_STACK:
		return "[no stack]";
	}
	return "[frames missing]";
}

static struct view_frame bare_frame(const struct view_input *input, const struct chain *chain)
{
	struct view_frame frame = {.address = chain->address, .module = module_anonymous};
	if (chain->module_id == TRACE_MODULE_MARK) {
		frame.function = mark_text(chain->address);
		frame.module = module_mark;
		frame.address = 0;
	} else if (chain->module_id > 0 && chain->module_id < input->module_count) {
		const struct trace_module *module = &input->modules[chain->module_id];
		frame.label = (uint8_t)trace_label_of(module->path, NULL);
		if (frame.label) {
			frame.function = frame.module = module->path;
			frame.address = 0;
		} else if (module->path && module->path[0]) {
			frame.module = module->path;
			frame.address = chain->address - module->bias;
		}
	}
	return frame;
}

/* The frames of a chain, as ids, innermost first. Returns how many, or -errno. */
static int chain_frames(struct names *names, const struct view_input *input,
			const struct chain *chain, uint32_t ids[SYMBOLS_CHAIN_MAX])
{
	struct view_frame bare = bare_frame(input, chain);
	if (!chain->count)
		return intern_frame(names, &bare, &ids[0]) ? -ENOMEM : 1;
	for (uint32_t i = 0; i < chain->count; i++) {
		const struct trace_symbol *symbol = &chain->symbols[i];
		struct view_frame frame = bare;
		frame.function = symbol->function;
		frame.file = symbol->file;
		frame.line = symbol->line;
		frame.column = symbol->column;
		frame.source = symbol->source;
		frame.kind = symbol->kind;
		frame.inlined = symbol->inlined != TRACE_INLINED_NO;
		if (intern_frame(names, &frame, &ids[i]))
			return -ENOMEM;
	}
	return (int)chain->count;
}

/* The frame of a function that left none, to be shown where another is inside of its call. */
static int callee_frame(struct names *names, const struct view_input *input,
			const struct chain *chain, uint32_t *ret_id)
{
	struct view_frame frame = bare_frame(input, chain);
	frame.function = chain->callee->function;
	frame.file = chain->callee->file;
	frame.line = chain->callee->line;
	frame.source = chain->callee->source;
	frame.kind = chain->callee->kind;
	frame.tail_called = true;
	return intern_frame(names, &frame, ret_id);
}

static bool same_node(const void *ctx, uint32_t id, const void *key)
{
	const struct names_node *have = &((const struct names *)ctx)->nodes[id];
	const struct names_node *wanted = key;
	return have->parent == wanted->parent && have->frame == wanted->frame;
}

int names_intern_node(struct names *names, uint32_t parent, uint32_t frame, uint32_t *ret_id)
{
	struct names_node node = {.parent = parent, .frame = frame};
	uint64_t hash = hash_pair(parent, frame);
	uint32_t id = idmap_find(&names->node_map, hash, same_node, names, &node);
	if (id == IDMAP_NONE) {
		if (names->node_count >= NODES_MAX)
			return -EFBIG;
		void *grown = with_room(names->nodes, names->node_count, &names->node_room,
					sizeof *names->nodes);
		if (!grown)
			return -ENOMEM;
		names->nodes = grown;
		id = (uint32_t)names->node_count;
		if (idmap_add(&names->node_map, hash, id))
			return -ENOMEM;
		bool allocates = names->frames[frame].is_allocator;
		node.has_site = !allocates || names->nodes[parent].has_site;
		node.site = allocates && node.has_site ? names->nodes[parent].site
						       : names->frames[frame].function_id;
		names->nodes[names->node_count++] = node;
	}
	*ret_id = id;
	return 0;
}

/*
 * Frame ids per chain are made once; most chains have one frame, so they are
 * kept as ranges of one array.
 */
struct ranges {
	uint32_t *ids;
	size_t count, room;
	uint32_t *first;  /* by chain; first[chain + 1] is the end */
	uint32_t *callee; /* by chain; NO_CALLEE */
};

static int make_frames(struct names *names, const struct view_input *input,
		       const struct chains *chains, struct ranges *ranges)
{
	ranges->first = tm_alloc_array(chains->count + 1, sizeof *ranges->first);
	ranges->ids = with_room(NULL, 0, &ranges->room, sizeof *ranges->ids);
	ranges->callee = tm_alloc_array(chains->count + 1, sizeof *ranges->callee);
	if (!ranges->first || !ranges->ids || !ranges->callee)
		return -ENOMEM;
	for (size_t i = 0; i < chains->count; i++) {
		uint32_t ids[SYMBOLS_CHAIN_MAX];
		ranges->callee[i] = NO_CALLEE;
		if (chains->list[i].callee &&
		    callee_frame(names, input, &chains->list[i], &ranges->callee[i]))
			return -ENOMEM;
		int count = chain_frames(names, input, &chains->list[i], ids);
		if (count < 0)
			return count;
		for (int k = 0; k < count; k++) {
			void *grown = with_room(ranges->ids, ranges->count, &ranges->room,
						sizeof *ranges->ids);
			if (!grown)
				return -ENOMEM;
			ranges->ids = grown;
			ranges->ids[ranges->count++] = ids[k];
		}
		ranges->first[i + 1] = (uint32_t)ranges->count;
	}
	return 0;
}

/*
 * Between a caller and the frame inside, if that is not whom it called. inside
 * NO_CHAIN: the allocator, which left no frame and is not called there itself.
 */
static int add_callee(struct names *names, const struct ranges *ranges, uint32_t caller,
		      uint32_t inside, uint32_t *node)
{
	uint32_t callee = ranges->callee[caller];
	if (callee == NO_CALLEE)
		return 0;
	const struct view_frame *called =
		inside == NO_CHAIN ? NULL
				   : &names->frames[ranges->ids[ranges->first[inside + 1] - 1]];
	if (called && !called->label) {
		const char *outermost = called->function;
		/* Without a name it may well be the one that was called. */
		if (!outermost || !strcmp(outermost, names->frames[callee].function))
			return 0;
	}
	return names_intern_node(names, *node, callee, node);
}

static int make_nodes(struct names *names, const struct view_input *input,
		      const struct chains *chains, const struct ranges *ranges,
		      struct tm_error *err)
{
	names->node_of = tm_alloc_array(input->stack_count, sizeof *names->node_of);
	names->nodes = with_room(NULL, 0, &names->node_room, sizeof *names->nodes);
	if (!names->node_of || !names->nodes)
		return tm_fail(err, -ENOMEM, "out of memory");
	names->nodes[0] = (struct names_node){0};
	names->node_count = 1;
	int code = 0;
	for (size_t i = 1; !code && i < input->stack_count; i++) {
		uint32_t parent = input->stacks[i].parent_id, chain = chains->chain_of[i];
		if (parent >= i)
			return tm_fail(err, -EBADMSG,
				       "stack %zu of the trace comes before its parent: the file "
				       "is damaged",
				       i);
		uint32_t node = names->node_of[parent];
		if (parent)
			code = add_callee(names, ranges, chains->chain_of[parent], chain, &node);
		for (uint32_t k = ranges->first[chain + 1]; !code && k-- > ranges->first[chain];)
			code = names_intern_node(names, node, ranges->ids[k], &node);
		names->node_of[i] = node;
	}
	/* What allocates is below its stack's last frame: only now, since others are built on it.
	 */
	for (size_t i = 1; !code && i < input->stack_count; i++)
		code = add_callee(names, ranges, chains->chain_of[i], NO_CHAIN, &names->node_of[i]);
	return code ? tm_fail(err, code, "too many stacks for the memory") : 0;
}

int names_init(struct names *names, const struct view_input *input, struct tm_error *err)
{
	*names = (struct names){.kinds = input->kinds};
	struct chains chains;
	int code = 0;
	if (!names->kinds) {
		code = kinds_new(&names->own_kinds, err);
		names->kinds = names->own_kinds;
	}
	if (!code)
		code = chains_init(&chains, input, &names->symbols, &names->found, err);
	if (code) {
		names_done(names);
		return code;
	}
	struct ranges ranges = {0};
	code = make_frames(names, input, &chains, &ranges);
	if (code)
		tm_fail(err, code, "out of memory");
	else
		code = make_nodes(names, input, &chains, &ranges, err);
	tm_free(ranges.ids);
	tm_free(ranges.first);
	tm_free(ranges.callee);
	chains_done(&chains);
	idmap_done(&names->frame_map); /* what only building needs */
	idmap_done(&names->function_map);
	idmap_done(&names->node_map);
	if (code)
		names_done(names);
	return code;
}

void names_done_nodes(struct names *names)
{
	tm_free(names->nodes);
	tm_free(names->node_of);
	idmap_done(&names->node_map);
	*names = (struct names){0};
}

void names_done(struct names *names)
{
	tm_free(names->frames);
	tm_free(names->functions);
	tm_free(names->nodes);
	tm_free(names->node_of);
	idmap_done(&names->frame_map);
	idmap_done(&names->function_map);
	idmap_done(&names->node_map);
	tm_free(names->found);
	symbols_free(names->symbols);
	kinds_free(names->own_kinds);
	*names = (struct names){0};
}
