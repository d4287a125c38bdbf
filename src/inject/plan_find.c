/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan_find.h"

#include <emmintrin.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "inject/plan_nim.h"

/* What the tables are searched with. */
struct search {
	const struct plan_source *source;
	struct plan_prefixes prefixes;
	bool wants_malloc;       /* some of the module's code calls another module's malloc */
	struct plan_sieve sieve; /* lets through what match() may take */
	struct plan_found found;
};

static bool has_name(const struct plan_table *table, const char *name)
{
	return memmem(table->names, table->name_bytes, name, strlen(name) + 1) != NULL;
}

static bool has_prefixed(const struct plan_table *table, const char *prefix, size_t prefix_bytes,
			 const char *rest)
{
	char name[PLAN_PREFIX_BYTES + 16];
	if (prefix_bytes >= PLAN_PREFIX_BYTES)
		return false;
	int bytes = snprintf(name, sizeof name, "%.*s%s", (int)prefix_bytes, prefix, rest);
	return bytes > 0 && has_name(table, name);
}

/* Others have functions that end so: jemalloc has these, too. */
static bool is_jemalloc(const struct plan_table *table, const char *name)
{
	size_t prefix_bytes = strlen(name) - strlen("mallocx");
	return has_prefixed(table, name, prefix_bytes, "dallocx") &&
	       has_prefixed(table, name, prefix_bytes, "sdallocx") &&
	       has_prefixed(table, name, prefix_bytes, "mallctl");
}

/* The next name in [at, end) that ends with an x: its NUL, or NULL. Few do. */
static const char *next_x(const char *at, const char *end)
{
	const __m128i x = _mm_set1_epi8('x'), none = _mm_setzero_si128();
	for (; end - at > (ptrdiff_t)sizeof x; at += sizeof x) {
		__m128i here = _mm_loadu_si128((const __m128i *)at);
		__m128i behind = _mm_loadu_si128((const __m128i *)(at + 1));
		int found = _mm_movemask_epi8(
			_mm_and_si128(_mm_cmpeq_epi8(here, x), _mm_cmpeq_epi8(behind, none)));
		if (found)
			return at + __builtin_ctz((unsigned)found) + 1;
	}
	for (; end - at > 1; at++)
		if (at[0] == 'x' && !at[1])
			return at + 1;
	return NULL;
}

/* Names are searched as bytes: a prefix shows itself without a walk over all symbols. */
static void find_prefixes(const struct plan_table *table, struct plan_prefixes *prefixes)
{
	static const char last[] = "_mallocx";
	const size_t bytes = sizeof last - 1;
	const char *at = table->names, *end = at + table->name_bytes;
	while ((at = next_x(at, end))) {
		const char *start = at;
		if (at - table->names < (ptrdiff_t)bytes || memcmp(at - bytes, last, bytes) != 0)
			continue;
		while (start > table->names && start[-1])
			start--;
		if (is_jemalloc(table, start))
			plan_prefixes_add(prefixes, start);
	}
}

static bool is_of_start(uint8_t hook)
{
	return hook == WIRE_HOOK_EXEC || hook == WIRE_HOOK_PRCTL || hook == WIRE_HOOK_SYSCALL;
}

static bool is_wanted(const struct search *search, const Elf64_Sym *symbol,
		      const struct plan_candidate *candidate)
{
	unsigned what = search->source->what;
	switch (candidate->match.family) {
	case PLAN_FAMILY_CUSTOM:
		return true;
	case PLAN_FAMILY_LIBC:
	case PLAN_FAMILY_CXX:
		/* A file's own function of that name is another thing, unless it hides the real. */
		return (what & PLAN_LIBC) &&
		       (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL || !search->wants_malloc);
	case PLAN_FAMILY_SYSTEM:
		if (is_of_start(candidate->match.name->site.hook) && !(what & PLAN_EXEC))
			return false;
		return (what & PLAN_SYSTEM) && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
		       !candidate->flaw;
	case PLAN_FAMILY_JEMALLOC:
	case PLAN_FAMILY_MIMALLOC:
	case PLAN_FAMILY_TCMALLOC:
	case PLAN_FAMILY_NIM:
	case PLAN_FAMILY_COUNT:
		break;
	}
	return what & PLAN_NATIVE;
}

/* The part of a name before what the compiler appends to a variant; is it one? */
static bool is_variant(const char *name, size_t *ret_bytes)
{
	const char *dot = strchr(name, '.');
	*ret_bytes = dot ? (size_t)(dot - name) : strlen(name);
	return dot && (strncmp(dot, ".constprop", 10) == 0 || strncmp(dot, ".isra", 5) == 0);
}

static bool match_hook(const struct search *search, const char *name,
		       struct plan_candidate *candidate)
{
	const struct plan_hooks *hooks = search->source->hooks;
	size_t bytes;
	bool variant = is_variant(name, &bytes);
	for (size_t i = 0; hooks && i < hooks->count; i++) {
		const struct plan_name *hook = &hooks->list[i].name;
		if (strncmp(hook->name, name, bytes) != 0 || hook->name[bytes] ||
		    (name[bytes] && !variant))
			continue;
		candidate->match = (struct plan_match){hook, PLAN_FAMILY_CUSTOM, WIRE_API_CUSTOM};
		candidate->hook = (uint8_t)i;
		return true;
	}
	return false;
}

static bool match(const struct search *search, const char *name, struct plan_candidate *candidate)
{
	size_t bytes;
	bool variant = is_variant(name, &bytes);
	candidate->hook = PLAN_NO_HOOK;
	candidate->flaw = variant ? PLAN_FLAW_VARIANT : PLAN_FLAW_NONE;
	if (match_hook(search, name, candidate))
		return true;
	return plan_names_find(name, &search->prefixes, &candidate->match) &&
	       (variant || !name[bytes]);
}

/* False: a symbol of a kind that means nothing (a file, a section). */
static bool judge_type(const Elf64_Sym *symbol, struct plan_candidate *candidate)
{
	switch (ELF64_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_NOTYPE:
		return true;
	case STT_GNU_IFUNC:
		candidate->flaw = PLAN_FLAW_IFUNC;
		return true;
	case STT_OBJECT:
	case STT_COMMON:
	case STT_TLS:
		candidate->flaw = PLAN_FLAW_DATA;
		/* Variables of one file may be called free. */
		return ELF64_ST_BIND(symbol->st_info) != STB_LOCAL ||
		       candidate->match.family == PLAN_FAMILY_CUSTOM;
	default:
		return false;
	}
}

static int add(struct search *search, const struct plan_candidate *candidate)
{
	struct plan_found *found = &search->found;
	if (found->count == PLAN_CANDIDATES_MAX)
		return 0;
	if ((found->count & (found->count - 1)) == 0) {
		size_t room = found->count ? 2 * found->count : 1;
		struct plan_candidate *grown = tm_grow_array(found->list, room, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		found->list = grown;
	}
	found->list[found->count++] = *candidate;
	return 0;
}

static int search_table(struct search *search, const struct plan_table *table)
{
	int error = 0;
	for (size_t i = 0; i < table->count && !error; i++) {
		const Elf64_Sym *symbol = &table->symbols[i];
		const char *name = plan_elf_name(table, symbol);
		struct plan_candidate candidate = {.name = name,
						   .address = symbol->st_value,
						   .bytes = symbol->st_size,
						   .dynamic = table->dynamic,
						   .next = UINT64_MAX};
		if (symbol->st_shndx != SHN_UNDEF && plan_sieve_passes(&search->sieve, name) &&
		    match(search, name, &candidate) && judge_type(symbol, &candidate) &&
		    is_wanted(search, symbol, &candidate))
			error = add(search, &candidate);
	}
	return error;
}

/* "malloc", or "malloc@GLIBC_2.2.5", which somebody else defines. */
static bool is_foreign_malloc(const struct plan_table *table, const Elf64_Sym *symbol)
{
	const char *name = plan_elf_name(table, symbol);
	return symbol->st_shndx == SHN_UNDEF && strncmp(name, "malloc", 6) == 0 &&
	       (!name[6] || name[6] == '@');
}

static bool wants_malloc(const struct plan_elf *elf)
{
	for (size_t k = 0; k < elf->table_count; k++)
		for (size_t i = 0; i < elf->tables[k].count; i++)
			if (is_foreign_malloc(&elf->tables[k], &elf->tables[k].symbols[i]))
				return true;
	return false;
}

/* The user's word first, then who is the allocator, then how malloc is called. */
static int rank(const struct plan_candidate *candidate)
{
	static const int ranks[PLAN_FAMILY_COUNT] = {
		[PLAN_FAMILY_CUSTOM] = 0,   [PLAN_FAMILY_JEMALLOC] = 1, [PLAN_FAMILY_MIMALLOC] = 1,
		[PLAN_FAMILY_TCMALLOC] = 1, [PLAN_FAMILY_NIM] = 1,      [PLAN_FAMILY_LIBC] = 2,
		[PLAN_FAMILY_CXX] = 3,      [PLAN_FAMILY_SYSTEM] = 4,
	};
	return ranks[candidate->match.family];
}

static int compare(const void *a, const void *b)
{
	const struct plan_candidate *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (rank(x) != rank(y))
		return rank(x) - rank(y);
	size_t x_bytes = strlen(x->name), y_bytes = strlen(y->name);
	if (x_bytes != y_bytes) /* free, not cfree */
		return x_bytes < y_bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Narrows the room of the last candidate before the symbol. */
static void note_neighbour(struct plan_found *found, uint64_t address)
{
	size_t low = 0, high = found->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (found->list[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	/* All names at the same address. */
	for (size_t i = low; i-- && found->list[i].address == found->list[low - 1].address;)
		if (address < found->list[i].next)
			found->list[i].next = address;
}

static void find_neighbours(const struct plan_elf *elf, struct plan_found *found)
{
	for (size_t k = 0; found->count && k < elf->table_count; k++)
		for (size_t i = 0; i < elf->tables[k].count; i++) {
			const Elf64_Sym *symbol = &elf->tables[k].symbols[i];
			unsigned type = ELF64_ST_TYPE(symbol->st_info);
			if (symbol->st_shndx != SHN_UNDEF &&
			    (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC))
				note_neighbour(found, symbol->st_value);
		}
}

/* With PLAN_HIDDEN: leaves out what .dynsym has, under this or another name. */
static void drop_exported(struct plan_found *found)
{
	size_t kept = 0;
	for (size_t i = 0, end; i < found->count; i = end) {
		bool exported = false;
		for (end = i;
		     end < found->count && found->list[end].address == found->list[i].address;
		     end++)
			exported |= found->list[end].dynamic;
		for (size_t k = i; k < end; k++)
			if (!exported || found->list[k].match.family == PLAN_FAMILY_CUSTOM)
				found->list[kept++] = found->list[k];
	}
	found->count = kept;
}

static void make_sieve(struct search *search)
{
	const struct plan_hooks *hooks = search->source->hooks;
	plan_names_sieve(&search->prefixes, &search->sieve);
	for (size_t i = 0; hooks && i < hooks->count; i++)
		plan_sieve_add(&search->sieve, hooks->list[i].name.name);
}

/* Nim's allocator tells of itself (nim/tidemark.nims): then its functions are left alone. */
static void drop_speaking_nim(const struct plan_elf *elf, struct plan_found *found)
{
	size_t kept = 0;
	bool any = false, speaks = false;
	for (size_t i = 0; i < found->count; i++)
		any |= found->list[i].match.family == PLAN_FAMILY_NIM;
	for (size_t k = 0; any && k < elf->table_count; k++)
		speaks |= has_name(&elf->tables[k], "tidemark_nim_heap");
	for (size_t i = 0; speaks && i < found->count; i++)
		if (found->list[i].match.family != PLAN_FAMILY_NIM)
			found->list[kept++] = found->list[i];
	found->count = speaks ? kept : found->count;
}

int plan_find(const struct plan_elf *elf, const struct plan_source *source,
	      struct plan_found *ret_found)
{
	struct search search = {.source = source, .wants_malloc = wants_malloc(elf)};
	int error = 0;
	for (size_t k = 0; k < elf->table_count; k++)
		find_prefixes(&elf->tables[k], &search.prefixes);
	make_sieve(&search);
	for (size_t k = 0; k < elf->table_count && !error; k++)
		error = search_table(&search, &elf->tables[k]);
	if (error) {
		tm_free(search.found.list);
		return error;
	}
	drop_speaking_nim(elf, &search.found);
	if (search.found.count)
		qsort(search.found.list, search.found.count, sizeof *search.found.list, compare);
	if (source->what & PLAN_HIDDEN)
		drop_exported(&search.found);
	plan_nim_check(elf, &search.found);
	find_neighbours(elf, &search.found);
	*ret_found = search.found;
	return 0;
}
