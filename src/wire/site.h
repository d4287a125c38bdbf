/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A patched entry point, as the tracer (or the collector) describes it to the
 * agent. Freestanding-safe.
 *
 *   function        jmp stub
 *   stub            push site(%rip); jmp *glue(%rip)      glue: in the agent's tidemark_patched
 *                   (from WIRE_GLUE_ALLOC on: lea site(%rip), %rcx)
 *   site            struct wire_site: what the arguments mean, and where to go on
 *   site.original   the moved first instructions, then a jump into the function
 *
 * Stub, site and moved instructions lie in an *island*: memory within 2 GiB of
 * the function, written once, then readable and executable. All of it is made
 * by inject/patch.c; the agent only reads sites.
 */
#pragma once

#include <stdint.h>

/* What a call of the function means. */
enum wire_hook {
	WIRE_HOOK_ALLOC = 0,   /* returns the block, or NULL */
	WIRE_HOOK_FREE = 1,    /* ends the block */
	WIRE_HOOK_REALLOC = 2, /* returns the new block, or NULL: the old one lives on */
	WIRE_HOOK_OUT = 3,     /* returns 0 and stores the block through argument `pointer` */
	WIRE_HOOK_TEXT = 4,    /* returns a copy of a string, or NULL */
	WIRE_HOOK_XALLOC = 5,  /* jemalloc's xallocx: resizes in place, returns the real size */
	WIRE_HOOK_NEW = 6, /* throws when there is no memory: `twin` is the form that does not */
	WIRE_HOOK_REALLOCF = 7, /* as REALLOC, but a failure frees the old block */
	WIRE_HOOK_MMAP = 8,     /* the system's own, with its arguments: mapped memory, processes */
	WIRE_HOOK_MUNMAP = 9,
	WIRE_HOOK_MREMAP = 10,
	WIRE_HOOK_MPROTECT = 11,
	WIRE_HOOK_MADVISE = 12,
	WIRE_HOOK_SBRK = 13,
	WIRE_HOOK_FORK = 14,
	WIRE_HOOK_EXEC = 15, /* execve */
	WIRE_HOOK_BRK = 16,
	WIRE_HOOK_PRCTL = 17,
	WIRE_HOOK_SYSCALL = 18,
	WIRE_HOOK_COUNT = 19,
};

enum {
	WIRE_SITE_ARGUMENTS = 6, /* integer arguments in registers */
	WIRE_SITE_NO_ARGUMENT = 255,
	WIRE_SITE_JEMALLOC_FLAGS = 1u << 0, /* `alignment` is mallocx's flags */
	WIRE_SITE_FREES_AT_ZERO = 1u << 1,  /* realloc to 0 bytes is a free */
	WIRE_SITE_OWN_KEY = 1u << 2,        /* a pool: its blocks may lie in those of another */
	WIRE_SITE_PLAIN =
		1u << 3, /* ALLOC: the first argument is the size, and all there is to know */
	WIRE_SITE_LIGHT = 1u << 4,     /* it changes all registers that a call may change itself */
	WIRE_SITE_ONE = 1u << 5,       /* it has one argument, and no more */
	WIRE_SITE_OWN_CALLS = 1u << 6, /* FREE: calls from `label` bytes at `twin` are its own */
	WIRE_SITE_FEW = 1u << 7,       /* it has three arguments at most */
	WIRE_SITE_SOURCES = 16,        /* allocators with a label; numbers from 1 */
	WIRE_PATCH_BYTES = 5,
	WIRE_ISLAND_NAME = 64,
};

/* Where in the glue a call begins, in units of WIRE_GLUE_BYTES: what need not be saved is not. */
enum wire_glue {
	WIRE_GLUE_FULL = 0,
	WIRE_GLUE_LIGHT = 1, /* WIRE_SITE_LIGHT */
	/* Likewise, in no special way; the site is the fourth argument. */
	WIRE_GLUE_ALLOC = 2,       /* WIRE_SITE_PLAIN, WIRE_SITE_ONE */
	WIRE_GLUE_FREE = 3,        /* WIRE_HOOK_FREE, WIRE_SITE_ONE */
	WIRE_GLUE_FEW_ALLOC = 4,   /* WIRE_HOOK_ALLOC or WIRE_HOOK_OUT, WIRE_SITE_FEW */
	WIRE_GLUE_FEW_FREE = 5,    /* WIRE_HOOK_FREE, WIRE_SITE_FEW */
	WIRE_GLUE_FEW_REALLOC = 6, /* WIRE_HOOK_REALLOC, WIRE_SITE_FEW */
	WIRE_GLUE_COUNT = 7,
	WIRE_GLUE_BYTES = 128,
};

struct wire_site {
	uint64_t original; /* the function without the patch */
	uint64_t twin;     /* WIRE_HOOK_NEW: the nothrow form to try first (its original) */
	uint8_t hook;      /* enum wire_hook */
	uint8_t api;       /* enum wire_api */
	uint8_t size;      /* which argument is the size; WIRE_SITE_NO_ARGUMENT: none */
	uint8_t count;     /* ... a factor of the size */
	uint8_t alignment; /* ... the alignment */
	uint8_t pointer;   /* ... the block that ends, or where to store the new one */
	uint8_t flags;     /* WIRE_SITE_* */
	uint8_t source;    /* number of the allocator, if it has a label; 0: none */
	uint64_t label;    /* its name, NUL-terminated, in the island */
};
_Static_assert(sizeof(struct wire_site) == 32, "site layout");

/*
 * Patches that the agent carries out itself, in its constructor and after a
 * library was loaded, while the process has one thread: where nobody may trace
 * it. One block of bytes, each part a multiple of 8 bytes:
 *
 *	wire_patches, then for each island: wire_island, its wire_patch list, its bytes
 */
struct wire_patches {
	uint32_t islands;
	uint32_t reserved;
};

/* Of libraries that are loaded later: so many may be used again when theirs is gone. */
enum { WIRE_LATE_ISLANDS = 64 };

struct wire_island {
	uint64_t address; /* whole pages */
	uint64_t bytes;
	uint32_t patches;
	uint32_t reserved;
	char name[WIRE_ISLAND_NAME]; /* for the user: a function, and where it is */
};

struct wire_patch {
	uint64_t address;
	uint8_t old[8]; /* what must be there; 5 bytes */
	uint8_t new[8];
};
