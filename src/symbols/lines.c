/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units are found by their code ranges (read once, from the units themselves:
 * clang writes no .debug_aranges); a unit's line table and scopes are decoded
 * when an address first falls into it.
 */
#include "symbols/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "symbols/scopes.h"

enum { UNITS_MAX = 1 << 20, RANGES_MAX = 1 << 16, NAME_ROOM = 32 * 1024, LOOK_BACK = 16 };

struct unit {
	Dwarf_Die skeleton; /* has the line table */
	Dwarf_Die body;     /* has the entries; the same unless they were split off */
	bool is_loaded, is_bad;
	struct scopes scopes;
};

struct range {
	uint64_t low, high;
	uint32_t unit;
};

struct lines {
	Dwarf *dwarf;
	uint64_t *budget_ns;
	struct unit *units;
	size_t unit_count, unit_room;
	struct range *ranges; /* sorted by low */
	size_t range_count, range_room;
};

static uint64_t cpu_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void charge(struct lines *lines, uint64_t since_ns)
{
	uint64_t used = cpu_ns() - since_ns;
	*lines->budget_ns = used < *lines->budget_ns ? *lines->budget_ns - used : 0;
}

/* The bytes of debug information, 0 if there is none. */
static uint64_t debug_bytes(const struct elffile *file)
{
	size_t names;
	uint64_t bytes = 0;
	bool has_info = false;
	Elf_Scn *section = NULL;
	if (elf_getshdrstrndx(file->elf, &names))
		return 0;
	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;
		const char *name;
		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS ||
		    !(name = elf_strptr(file->elf, names, header.sh_name)))
			continue;
		if (strncmp(name, ".debug_", 7) != 0 && strncmp(name, ".zdebug_", 8) != 0)
			continue;
		has_info |= !strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info");
		if (__builtin_add_overflow(bytes, header.sh_size, &bytes))
			return UINT64_MAX;
	}
	return has_info ? bytes : 0;
}

static int add_range(struct lines *lines, uint64_t low, uint64_t high)
{
	if (lines->range_count == lines->range_room) {
		size_t room = lines->range_room * 2 + 256;
		void *grown = tm_grow_array(lines->ranges, room, sizeof *lines->ranges);
		if (!grown)
			return -ENOMEM;
		lines->ranges = grown;
		lines->range_room = room;
	}
	lines->ranges[lines->range_count++] = (struct range){
		.low = low,
		.high = high,
		.unit = (uint32_t)(lines->unit_count - 1),
	};
	return 0;
}

static int add_unit(struct lines *lines, const Dwarf_Die *skeleton, const Dwarf_Die *body)
{
	if (lines->unit_count == lines->unit_room) {
		size_t room = lines->unit_room * 2 + 64;
		void *grown = tm_grow_array(lines->units, room, sizeof *lines->units);
		if (!grown)
			return -ENOMEM;
		lines->units = grown;
		lines->unit_room = room;
	}
	struct unit *unit = &lines->units[lines->unit_count++];
	*unit = (struct unit){.skeleton = *skeleton, .body = *body};
	Dwarf_Addr base, low, high;
	ptrdiff_t offset = 0;
	for (int i = 0; i < RANGES_MAX; i++) {
		offset = dwarf_ranges(&unit->skeleton, offset, &base, &low, &high);
		if (offset <= 0)
			break;
		/* A function that the linker dropped keeps its entry at address 0. */
		if (low > 0 && low < high && add_range(lines, low, high))
			return -ENOMEM;
	}
	return 0;
}

static int by_low(const void *left, const void *right)
{
	const struct range *a = left, *b = right;
	return (a->low > b->low) - (a->low < b->low);
}

static int index_units(struct lines *lines)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die, split;
	uint8_t type;
	while (lines->unit_count < UNITS_MAX && *lines->budget_ns &&
	       dwarf_get_units(lines->dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		bool is_split = type == DW_UT_skeleton && split.addr;
		if (add_unit(lines, &die, is_split ? &split : &die))
			return -ENOMEM;
	}
	if (lines->range_count)
		qsort(lines->ranges, lines->range_count, sizeof *lines->ranges, by_low);
	return 0;
}

int lines_open(struct lines **ret_lines, const struct elffile *file,
	       const struct lines_limits *limits)
{
	uint64_t bytes = debug_bytes(file), began = cpu_ns();
	if (!bytes || !*limits->budget_ns)
		return -ENODATA;
	if (bytes > limits->max_bytes)
		return -EFBIG;
	struct lines *lines = tm_alloc(sizeof *lines);
	if (!lines)
		return -ENOMEM;
	lines->budget_ns = limits->budget_ns;
	lines->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	int code = lines->dwarf ? index_units(lines) : -ENODATA;
	charge(lines, began);
	if (code) {
		lines_close(lines);
		return code;
	}
	*ret_lines = lines;
	return 0;
}

struct lines *lines_close(struct lines *lines)
{
	if (!lines)
		return NULL;
	for (size_t i = 0; i < lines->unit_count; i++)
		scopes_done(&lines->units[i].scopes);
	tm_free(lines->units);
	tm_free(lines->ranges);
	if (lines->dwarf)
		dwarf_end(lines->dwarf);
	return tm_free(lines);
}

static struct unit *find_unit(struct lines *lines, uint64_t address)
{
	size_t low = 0, high = lines->range_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (lines->ranges[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > 0 && low - i <= LOOK_BACK;)
		if (address < lines->ranges[i].high)
			return &lines->units[lines->ranges[i].unit];
	return NULL;
}

static bool load_unit(struct lines *lines, struct unit *unit)
{
	if (!unit->is_loaded && *lines->budget_ns) {
		uint64_t began = cpu_ns();
		unit->is_loaded = true;
		unit->is_bad = scopes_init(&unit->scopes, &unit->body) != 0;
		charge(lines, began);
	}
	return unit->is_loaded && !unit->is_bad;
}

static const char *intern(struct strpool *strings, const char *text)
{
	return text ? strpool_intern(strings, text, strlen(text)) : NULL;
}

/* The name that the symbol table would have (with its namespaces), else the plain one. */
static const char *function_name(struct strpool *strings, Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *mangled = NULL;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		mangled = dwarf_formstring(&attribute);
	if (!mangled)
		return intern(strings, dwarf_diename(die));
	char name[NAME_ROOM];
	symbols_demangle(mangled, name, sizeof name);
	return intern(strings, name);
}

static uint32_t number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value = 0;
	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) ||
	    value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

struct place {
	const char *file;
	uint32_t line, column;
};

/* Where an inlined function was called. */
static struct place call_place(struct strpool *strings, struct unit *unit, Dwarf_Die *die)
{
	struct place place = {.line = number_of(die, DW_AT_call_line),
			      .column = number_of(die, DW_AT_call_column)};
	Dwarf_Files *files;
	size_t count, file = number_of(die, DW_AT_call_file);
	if (!dwarf_getsrcfiles(&unit->skeleton, &files, &count) && file < count)
		place.file = intern(strings, dwarf_filesrc(files, file, NULL, NULL));
	return place;
}

static struct place line_place(struct lines *lines, struct strpool *strings, struct unit *unit,
			       uint64_t address)
{
	uint64_t began = cpu_ns();
	struct place place = {0};
	Dwarf_Line *line = dwarf_getsrc_die(&unit->skeleton, address);
	int number = 0, column = 0;
	if (line) {
		place.file = intern(strings, dwarf_linesrc(line, NULL, NULL));
		if (!dwarf_lineno(line, &number) && number > 0)
			place.line = (uint32_t)number;
		if (!dwarf_linecol(line, &column) && column > 0)
			place.column = (uint32_t)column;
	}
	charge(lines, began);
	return place;
}

size_t lines_find(struct lines *lines, struct strpool *strings, uint64_t elf_address,
		  struct symbols_frame frames[SYMBOLS_CHAIN_MAX])
{
	struct unit *unit = find_unit(lines, elf_address);
	if (!unit || !load_unit(lines, unit))
		return 0;
	const struct scope *scopes[SYMBOLS_CHAIN_MAX];
	size_t count = scopes_find(&unit->scopes, elf_address, scopes, SYMBOLS_CHAIN_MAX);
	struct place place = line_place(lines, strings, unit, elf_address);
	for (size_t i = 0; i < count; i++) {
		Dwarf_Die die;
		const char *name = NULL;
		/* Scopes come outermost first, frames innermost first. */
		if (dwarf_offdie(dwarf_cu_getdwarf(unit->body.cu), scopes[count - 1 - i]->die,
				 &die))
			name = function_name(strings, &die);
		if (!name)
			return 0;
		frames[i] = (struct symbols_frame){
			.function = name,
			.file = place.file,
			.line = place.line,
			.column = place.column,
			.inlined = i + 1 < count,
			.source = TRACE_SYM_DWARF,
		};
		place = call_place(strings, unit, &die);
	}
	return count;
}
