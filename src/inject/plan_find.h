/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of a module that name entry points of allocators, before anybody
 * has looked at their code.
 */
#pragma once

#include "inject/plan.h"
#include "inject/plan_elf.h"
#include "inject/plan_hook.h"
#include "inject/plan_names.h"

enum {
	PLAN_CANDIDATES_MAX = 1024,
	PLAN_NO_HOOK = 255,
};

/* Why a name is no function that could be hooked. */
enum plan_flaw {
	PLAN_FLAW_NONE,
	PLAN_FLAW_DATA,
	PLAN_FLAW_IFUNC,
	PLAN_FLAW_VARIANT, /* the compiler's, with other arguments */
	PLAN_FLAW_COPIED,  /* parts of it are in other functions: plan_nim.h */
};

struct plan_candidate {
	const char *name; /* in the ELF's tables */
	uint64_t address; /* ELF address */
	uint64_t bytes;   /* st_size */
	uint64_t next;    /* the nearest symbol behind it */
	struct plan_match match;
	uint8_t hook; /* number in the user's list, or PLAN_NO_HOOK */
	uint8_t flaw; /* enum plan_flaw */
	bool dynamic; /* from .dynsym */
	bool dropped; /* leads to another one, or is another one's name: plan.c */
};

struct plan_found {
	struct plan_candidate *list; /* sorted by address, the best known name first */
	size_t count;
};

/* tm_free() the list. */
TM_MUST_CHECK int plan_find(const struct plan_elf *elf, const struct plan_source *source,
			    struct plan_found *ret_found);
