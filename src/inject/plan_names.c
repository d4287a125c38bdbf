/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO WIRE_SITE_NO_ARGUMENT

#define SITE(hook_, size_, count_, alignment_, pointer_, flags_)              \
	{                                                                     \
		.hook = WIRE_HOOK_##hook_, .size = size_, .count = count_,    \
		.alignment = alignment_, .pointer = pointer_, .flags = flags_ \
	}
#define ROW(name_, ...)                                  \
	{                                                \
		.name = name_, .site = SITE(__VA_ARGS__) \
	}
#define NEW(name_, twin_, al)                                                     \
	{                                                                         \
		.name = name_, .site = SITE(NEW, 0, NO, al, NO, 0), .twin = twin_ \
	}
#define FEW          WIRE_SITE_FEW
#define FREE(name_)  ROW(name_, FREE, NO, NO, NO, 0, FEW)
#define ALLOC(name_) ROW(name_, ALLOC, 0, NO, NO, NO, FEW)
/* Those with just one argument: called so often that it counts. */
#define FREE_1(name_)  ROW(name_, FREE, NO, NO, NO, 0, WIRE_SITE_ONE)
#define ALLOC_1(name_) ROW(name_, ALLOC, 0, NO, NO, NO, WIRE_SITE_ONE)

#define AT_ZERO  (WIRE_SITE_FREES_AT_ZERO | FEW)
#define JE_FLAGS WIRE_SITE_JEMALLOC_FLAGS

/* Each table is sorted by name (strcmp). */
static const struct plan_name libc_names[] = {
	ROW("aligned_alloc", ALLOC, 1, NO, 0, NO, FEW),
	ROW("calloc", ALLOC, 1, 0, NO, NO, FEW),
	FREE("cfree"),
	FREE_1("free"),
	FREE("free_aligned_sized"),
	FREE("free_sized"),
	ALLOC_1("malloc"),
	ROW("memalign", ALLOC, 1, NO, 0, NO, FEW),
	ROW("posix_memalign", OUT, 2, NO, 1, 0, FEW),
	ALLOC("pvalloc"),
	ROW("realloc", REALLOC, 1, NO, NO, 0, AT_ZERO),
	ROW("reallocarray", REALLOC, 2, 1, NO, 0, AT_ZERO),
	ALLOC("valloc"),
};

static const struct plan_name jemalloc_names[] = {
	FREE("dallocx"),
	ROW("mallocx", ALLOC, 0, NO, 1, NO, JE_FLAGS),
	ROW("rallocx", REALLOC, 1, NO, 2, 0, JE_FLAGS),
	FREE("sdallocx"),
	ROW("xallocx", XALLOC, 1, NO, 3, 0, JE_FLAGS),
};

static const struct plan_name cxx_names[] = {
	FREE_1("_ZdaPv"),
	FREE("_ZdaPvRKSt9nothrow_t"),
	FREE("_ZdaPvSt11align_val_t"),
	FREE("_ZdaPvSt11align_val_tRKSt9nothrow_t"),
	FREE("_ZdaPvm"),
	FREE("_ZdaPvmSt11align_val_t"),
	FREE_1("_ZdlPv"),
	FREE("_ZdlPvRKSt9nothrow_t"),
	FREE("_ZdlPvSt11align_val_t"),
	FREE("_ZdlPvSt11align_val_tRKSt9nothrow_t"),
	FREE("_ZdlPvm"),
	FREE("_ZdlPvmSt11align_val_t"),
	NEW("_Znam", "_ZnamRKSt9nothrow_t", NO),
	ALLOC("_ZnamRKSt9nothrow_t"),
	NEW("_ZnamSt11align_val_t", "_ZnamSt11align_val_tRKSt9nothrow_t", 1),
	ROW("_ZnamSt11align_val_tRKSt9nothrow_t", ALLOC, 0, NO, 1, NO, FEW),
	NEW("_Znwm", "_ZnwmRKSt9nothrow_t", NO),
	ALLOC("_ZnwmRKSt9nothrow_t"),
	NEW("_ZnwmSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t", 1),
	ROW("_ZnwmSt11align_val_tRKSt9nothrow_t", ALLOC, 0, NO, 1, NO, FEW),
};

static const struct plan_name mimalloc_names[] = {
	ROW("mi_aligned_alloc", ALLOC, 1, NO, 0, NO, FEW),
	ROW("mi_aligned_offset_recalloc", REALLOC, 2, 1, 3, 0, 0),
	ROW("mi_aligned_recalloc", REALLOC, 2, 1, 3, 0, 0),
	ROW("mi_calloc", ALLOC, 1, 0, NO, NO, FEW),
	ROW("mi_calloc_aligned", ALLOC, 1, 0, 2, NO, 0),
	ROW("mi_calloc_aligned_at", ALLOC, 1, 0, 2, NO, 0),
	FREE("mi_cfree"),
	FREE_1("mi_free"),
	FREE("mi_free_aligned"),
	FREE("mi_free_size"),
	FREE("mi_free_size_aligned"),
	ROW("mi_heap_alloc_new", ALLOC, 1, NO, NO, NO, 0),
	ROW("mi_heap_alloc_new_n", ALLOC, 2, 1, NO, NO, 0),
	ROW("mi_heap_calloc", ALLOC, 2, 1, NO, NO, FEW),
	ROW("mi_heap_calloc_aligned", ALLOC, 2, 1, 3, NO, 0),
	ROW("mi_heap_calloc_aligned_at", ALLOC, 2, 1, 3, NO, 0),
	ROW("mi_heap_malloc", ALLOC, 1, NO, NO, NO, FEW),
	ROW("mi_heap_malloc_aligned", ALLOC, 1, NO, 2, NO, 0),
	ROW("mi_heap_malloc_aligned_at", ALLOC, 1, NO, 2, NO, 0),
	ROW("mi_heap_malloc_small", ALLOC, 1, NO, NO, NO, FEW),
	ROW("mi_heap_mallocn", ALLOC, 2, 1, NO, NO, 0),
	ROW("mi_heap_realloc", REALLOC, 2, NO, NO, 1, FEW),
	ROW("mi_heap_realloc_aligned", REALLOC, 2, NO, 3, 1, 0),
	ROW("mi_heap_realloc_aligned_at", REALLOC, 2, NO, 3, 1, 0),
	ROW("mi_heap_reallocf", REALLOCF, 2, NO, NO, 1, 0),
	ROW("mi_heap_reallocn", REALLOC, 3, 2, NO, 1, 0),
	ROW("mi_heap_realpath", TEXT, NO, NO, NO, NO, 0),
	ROW("mi_heap_recalloc", REALLOC, 3, 2, NO, 1, 0),
	ROW("mi_heap_recalloc_aligned", REALLOC, 3, 2, 4, 1, 0),
	ROW("mi_heap_recalloc_aligned_at", REALLOC, 3, 2, 4, 1, 0),
	ROW("mi_heap_rezalloc", REALLOC, 2, NO, NO, 1, 0),
	ROW("mi_heap_rezalloc_aligned", REALLOC, 2, NO, 3, 1, 0),
	ROW("mi_heap_rezalloc_aligned_at", REALLOC, 2, NO, 3, 1, 0),
	ROW("mi_heap_strdup", TEXT, NO, NO, NO, NO, 0),
	ROW("mi_heap_strndup", TEXT, NO, NO, NO, NO, 0),
	ROW("mi_heap_zalloc", ALLOC, 1, NO, NO, NO, FEW),
	ROW("mi_heap_zalloc_aligned", ALLOC, 1, NO, 2, NO, 0),
	ROW("mi_heap_zalloc_aligned_at", ALLOC, 1, NO, 2, NO, 0),
	ALLOC_1("mi_malloc"),
	ROW("mi_malloc_aligned", ALLOC, 0, NO, 1, NO, FEW),
	ROW("mi_malloc_aligned_at", ALLOC, 0, NO, 1, NO, 0),
	ALLOC("mi_malloc_small"),
	ROW("mi_mallocn", ALLOC, 1, 0, NO, NO, FEW),
	ROW("mi_memalign", ALLOC, 1, NO, 0, NO, FEW),
	NEW("mi_new", "mi_new_nothrow", NO),
	NEW("mi_new_aligned", "mi_new_aligned_nothrow", 1),
	ROW("mi_new_aligned_nothrow", ALLOC, 0, NO, 1, NO, 0),
	ROW("mi_new_n", ALLOC, 1, 0, NO, NO, FEW),
	ALLOC("mi_new_nothrow"),
	ROW("mi_new_realloc", REALLOC, 1, NO, NO, 0, FEW),
	ROW("mi_new_reallocn", REALLOC, 2, 1, NO, 0, 0),
	ROW("mi_posix_memalign", OUT, 2, NO, 1, 0, FEW),
	ALLOC("mi_pvalloc"),
	ROW("mi_realloc", REALLOC, 1, NO, NO, 0, FEW),
	ROW("mi_realloc_aligned", REALLOC, 1, NO, 2, 0, 0),
	ROW("mi_realloc_aligned_at", REALLOC, 1, NO, 2, 0, 0),
	ROW("mi_reallocarray", REALLOC, 2, 1, NO, 0, 0),
	ROW("mi_reallocf", REALLOCF, 1, NO, NO, 0, 0),
	ROW("mi_reallocn", REALLOC, 2, 1, NO, 0, FEW),
	ROW("mi_realpath", TEXT, NO, NO, NO, NO, 0),
	ROW("mi_recalloc", REALLOC, 2, 1, NO, 0, FEW),
	ROW("mi_recalloc_aligned", REALLOC, 2, 1, 3, 0, 0),
	ROW("mi_recalloc_aligned_at", REALLOC, 2, 1, 3, 0, 0),
	ROW("mi_rezalloc", REALLOC, 1, NO, NO, 0, FEW),
	ROW("mi_rezalloc_aligned", REALLOC, 1, NO, 2, 0, 0),
	ROW("mi_rezalloc_aligned_at", REALLOC, 1, NO, 2, 0, 0),
	ROW("mi_strdup", TEXT, NO, NO, NO, NO, 0),
	ROW("mi_strndup", TEXT, NO, NO, NO, NO, 0),
	ALLOC("mi_valloc"),
	ALLOC_1("mi_zalloc"),
	ROW("mi_zalloc_aligned", ALLOC, 0, NO, 1, NO, FEW),
	ROW("mi_zalloc_aligned_at", ALLOC, 0, NO, 1, NO, 0),
	ALLOC("mi_zalloc_small"),
};

static const struct plan_name tcmalloc_names[] = {
	ROW("tc_calloc", ALLOC, 1, 0, NO, NO, FEW),
	FREE("tc_cfree"),
	FREE_1("tc_delete"),
	FREE("tc_delete_aligned"),
	FREE("tc_delete_aligned_nothrow"),
	FREE("tc_delete_nothrow"),
	FREE("tc_delete_sized"),
	FREE("tc_delete_sized_aligned"),
	FREE_1("tc_deletearray"),
	FREE("tc_deletearray_aligned"),
	FREE("tc_deletearray_aligned_nothrow"),
	FREE("tc_deletearray_nothrow"),
	FREE("tc_deletearray_sized"),
	FREE("tc_deletearray_sized_aligned"),
	FREE_1("tc_free"),
	FREE("tc_free_sized"),
	ALLOC_1("tc_malloc"),
	ALLOC("tc_malloc_skip_new_handler"),
	ROW("tc_memalign", ALLOC, 1, NO, 0, NO, FEW),
	NEW("tc_new", "tc_new_nothrow", NO),
	NEW("tc_new_aligned", "tc_new_aligned_nothrow", 1),
	ROW("tc_new_aligned_nothrow", ALLOC, 0, NO, 1, NO, FEW),
	ALLOC("tc_new_nothrow"),
	NEW("tc_newarray", "tc_newarray_nothrow", NO),
	NEW("tc_newarray_aligned", "tc_newarray_aligned_nothrow", 1),
	ROW("tc_newarray_aligned_nothrow", ALLOC, 0, NO, 1, NO, FEW),
	ALLOC("tc_newarray_nothrow"),
	ROW("tc_posix_memalign", OUT, 2, NO, 1, 0, FEW),
	ALLOC("tc_pvalloc"),
	ROW("tc_realloc", REALLOC, 1, NO, NO, 0, AT_ZERO),
	ALLOC("tc_valloc"),
};

#define SYSTEM(name_, hook_) ROW(name_, hook_, NO, NO, NO, NO, 0)
static const struct plan_name system_names[] = {
	SYSTEM("_Fork", FORK), /* by which fork does it, where there is one */
	SYSTEM("brk", BRK),           SYSTEM("execve", EXEC),   SYSTEM("fork", FORK),
	SYSTEM("madvise", MADVISE),   SYSTEM("mmap", MMAP),     SYSTEM("mmap64", MMAP),
	SYSTEM("mprotect", MPROTECT), SYSTEM("mremap", MREMAP), SYSTEM("munmap", MUNMAP),
	SYSTEM("prctl", PRCTL),       SYSTEM("sbrk", SBRK),     SYSTEM("syscall", SYSCALL),
};

/* What Nim calls rawAlloc(region, size) and rawDealloc(region, block), before its own suffix. */
static const struct plan_name nim_names[] = {
	ROW("rawAlloc", ALLOC, 1, NO, NO, NO, 0),
	ROW("rawDealloc", FREE, NO, NO, NO, 1, 0),
};

#define TABLE(list) list, sizeof(list) / sizeof((list)[0])
static const struct table {
	enum plan_family family;
	const struct plan_name *names;
	size_t count;
} tables[] = {
	{PLAN_FAMILY_LIBC, TABLE(libc_names)},
	{PLAN_FAMILY_JEMALLOC, TABLE(jemalloc_names)},
	{PLAN_FAMILY_CXX, TABLE(cxx_names)},
	{PLAN_FAMILY_MIMALLOC, TABLE(mimalloc_names)},
	{PLAN_FAMILY_TCMALLOC, TABLE(tcmalloc_names)},
	{PLAN_FAMILY_SYSTEM, TABLE(system_names)},
};

static int compare(const void *key, const void *row)
{
	return strcmp(key, ((const struct plan_name *)row)->name);
}

static const struct plan_name *find_in(const struct table *table, const char *name)
{
	return bsearch(name, table->names, table->count, sizeof *table->names, compare);
}

static enum wire_api api_of(enum plan_family family, const struct plan_name *name)
{
	switch (family) {
	case PLAN_FAMILY_CXX:
		return WIRE_API_NEW;
	case PLAN_FAMILY_JEMALLOC:
		return WIRE_API_JEMALLOC;
	case PLAN_FAMILY_MIMALLOC:
		return WIRE_API_MIMALLOC;
	case PLAN_FAMILY_TCMALLOC:
		return WIRE_API_TCMALLOC;
	case PLAN_FAMILY_NIM:
	case PLAN_FAMILY_CUSTOM:
	case PLAN_FAMILY_SYSTEM:
	case PLAN_FAMILY_COUNT:
		return WIRE_API_CUSTOM;
	case PLAN_FAMILY_LIBC:
		break;
	}
	if (name->site.hook == WIRE_HOOK_REALLOC)
		return WIRE_API_REALLOC;
	if (name->site.count != NO)
		return WIRE_API_CALLOC;
	return name->site.hook == WIRE_HOOK_FREE || !strcmp(name->name, "malloc")
		       ? WIRE_API_MALLOC
		       : WIRE_API_ALIGNED;
}

static bool matches(const struct plan_name *name, enum plan_family family, struct plan_match *ret)
{
	if (name)
		*ret = (struct plan_match){name, family, api_of(family, name)};
	return name != NULL;
}

/*
 * Nim appends "__" and what makes the name unique. A compiler's suffix (.constprop.0)
 * means other arguments: plan.c names it.
 */
static bool find_nim(const char *name, struct plan_match *ret)
{
	for (size_t i = 0; i < sizeof nim_names / sizeof nim_names[0]; i++) {
		size_t bytes = strlen(nim_names[i].name);
		if (strncmp(name, nim_names[i].name, bytes) == 0 &&
		    strncmp(name + bytes, "__", 2) == 0)
			return matches(&nim_names[i], PLAN_FAMILY_NIM, ret);
	}
	return false;
}

static bool find_prefixed(const char *name, const struct plan_prefixes *prefixes,
			  struct plan_match *ret)
{
	for (unsigned i = 0; i < prefixes->count; i++) {
		size_t bytes = strlen(prefixes->list[i]);
		if (strncmp(name, prefixes->list[i], bytes) != 0)
			continue;
		for (size_t k = 0; k < 2; k++) /* malloc's family, and jemalloc's own */
			if (matches(find_in(&tables[k], name + bytes), PLAN_FAMILY_JEMALLOC, ret))
				return true;
	}
	return false;
}

/* Of malloc's family, and jemalloc's own. */
static void sieve_prefixed(const char *prefix, struct plan_sieve *sieve)
{
	char name[PLAN_PREFIX_BYTES + 4];
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < tables[k].count; i++) {
			snprintf(name, sizeof name, "%s%.3s", prefix, tables[k].names[i].name);
			plan_sieve_add(sieve, name);
		}
}

void plan_names_sieve(const struct plan_prefixes *prefixes, struct plan_sieve *sieve)
{
	for (size_t k = 0; k < sizeof tables / sizeof tables[0]; k++)
		for (size_t i = 0; i < tables[k].count; i++)
			plan_sieve_add(sieve, tables[k].names[i].name);
	for (size_t i = 0; i < sizeof nim_names / sizeof nim_names[0]; i++)
		plan_sieve_add(sieve, nim_names[i].name);
	for (unsigned i = 0; i < prefixes->count; i++)
		sieve_prefixed(prefixes->list[i], sieve);
}

bool plan_names_find(const char *name, const struct plan_prefixes *prefixes,
		     struct plan_match *ret_match)
{
	for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
		if (matches(find_in(&tables[i], name), tables[i].family, ret_match))
			return true;
	return find_nim(name, ret_match) || find_prefixed(name, prefixes, ret_match);
}

void plan_prefixes_add(struct plan_prefixes *prefixes, const char *name)
{
	static const char last[] = "mallocx";
	size_t bytes = strlen(name);
	if (bytes <= sizeof last - 1 || prefixes->count == PLAN_PREFIXES_MAX)
		return;
	bytes -= sizeof last - 1;
	if (bytes >= PLAN_PREFIX_BYTES || strcmp(name + bytes, last) != 0)
		return;
	for (unsigned i = 0; i < prefixes->count; i++)
		if (strlen(prefixes->list[i]) == bytes &&
		    memcmp(prefixes->list[i], name, bytes) == 0)
			return;
	memcpy(prefixes->list[prefixes->count], name, bytes);
	prefixes->list[prefixes->count++][bytes] = '\0';
}

const char *plan_family_name(enum plan_family family)
{
	static const char *const names[PLAN_FAMILY_COUNT] = {
		[PLAN_FAMILY_LIBC] = "malloc",       [PLAN_FAMILY_CXX] = "operator new",
		[PLAN_FAMILY_JEMALLOC] = "jemalloc", [PLAN_FAMILY_MIMALLOC] = "mimalloc",
		[PLAN_FAMILY_TCMALLOC] = "tcmalloc", [PLAN_FAMILY_NIM] = "nim",
		[PLAN_FAMILY_CUSTOM] = "custom",     [PLAN_FAMILY_SYSTEM] = "the system",
	};
	return names[family];
}
