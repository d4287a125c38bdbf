/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's own list of entry points (--hook):
 *
 *	alloc=pool_get(size=1) free=pool_put(ptr=0) realloc=pool_grow(ptr=0,size=1)
 *
 * Words, separated by blanks: ROLE=FUNCTION, with the meaning of the arguments
 * (counted from 0) in parentheses. Roles: alloc, free, realloc. Arguments: size,
 * count (a factor of the size), align, ptr, out (the block is stored through it,
 * and 0 returned). Left out: alloc(size=0), free(ptr=0), realloc(ptr=0,size=1).
 * name=WORD names the allocator in the trace; else it is its first function.
 */
#pragma once

#include "base/error.h"
#include "inject/plan_names.h"

#include <stddef.h>

enum {
	PLAN_HOOKS_MAX = 64,      /* functions in all lists */
	PLAN_ALLOCATORS_MAX = 10, /* lists */
};

struct plan_hook {
	struct plan_name name; /* its name is owned by the list */
	const char *allocator;
	uint8_t list; /* from 0 */
};

struct plan_hooks {
	struct plan_hook list[PLAN_HOOKS_MAX];
	size_t count;
	char *texts[PLAN_ALLOCATORS_MAX]; /* what the names point into */
	size_t text_count;
};

/*
 * Adds a list. -EINVAL: the sentence quotes the offending place and says what is
 * expected; the hooks are then as they were.
 */
TM_MUST_CHECK int plan_hooks_add(struct plan_hooks *hooks, const char *text, struct tm_error *err);
void plan_hooks_done(struct plan_hooks *hooks);

/* Borrowed; NULL if the user named no such function. */
const struct plan_hook *plan_hooks_find(const struct plan_hooks *hooks, const char *function);
