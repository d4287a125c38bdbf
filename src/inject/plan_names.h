/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of known allocators, by name, and what their arguments mean.
 * Left out are those that give no block and take none (nallocx, sallocx,
 * malloc_usable_size ...), and those that only call another one here.
 */
#pragma once

#include "inject/plan_sieve.h"
#include "wire/site.h"
#include "wire/wire.h"

#include <stdbool.h>

enum plan_family {
	PLAN_FAMILY_LIBC,
	PLAN_FAMILY_CXX,
	PLAN_FAMILY_JEMALLOC,
	PLAN_FAMILY_MIMALLOC,
	PLAN_FAMILY_TCMALLOC,
	PLAN_FAMILY_NIM,
	PLAN_FAMILY_CUSTOM,
	PLAN_FAMILY_SYSTEM,
	PLAN_FAMILY_COUNT,
};

/* A hook without addresses. */
struct plan_name {
	const char *name;
	struct wire_site site;
	const char *twin; /* WIRE_HOOK_NEW: the form that does not throw */
};

struct plan_match {
	const struct plan_name *name;
	enum plan_family family;
	enum wire_api api;
};

enum { PLAN_PREFIX_BYTES = 32, PLAN_PREFIXES_MAX = 8 };

/* The prefixes under which a module has jemalloc's functions, besides none. */
struct plan_prefixes {
	char list[PLAN_PREFIXES_MAX][PLAN_PREFIX_BYTES];
	unsigned count;
};

/* Takes the prefix of a name that ends in "mallocx", if it is new and there is room. */
void plan_prefixes_add(struct plan_prefixes *prefixes, const char *name);

/* Lets all names through that plan_names_find() may know. */
void plan_names_sieve(const struct plan_prefixes *prefixes, struct plan_sieve *sieve);

/* Does the name mean something? O(log names). */
bool plan_names_find(const char *name, const struct plan_prefixes *prefixes,
		     struct plan_match *ret_match);

/* "malloc", "jemalloc" ... as shown to users. */
const char *plan_family_name(enum plan_family family);
