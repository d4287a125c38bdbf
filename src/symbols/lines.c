/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units are found by their code ranges (read once, from the units themselves:
 * clang writes no .debug_aranges). A unit's functions and line table are decoded
 * when an address first falls into it, what is inlined into a function when an
 * address first falls into that. Addresses come sorted, so only what was used
 * last is kept.
 */
#include "symbols/lines.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "symbols/linetable.h"
#include "symbols/namemap.h"
#include "symbols/rangelist.h"
#include "symbols/scopes.h"
#include "symbols/split.h"
#include "symbols/tail.h"

enum {
	NAME_ROOM = 32 * 1024,
	LOOK_BACK = 1024,
	TRIES_MAX = 16,
	TIMED_ONE_OF = 16,
	TREE_ASKED_MIN = 3
};
/* Decoded units beyond this are let go. */
enum { KEPT_BYTES = 48 << 20 };

/* What is decoded of one unit. */
struct part {
	struct unit *skeleton; /* has the line table */
	struct unit *body;     /* has the entries; the same unless they were split off */
	struct split *split;
	bool split_tried, has_functions, has_table;
	struct functions functions;
	struct linetable table;
	const char **paths;   /* by file number, made when asked for */
	struct namemap names; /* by the offset of the entry that has the name */
	struct tail tail;
};

struct place {
	const char *file;
	uint32_t line, column;
};

/* One function of the chain at an address. */
struct link {
	uint64_t die;
	const char *name;
	bool is_plain;
	struct place call; /* where it was called, if it is inlined */
};

struct lines {
	const struct elffile *file;
	const struct debugfile_search *search;
	struct lines_limits limits;
	struct image image, alt_image;
	struct dwarf dwarf, alt;
	struct split_package *package;
	bool package_tried, has_alt;
	struct part *parts;      /* one per unit of dwarf */
	struct rangelist ranges; /* of code, owned by parts */
	size_t kept_bytes;
	const struct part *tree_part; /* the function that was asked for last */
	uint64_t tree_die;
	struct scopes tree; /* of it, once has_tree */
	bool has_tree;
	uint32_t tree_asked; /* how often again */
	uint32_t questions;
	struct part *chain_part; /* the chain that was found last, outermost first */
	struct link chain[SYMBOLS_CHAIN_MAX];
	size_t chain_count;
	struct namemap demangled; /* by the mangled name's place in the file */
	lines_demangle_fn demangle;
};

static void charge_ns(struct lines *lines, uint64_t used_ns)
{
	uint64_t *left = lines->limits.budget_ns;
	*left = used_ns < *left ? *left - used_ns : 0;
}

static void charge(struct lines *lines, uint64_t since_ns)
{
	charge_ns(lines, clock_thread_ns() - since_ns);
}

/* ---- the index of the units ---- */

struct add_range {
	struct lines *lines;
	uint32_t part;
	bool any;
};

static int add_range(void *ctx, uint64_t low, uint64_t high)
{
	struct add_range *add = ctx;
	add->any = true;
	return rangelist_add(&add->lines->ranges, low, high, add->part);
}

static struct unit *part_body(struct lines *lines, struct part *part)
{
	if (part->skeleton->type != DW_UT_skeleton || part->split_tried)
		return part->body;
	part->split_tried = true;
	if (!lines->package_tried && split_package_open(&lines->package, lines->file, lines->search,
							lines->limits.max_bytes))
		lines->package = NULL;
	lines->package_tried = true;
	if (!split_open(&part->split, part->skeleton, lines->package, lines->file, lines->search,
			lines->limits.max_bytes))
		part->body = split_unit(part->split);
	return part->body;
}

/* A unit that does not say where its code is: its functions do. */
static int add_function_ranges(struct lines *lines, uint32_t index)
{
	struct part *part = &lines->parts[index];
	struct functions functions;
	struct add_range add = {.lines = lines, .part = index};
	int code = functions_load(&functions, part_body(lines, part), false);
	for (size_t i = 0; !code && i < functions.count; i++)
		code = add_range(&add, functions.list[i].low, functions.list[i].high);
	functions_done(&functions);
	unit_unload(part->body);
	return code == -EFBIG ? 0 : code;
}

static int index_unit(struct lines *lines, uint32_t index)
{
	struct unit *unit = &lines->dwarf.units[index];
	lines->parts[index] = (struct part){.skeleton = unit, .body = unit};
	if (unit->type != DW_UT_compile && unit->type != DW_UT_skeleton)
		return 0;
	struct die root;
	struct add_range add = {.lines = lines, .part = index};
	int code = unit_root(unit, &root);
	if (code)
		return code == -ENOMEM ? code : 0;
	bool is_partial = root.abbrev->tag == DW_TAG_partial_unit;
	code = die_ranges(&root, add_range, &add);
	unit_unload(unit);
	if (!code && !add.any && !is_partial && unit->line_offset != UINT64_MAX)
		code = add_function_ranges(lines, index);
	return code;
}

static int index_units(struct lines *lines)
{
	lines->parts = tm_alloc_array(lines->dwarf.unit_count + 1, sizeof *lines->parts);
	if (!lines->parts)
		return -ENOMEM;
	for (size_t i = 0; i < lines->dwarf.unit_count; i++) {
		int code = index_unit(lines, (uint32_t)i);
		if (code)
			return code;
	}
	rangelist_sort(&lines->ranges);
	return 0;
}

/* ---- opening ---- */

static void open_alt(struct lines *lines)
{
	struct elffile file;
	if (debugfile_open_alt(&file, lines->file, lines->search))
		return;
	if (!image_open(&lines->alt_image, &file, false, lines->limits.max_bytes) &&
	    !dwarf_init(&lines->alt, &lines->alt_image, NULL, NULL))
		lines->has_alt = true;
	elffile_close(&file);
}

static int open_all(struct lines *lines)
{
	int code = image_open(&lines->image, lines->file, false, lines->limits.max_bytes);
	if (code)
		return code;
	/* The alternate file first: units name their folders in it. */
	open_alt(lines);
	code = dwarf_init(&lines->dwarf, &lines->image, lines->has_alt ? &lines->alt : NULL, NULL);
	return code ? code : index_units(lines);
}

int lines_open(struct lines **ret_lines, const struct elffile *file,
	       const struct debugfile_search *search, const struct lines_limits *limits)
{
	if (!*limits->budget_ns)
		return -ENODATA;
	uint64_t began = clock_thread_ns();
	struct lines *lines = tm_alloc(sizeof *lines);
	if (!lines)
		return -ENOMEM;
	lines->file = file;
	lines->search = search;
	lines->demangle = symbols_demangle;
	lines->limits = *limits;
	int code = open_all(lines);
	charge(lines, began);
	if (code) {
		lines_close(lines);
		return code;
	}
	*ret_lines = lines;
	return 0;
}

void lines_set_demangle(struct lines *lines, lines_demangle_fn demangle)
{
	lines->demangle = demangle;
}

static void unload(struct part *part)
{
	functions_done(&part->functions);
	linetable_done(&part->table);
	part->paths = tm_free(part->paths);
	namemap_done(&part->names);
	tail_done(&part->tail);
	part->has_functions = part->has_table = false;
	unit_unload(part->skeleton);
	unit_unload(part->body);
}

struct lines *lines_close(struct lines *lines)
{
	if (!lines)
		return NULL;
	for (size_t i = 0; lines->parts && i < lines->dwarf.unit_count; i++) {
		if (!lines->parts[i].skeleton)
			break;
		unload(&lines->parts[i]);
		split_close(lines->parts[i].split);
	}
	scopes_done(&lines->tree);
	split_package_close(lines->package);
	dwarf_done(&lines->dwarf);
	dwarf_done(&lines->alt);
	image_close(&lines->image);
	image_close(&lines->alt_image);
	tm_free(lines->parts);
	rangelist_done(&lines->ranges);
	namemap_done(&lines->demangled);
	return tm_free(lines);
}

/* ---- decoding on demand ---- */

/* Before more is decoded, what would be too much together goes. */
static void make_room(struct lines *lines, const struct part *wanted)
{
	if (lines->kept_bytes < KEPT_BYTES)
		return;
	for (size_t i = 0; i < lines->dwarf.unit_count; i++)
		if (&lines->parts[i] != wanted)
			unload(&lines->parts[i]);
	for (size_t i = 0; i < lines->alt.unit_count; i++)
		unit_unload(&lines->alt.units[i]);
	lines->kept_bytes = 0;
}

static bool load_functions(struct lines *lines, struct part *part, bool deep)
{
	if (part->has_functions && (!deep || part->functions.is_deep))
		return true;
	if (!*lines->limits.budget_ns)
		return part->has_functions;
	uint64_t began = clock_thread_ns();
	make_room(lines, part);
	functions_done(&part->functions);
	part->has_functions = true; /* damaged: none */
	(void)!functions_load(&part->functions, part_body(lines, part), deep);
	lines->kept_bytes += part->functions.room * sizeof *part->functions.list +
			     abbrevs_bytes(&part->body->abbrevs);
	charge(lines, began);
	return true;
}

static bool load_table(struct lines *lines, struct part *part)
{
	if (part->has_table)
		return true;
	if (!*lines->limits.budget_ns)
		return false;
	uint64_t began = clock_thread_ns();
	part->has_table = true;
	(void)!linetable_load(&part->table, part->skeleton);
	part->paths = tm_alloc_array(part->table.file_count + 1, sizeof *part->paths);
	lines->kept_bytes += linetable_bytes(&part->table);
	charge(lines, began);
	return true;
}

/*
 * What is inlined into a function at an address, outermost first, and the call
 * site there, 0 if there is none. The first questions about a function are
 * answered by a walk to the one place; when more come all of it is kept.
 */
static size_t find_inlined(struct lines *lines, const struct part *part, uint64_t function,
			   uint64_t address, uint64_t *ret_dies, size_t max, uint64_t *ret_call)
{
	*ret_call = 0;
	bool same = lines->tree_part == part && lines->tree_die == function;
	lines->tree_asked = same ? lines->tree_asked + 1 : 0;
	bool again = lines->tree_asked >= TREE_ASKED_MIN;
	if (again && lines->has_tree) {
		*ret_call = scopes_call(&lines->tree, address + 1);
		return scopes_find(&lines->tree, address, ret_dies, max);
	}
	if (!*lines->limits.budget_ns)
		return 0;
	/* One in so many is timed: asking for the time takes as long as a short answer. */
	bool timed = lines->questions++ % TIMED_ONE_OF == 0;
	uint64_t began = timed ? clock_thread_ns() : 0;
	size_t count = 0;
	scopes_done(&lines->tree);
	lines->tree_part = part;
	lines->tree_die = function;
	lines->has_tree = again && !scopes_load(&lines->tree, part->body, function);
	if (lines->has_tree) {
		*ret_call = scopes_call(&lines->tree, address + 1);
		count = scopes_find(&lines->tree, address, ret_dies, max);
	} else {
		count = scopes_search(part->body, function, address, ret_dies, max, ret_call);
	}
	if (timed)
		charge_ns(lines, (clock_thread_ns() - began) * TIMED_ONE_OF);
	return count;
}

/* ---- answers ---- */

static const char *intern(struct strpool *strings, const char *text)
{
	return text ? strpool_intern(strings, text, strlen(text)) : NULL;
}

/* The linker keeps equal names once, so one place serves all units of a file. */
static const char *demangle(struct lines *lines, struct strpool *strings, const char *mangled)
{
	const struct namemap_entry *known = namemap_find(&lines->demangled, (uintptr_t)mangled);
	if (known)
		return known->name;
	char name[NAME_ROOM];
	lines->demangle(mangled, name, sizeof name);
	const char *kept = intern(strings, name);
	if (kept)
		namemap_put(&lines->demangled,
			    (struct namemap_entry){.key = (uintptr_t)mangled, .name = kept});
	return kept;
}

/* The entry that names a function: most are instances of one in the same unit. */
static uint64_t naming_entry(const struct die *die)
{
	struct value origin = die_value(die, DW_AT_abstract_origin);
	bool is_near = origin.form == DW_FORM_ref4 || origin.form == DW_FORM_ref8 ||
		       origin.form == DW_FORM_ref_udata;
	return is_near ? origin.number + die->unit->offset : die->offset;
}

static const char *name_of(struct lines *lines, struct part *part, struct strpool *strings,
			   const struct die *die, bool *ret_plain)
{
	uint64_t key = naming_entry(die);
	const struct namemap_entry *known = namemap_find(&part->names, key);
	if (known) {
		*ret_plain = known->flag;
		return known->name;
	}
	const char *mangled = die_function_name(die, ret_plain);
	const char *name = mangled ? demangle(lines, strings, mangled) : NULL;
	if (name) {
		namemap_put(&part->names,
			    (struct namemap_entry){.key = key, .name = name, .flag = *ret_plain});
		lines->kept_bytes += 2 * sizeof *known;
	}
	return name;
}

static const char *path_of(struct part *part, struct strpool *strings, uint32_t file)
{
	if (!part->paths || file >= part->table.file_count)
		return NULL;
	if (!part->paths[file]) {
		struct text path = {0};
		if (linetable_path(&part->table, file, &path) && !text_error(&path))
			part->paths[file] = intern(strings, text_string(&path));
		text_done(&path);
	}
	return part->paths[file];
}

static uint32_t number_of(const struct die *die, unsigned name)
{
	struct value value = die_value(die, name);
	return value.number > UINT32_MAX ? 0 : (uint32_t)value.number;
}

/* Where an inlined function was called. */
static struct place call_place(struct part *part, struct strpool *strings, const struct die *die)
{
	return (struct place){
		.file = path_of(part, strings, number_of(die, DW_AT_call_file)),
		.line = number_of(die, DW_AT_call_line),
		.column = number_of(die, DW_AT_call_column),
	};
}

static struct place line_place(struct lines *lines, struct part *part, struct strpool *strings,
			       uint64_t address)
{
	struct place place = {0};
	if (!load_table(lines, part))
		return place;
	const struct linetable_row *row = linetable_find(&part->table, address);
	if (row) {
		place.file = path_of(part, strings, row->file);
		place.line = row->line;
		place.column = row->column;
	}
	return place;
}

/* The function that is called at the address, if it may have tail-called. Returns 1 if so. */
static size_t add_callee(struct lines *lines, struct part *part, struct strpool *strings,
			 uint64_t call, struct lines_answer *answer)
{
	struct die callee;
	bool is_plain;
	if (!call || !tail_callee(&part->tail, part->body, &part->functions, call, &callee))
		return 0;
	const char *name = name_of(lines, part, strings, &callee, &is_plain);
	if (!name)
		return 0;
	struct value origin = die_value(&callee, DW_AT_abstract_origin);
	if (!number_of(&callee, DW_AT_decl_line) && origin.form)
		(void)!die_follow(part->body, &origin, &callee);
	answer->frames[0] = (struct symbols_frame){
		.function = name,
		.file = path_of(part, strings, number_of(&callee, DW_AT_decl_file)),
		.line = number_of(&callee, DW_AT_decl_line),
		.inlined = true,
		.is_callee = true,
		.source = TRACE_SYM_DWARF,
	};
	return 1;
}

/* One entry of the chain at an address: its name, and where it was called if it is inlined. */
static bool read_link(struct lines *lines, struct part *part, struct strpool *strings,
		      struct link *link)
{
	struct die die;
	if (!die_at(part->body, link->die, &die))
		return false;
	link->name = name_of(lines, part, strings, &die, &link->is_plain);
	link->call = call_place(part, strings, &die);
	return link->name != NULL;
}

/*
 * The chain of entries at an address, outermost first. What the chain before it
 * began with is there already: neighbours have most of it in common.
 */
static bool read_chain(struct lines *lines, struct part *part, struct strpool *strings,
		       const uint64_t *dies, size_t count)
{
	size_t same = 0;
	if (lines->chain_part == part)
		while (same < count && same < lines->chain_count &&
		       lines->chain[same].die == dies[same])
			same++;
	lines->chain_part = part;
	for (lines->chain_count = same; lines->chain_count < count; lines->chain_count++) {
		struct link *link = &lines->chain[lines->chain_count];
		*link = (struct link){.die = dies[lines->chain_count]};
		if (!read_link(lines, part, strings, link))
			return false;
	}
	lines->chain_count = count;
	return true;
}

/* The function and what is inlined into it at the address, innermost first. */
static void add_frames(struct lines *lines, struct part *part, struct strpool *strings,
		       uint64_t function, uint64_t address, struct lines_answer *answer)
{
	uint64_t dies[SYMBOLS_CHAIN_MAX] = {function};
	uint64_t call;
	size_t count = 1 + find_inlined(lines, part, function, address, dies + 1,
					SYMBOLS_CHAIN_MAX - 2, &call);
	if (!read_chain(lines, part, strings, dies, count))
		return;
	struct place place = {answer->file, answer->line, answer->column};
	size_t at = add_callee(lines, part, strings, call, answer);
	for (size_t i = count; i-- > 0;) {
		const struct link *link = &lines->chain[i];
		answer->frames[at++] = (struct symbols_frame){
			.function = link->name,
			.file = place.file,
			.line = place.line,
			.column = place.column,
			.inlined = i > 0,
			.source = TRACE_SYM_DWARF,
		};
		place = link->call;
	}
	answer->count = at;
	answer->is_plain = lines->chain[0].is_plain;
}

/* Tries the units that claim the address until one has a function there. */
static bool find_among(struct lines *lines, struct strpool *strings, uint64_t address, bool deep,
		       struct lines_answer *answer)
{
	uint32_t owners[TRIES_MAX];
	size_t count = rangelist_find(&lines->ranges, address, owners, TRIES_MAX);
	for (size_t i = 0; i < count; i++) {
		struct part *part = &lines->parts[owners[i]];
		if (!load_functions(lines, part, deep))
			continue;
		const struct scope_function *function = functions_find(&part->functions, address);
		if (function || !answer->file) {
			struct place place = line_place(lines, part, strings, address);
			answer->file = place.file;
			answer->line = place.line;
			answer->column = place.column;
		}
		if (function)
			add_frames(lines, part, strings, function->die, address, answer);
		if (answer->count)
			return true;
	}
	return false;
}

void lines_find(struct lines *lines, struct strpool *strings, uint64_t elf_address,
		struct lines_answer *ret_answer)
{
	ret_answer->count = 0;
	ret_answer->is_plain = false;
	ret_answer->file = NULL;
	ret_answer->line = ret_answer->column = 0;
	/* A function inside a function is looked for only when there is no other. */
	if (!find_among(lines, strings, elf_address, false, ret_answer))
		find_among(lines, strings, elf_address, true, ret_answer);
}
