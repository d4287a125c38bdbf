/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/unnamed.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/memory.h"
#include "model/lacks.h"
#include "symbols/kinds.h"
#include "symbols/packages.h"
#include "symbols/roots.h"
#include "symbols/symbols.h"
#include "trace/labels.h"

enum { NAMES_PER_CENT = 5, LINES_PER_CENT = 50, ADDRESSES_FIRST = 1024 };

/* Of an address, beside LACKS_*. */
enum {
	ADDRESS_TAKEN = 1u << 4, /* the entry of the table is in use */
	ADDRESS_WHOLE = 1u << 5, /* the function that was not inlined has come: the last */
	ADDRESS_ENDS = 1u << 6,  /* main or its kin: callers of it do not count */
};

struct address {
	uint64_t address;
	uint32_t module_id;
	uint8_t flags;
};

struct module {
	bool known;
	bool skipped;       /* a label */
	bool has_ends;      /* some address of it is ADDRESS_ENDS */
	uint8_t wants;      /* LACKS_* that something would be said of */
	uint8_t bare;       /* LACKS_* of an address without any symbol */
	uint32_t same_path; /* the first module with its path: they are one */
	struct cure_signs signs;
};

struct weight {
	uint64_t bytes;
	uint32_t stack_id;
};

struct unnamed {
	struct address *addresses; /* open addressing */
	size_t address_mask, address_count;
	struct module *modules; /* by module_id */
	uint32_t module_room;
	struct weight *weights;
	size_t weight_count, weight_room;
	struct kinds *kinds; /* made when first needed */
	bool failed;         /* for lack of memory */
};

int unnamed_new(struct unnamed **ret_unnamed)
{
	struct unnamed *unnamed = tm_alloc(sizeof *unnamed);
	if (!unnamed)
		return -ENOMEM;
	unnamed->addresses = tm_alloc_array(ADDRESSES_FIRST, sizeof *unnamed->addresses);
	unnamed->address_mask = ADDRESSES_FIRST - 1;
	if (!unnamed->addresses) {
		unnamed_free(unnamed);
		return -ENOMEM;
	}
	*ret_unnamed = unnamed;
	return 0;
}

struct unnamed *unnamed_free(struct unnamed *unnamed)
{
	if (!unnamed)
		return NULL;
	tm_free(unnamed->addresses);
	tm_free(unnamed->modules);
	tm_free(unnamed->weights);
	kinds_free(unnamed->kinds);
	return tm_free(unnamed);
}

/* ---- modules ---- */

static const char *path_of(const struct modules_seen *modules, uint32_t module_id)
{
	const char *path =
		module_id && module_id < modules->count ? modules->rows[module_id].path : NULL;
	return path && *path ? path : "[anonymous]";
}

static bool is_allocator(struct unnamed *unnamed, const struct kinds_frame *frame)
{
	/* Not with the rest: the program waits to begin until that is there. */
	if (!unnamed->kinds && kinds_new(&unnamed->kinds, NULL)) {
		unnamed->kinds = NULL;
		unnamed->failed = true;
		return true;
	}
	return kinds_of(unnamed->kinds, frame).kind == KIND_ALLOCATOR;
}

static void learn_module(struct unnamed *unnamed, struct module *module, const char *path,
			 uint32_t module_id)
{
	*module = (struct module){.known = true, .wants = LACKS_NAME, .same_path = module_id};
	module->skipped = trace_label_of(path, NULL) != TRACE_LABEL_NONE;
	if (*path == '/' && cure_of(path, module->signs, NULL, 0) != CURE_PACKAGE)
		module->wants |= LACKS_LINE;
	if (!module->skipped && !is_allocator(unnamed, &(struct kinds_frame){.module = path}))
		module->bare = module->wants;
}

/* NULL without memory. */
static struct module *module_of(struct unnamed *unnamed, const struct modules_seen *modules,
				uint32_t module_id)
{
	if (module_id >= unnamed->module_room) {
		size_t room = (size_t)module_id * 2 + 32;
		struct module *grown = tm_grow_array(unnamed->modules, room, sizeof *grown);
		if (!grown || room > UINT32_MAX) {
			unnamed->failed = true;
			return NULL;
		}
		memset(grown + unnamed->module_room, 0,
		       (room - unnamed->module_room) * sizeof *grown);
		unnamed->modules = grown;
		unnamed->module_room = (uint32_t)room;
	}
	struct module *module = &unnamed->modules[module_id];
	if (!module->known)
		learn_module(unnamed, module, path_of(modules, module_id), module_id);
	return module;
}

/* ---- addresses ---- */

static size_t slot_of(const struct unnamed *unnamed, uint32_t module_id, uint64_t address)
{
	size_t at = hash_fold(address ^ (uint64_t)module_id << 48, 0x9e3779b97f4a7c15ull) &
		    unnamed->address_mask;
	while (unnamed->addresses[at].flags && (unnamed->addresses[at].address != address ||
						unnamed->addresses[at].module_id != module_id))
		at = (at + 1) & unnamed->address_mask;
	return at;
}

static bool make_room(struct unnamed *unnamed)
{
	struct address *old = unnamed->addresses;
	size_t room = unnamed->address_mask + 1;
	if (unnamed->address_count * 2 < room)
		return true;
	struct address *grown = tm_alloc_array(room * 2, sizeof *grown);
	if (!grown)
		return false;
	unnamed->addresses = grown;
	unnamed->address_mask = room * 2 - 1;
	for (size_t i = 0; i < room; i++)
		if (old[i].flags)
			grown[slot_of(unnamed, old[i].module_id, old[i].address)] = old[i];
	tm_free(old);
	return true;
}

/* NULL without memory. */
static struct address *take_address(struct unnamed *unnamed, const struct trace_symbol *symbol)
{
	if (!make_room(unnamed)) {
		unnamed->failed = true;
		return NULL;
	}
	struct address *entry =
		&unnamed->addresses[slot_of(unnamed, symbol->module_id, symbol->address)];
	if (!entry->flags) {
		unnamed->address_count++;
		*entry = (struct address){.address = symbol->address,
					  .module_id = symbol->module_id,
					  .flags = ADDRESS_TAKEN};
	}
	return entry;
}

/* What a function lacks, and shows of its module. */
static unsigned look_at(struct unnamed *unnamed, const struct modules_seen *modules,
			struct module *module, const struct trace_symbol *symbol)
{
	bool has_name = symbol->function && symbol->source != TRACE_SYM_NONE;
	bool is_jit = symbol->source == TRACE_SYM_JIT;
	unsigned lacks = (has_name ? 0 : LACKS_NAME) | (symbol->file ? 0 : LACKS_LINE);
	lacks &= module->wants;
	struct cure_signs signs = {
		.rust = module->wants & LACKS_LINE && !module->signs.rust &&
			cure_is_rust(symbol->function, symbol->file),
		.mapped = is_jit && !module->signs.mapped,
	};
	/* Nearly all functions add nothing, and what they are need not be found out. */
	if ((!lacks && !signs.rust && !signs.mapped) ||
	    is_allocator(unnamed, &(struct kinds_frame){
					  .function = symbol->function,
					  .file = symbol->file,
					  .module = path_of(modules, symbol->module_id),
					  .jit = is_jit,
				  }))
		return 0;
	module->signs.rust |= signs.rust;
	module->signs.mapped |= signs.mapped;
	return lacks;
}

void unnamed_symbol(struct unnamed *unnamed, const struct modules_seen *modules,
		    const struct trace_symbol *symbol)
{
	if (unnamed->failed || symbol->module_id >= modules->count ||
	    symbol->inlined == TRACE_INLINED_CALLEE)
		return;
	struct module *module = module_of(unnamed, modules, symbol->module_id);
	struct address *entry = module ? take_address(unnamed, symbol) : NULL;
	if (!entry || entry->flags & ADDRESS_WHOLE)
		return;
	bool ends = symbol->function && roots_is_root(symbol->function);
	/* Of what ends a stack main alone is the program's. */
	if (!(entry->flags & ADDRESS_ENDS) && (!ends || !strcmp(symbol->function, "main")))
		entry->flags |= (uint8_t)look_at(unnamed, modules, module, symbol);
	if (ends) {
		entry->flags |= ADDRESS_ENDS;
		module->has_ends = true;
	}
	if (symbol->inlined == TRACE_INLINED_NO)
		entry->flags |= ADDRESS_WHOLE;
}

/* ---- stacks ---- */

static int add_weight(void *ctx, const struct model_stack *stack)
{
	struct unnamed *unnamed = ctx;
	if (unnamed->weight_count == unnamed->weight_room) {
		size_t room = unnamed->weight_room * 2 + 256;
		void *grown = tm_grow_array(unnamed->weights, room, sizeof *unnamed->weights);
		if (!grown)
			return -ENOMEM;
		unnamed->weights = grown;
		unnamed->weight_room = room;
	}
	unnamed->weights[unnamed->weight_count++] =
		(struct weight){.bytes = stack->allocated_bytes, .stack_id = stack->stack_id};
	return 0;
}

void unnamed_weigh(struct unnamed *unnamed, const struct model *model)
{
	struct model_totals totals;
	model_totals(model, &totals);
	unnamed->weights = tm_alloc_array(totals.stacks + 1, sizeof *unnamed->weights);
	unnamed->weight_room = unnamed->weights ? totals.stacks + 1 : 0;
	unnamed->failed |= model_stacks(model, add_weight, unnamed) != 0;
}

/* What is lacking from each row outwards; callers have smaller numbers. */
static int find_sets(struct unnamed *unnamed, const struct stack_ids *stacks,
		     const struct modules_seen *modules, struct lacks *lacks, uint32_t *set_of)
{
	for (uint32_t id = 1; id < stacks->count; id++) {
		const struct trace_stack *row = &stacks->rows[id];
		uint32_t set = set_of[row->parent_id];
		set_of[id] = set;
		if (row->module_id == TRACE_MODULE_MARK)
			continue;
		uint32_t module_id = row->module_id < modules->count ? row->module_id : 0;
		const struct module *module = &unnamed->modules[module_id];
		if (module->skipped ||
		    (!module->has_ends && lacks_has(lacks, set, module->same_path, module->wants)))
			continue; /* whatever it lacks, some caller in its module does, too */
		const struct address *entry = &unnamed->addresses[slot_of(
			unnamed, row->module_id, symbols_lookup_address(row->pc))];
		unsigned flags = entry->flags ? entry->flags : module->bare;
		if (flags & ADDRESS_ENDS)
			set = 0;
		int code = lacks_add(lacks, set, module->same_path,
				     flags & (LACKS_NAME | LACKS_LINE), &set_of[id]);
		if (code)
			return code;
	}
	return 0;
}

/* ---- the answer ---- */

struct judging {
	struct unnamed *unnamed;
	const struct modules_seen *modules;
	struct lacks lacks;
	struct lacks_module *sums; /* by module_id */
	uint64_t bytes;
};

static bool same_text(const void *ctx, uint32_t id, const void *key)
{
	return !strcmp(path_of(ctx, id), key);
}

/* All modules are known then, and those of one path are one. */
static int join_modules(struct unnamed *unnamed, const struct modules_seen *modules)
{
	struct idmap by_text = {0};
	int code = 0;
	for (uint32_t id = 0; id < modules->count && !code; id++) {
		const char *path = path_of(modules, id);
		struct module *module = module_of(unnamed, modules, id);
		if (!module || module->skipped) {
			code = module ? 0 : -ENOMEM;
			continue;
		}
		uint64_t hash = hash_bytes(path, strlen(path));
		uint32_t first = idmap_find(&by_text, hash, same_text, modules, path);
		if (first == IDMAP_NONE) {
			code = idmap_add(&by_text, hash, id);
			continue;
		}
		module->same_path = first;
		unnamed->modules[first].signs.rust |= module->signs.rust;
		unnamed->modules[first].signs.mapped |= module->signs.mapped;
	}
	idmap_done(&by_text);
	return code;
}

static int add_up(struct judging *judging, const struct stack_ids *stacks)
{
	struct unnamed *unnamed = judging->unnamed;
	struct lacks_module any;
	uint32_t *set_of = tm_alloc_array(stacks->count, sizeof *set_of);
	judging->sums = tm_alloc_array(judging->modules->count, sizeof *judging->sums);
	int code = set_of && judging->sums ? lacks_init(&judging->lacks) : -ENOMEM;
	if (!code)
		code = find_sets(unnamed, stacks, judging->modules, &judging->lacks, set_of);
	for (size_t i = 0; i < unnamed->weight_count && !code; i++) {
		uint32_t id = unnamed->weights[i].stack_id;
		lacks_count(&judging->lacks, id < stacks->count ? set_of[id] : 0,
			    unnamed->weights[i].bytes);
	}
	if (!code)
		lacks_sum(&judging->lacks, judging->sums, &any, &judging->bytes);
	lacks_done(&judging->lacks);
	tm_free(set_of);
	return code;
}

static bool is_share(uint64_t part, uint64_t whole, unsigned per_cent)
{
	return whole && part >= whole / 100 * per_cent && part > 0;
}

/* Who has no name has no line. Of modules whose lines are not looked at that is all we know. */
static uint64_t at_least(const struct lacks_module *sum, unsigned kind)
{
	return sum->bytes[kind] > sum->bytes[0] ? sum->bytes[kind] : sum->bytes[0];
}

/* In the order of 'tidemark report --symbols'. */
static bool is_before(const struct judging *judging, uint32_t a, uint32_t b)
{
	for (unsigned kind = 0; kind < LACKS_KINDS; kind++) {
		uint64_t x = at_least(&judging->sums[a], kind),
			 y = at_least(&judging->sums[b], kind);
		if (x != y)
			return x > y;
	}
	return strcmp(path_of(judging->modules, a), path_of(judging->modules, b)) < 0;
}

static enum cure cure_for(const struct judging *judging, uint32_t module_id)
{
	return cure_of(path_of(judging->modules, module_id),
		       judging->unnamed->modules[module_id].signs, judging->modules->rows,
		       judging->modules->count);
}

/* The module that most bytes lack names of, else lines of; UINT32_MAX: none is worth a word. */
static uint32_t choose(const struct judging *judging, bool lines)
{
	unsigned kind = lines ? 1 : 0, least = lines ? LINES_PER_CENT : NAMES_PER_CENT;
	uint32_t best = UINT32_MAX;
	for (uint32_t id = 0; id < judging->modules->count; id++)
		if (is_share(judging->sums[id].bytes[kind], judging->bytes, least) &&
		    (lines || cure_for(judging, id) != CURE_MAP) &&
		    (best == UINT32_MAX || is_before(judging, id, best)))
			best = id;
	return best;
}

static void answer(const struct judging *judging, struct unnamed_answer *ret_answer)
{
	bool lines = false;
	uint32_t id = choose(judging, false);
	if (id == UINT32_MAX) {
		lines = true;
		id = choose(judging, true);
	}
	if (id == UINT32_MAX)
		return;
	const char *path = path_of(judging->modules, id);
	const char *name = *path == '[' ? path : package_base_name(path);
	ret_answer->cure = cure_for(judging, id);
	ret_answer->lines_only = lines;
	ret_answer->bytes = judging->sums[id].bytes[lines];
	ret_answer->of_bytes = judging->bytes;
	strncpy(ret_answer->module, name, sizeof ret_answer->module - 1);
}

void unnamed_judge(struct unnamed *unnamed, const struct stack_ids *stacks,
		   const struct modules_seen *modules, struct unnamed_answer *ret_answer)
{
	struct judging judging = {.unnamed = unnamed, .modules = modules};
	*ret_answer = (struct unnamed_answer){0};
	if (unnamed->failed || !unnamed->weight_count)
		return;
	if (!join_modules(unnamed, modules) && !unnamed->failed && !add_up(&judging, stacks))
		answer(&judging, ret_answer);
	tm_free(judging.sums);
}
