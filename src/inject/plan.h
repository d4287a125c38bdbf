/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of a module are to be hooked, and how.
 *
 * A module's symbol tables (.symtab and .dynsym) are searched for entry points of
 * allocators: malloc and its family, operator new and delete where they are the
 * allocator's own, jemalloc's under any prefix, mimalloc's, tcmalloc's, Nim's, and
 * those of a user's list (plan_hook.h). Their first instructions are decoded
 * (reloc.h). What is found but cannot be hooked is kept with the reason.
 *
 *   plan_new()      reads the file; needs nothing of a process
 *   patch_place()   writes island and patches for one process (patch.h)
 *
 * Addresses in a plan are those of the ELF file plus the bias. Not thread-safe.
 */
#pragma once

#include "base/error.h"
#include "inject/reloc.h"
#include "wire/site.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan_hooks; /* plan_hook.h */

/* Which functions are looked for. */
enum {
	PLAN_LIBC = 1u << 0, /* malloc, free ... and operator new, delete of an allocator */
	PLAN_NATIVE =
		1u << 1, /* names of the allocator's own: mallocx, _rjem_*, mi_*, tc_*, Nim's */
	PLAN_HIDDEN = 1u << 2, /* of PLAN_NATIVE only what .dynsym does not have: the rest is served
				  by other means */
	PLAN_SYSTEM = 1u << 3, /* mmap's family, and fork */
	PLAN_EXEC = 1u << 4,   /* with it: execve, for what the program will start, and what may
				  forbid us to look at that */
	PLAN_ALL = PLAN_LIBC | PLAN_NATIVE,
};

enum { PLAN_NO_TWIN = 0xffffffff };

struct plan_source {
	int fd;        /* the module's file; not closed, its position is not used */
	uint64_t bias; /* run-time address = bias + ELF address */
	unsigned what; /* PLAN_* */
	const struct plan_hooks *hooks; /* the user's list; may be NULL */
};

/* A function to be patched. */
struct plan_entry {
	const char *name; /* as in the symbol table; of several at one address, the best known */
	const char *allocator; /* "malloc", "jemalloc", "mimalloc", "tcmalloc", "operator new",
				  "nim", or the name in the user's list; static or the hooks' */
	struct wire_site site; /* original and twin are filled by patch_place() */
	uint32_t twin; /* index of the entry that is WIRE_HOOK_NEW's twin, or PLAN_NO_TWIN */
	struct reloc reloc;
};

/* A function that was found, and cannot be. */
struct plan_refusal {
	const char *name;
	char reason[240]; /* a clause: "it is shorter than a jump" */
};

struct plan {
	struct plan_entry *entries; /* sorted by address */
	size_t entry_count;
	struct plan_refusal *refusals;
	size_t refusal_count;
	bool has_symbols;     /* there was a symbol table at all */
	bool has_malloc;      /* the module defines malloc as a function */
	uint64_t api_table;   /* struct tidemark_table of include/tidemark.h; 0 none */
	uint64_t hooks_found; /* bit n: function n of the user's list is here, or refused */
	char *names;          /* private: what the names point into */
};

/*
 * 0 also when nothing is found. -ENOEXEC: not an x86-64 ELF file; -ENOMEM; -errno
 * of reading. Bounded for hostile files. About 1 ms per 20,000 symbols.
 */
TM_MUST_CHECK int plan_new(const struct plan_source *source, struct plan **ret_plan,
			   struct tm_error *err);
/*
 * The bias of a module whose file is mapped with execution rights at `start` from
 * `offset` on. -ENOEXEC: no segment of the file belongs there.
 */
TM_MUST_CHECK int plan_bias(int fd, uint64_t start, uint64_t offset, uint64_t *ret_bias);

/* Accepts NULL, returns NULL. */
struct plan *plan_free(struct plan *plan);
