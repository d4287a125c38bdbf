/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving the first instructions of a function elsewhere, so that a jump can take
 * their place.
 *
 *   function   [endbr64] jmp rel32 (5 bytes)  rest...      the patch is at function + entry
 *   copy       the moved instructions         jmp rest
 *
 * Operands relative to the instruction pointer are corrected, short branches
 * widened, a last call made by pushing the address it would have pushed. What
 * cannot be moved safely is refused, with the reason.
 *
 * Two steps: reloc_decode() looks at the bytes, anywhere; reloc_emit() writes the
 * copy for a place.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RELOC_PATCH_BYTES = 5,
	RELOC_MOVED_MAX = 6,   /* one instruction is at least a byte; the last may begin at 4 */
	RELOC_OLD_BYTES = 24,  /* entry + all moved instructions at most */
	RELOC_COPY_BYTES = 96, /* reloc_emit() writes at most so many */
};

/* One moved instruction. Offsets are from the start of the function, and of the copy. */
struct reloc_step {
	uint8_t from;
	uint8_t to; /* set by reloc_emit() */
	uint8_t bytes;
	uint8_t kind;    /* private to reloc.c */
	uint8_t at;      /* private: where its displacement, condition or ModRM byte is */
	uint64_t target; /* private: the address it refers to */
};

struct reloc {
	uint64_t address; /* of the function */
	uint8_t entry;    /* the patch is here: 0, or 4 after an endbr64 */
	uint8_t end;      /* one past the moved instructions, from the start of the function */
	uint8_t steps;
	uint8_t falls_through; /* the copy ends with a jump back to address + end */
	struct reloc_step step[RELOC_MOVED_MAX];
	uint8_t old[RELOC_OLD_BYTES]; /* the function's bytes [0, end) */
};

struct reloc_code {
	const uint8_t *bytes;  /* the function's code */
	size_t count;          /* how many bytes may be looked at: up to the next function */
	size_t function_bytes; /* st_size; 0 unknown */
	uint64_t address;      /* where it runs */
};

/*
 * Finds what must be moved. -EINVAL with the reason in err (without the function's
 * name): too short, an instruction that cannot be moved, a branch into the first
 * bytes. O(size of the function).
 */
TM_MUST_CHECK int reloc_decode(const struct reloc_code *code, struct reloc *ret_reloc,
			       struct tm_error *err);

/* An instruction, and where it branches to or calls; 0: nowhere, or by way of a register. */
struct reloc_seen {
	uint8_t bytes;
	uint64_t target;
};

/* The instruction at code->bytes + at; false: there is none. */
bool reloc_see(const struct reloc_code *code, size_t at, struct reloc_seen *ret);

/* Does the function branch or call straight to one of these addresses? */
bool reloc_leads_to(const struct reloc_code *code, const uint64_t *addresses, size_t count);

/*
 * Writes the copy for address `place` into bytes (RELOC_COPY_BYTES) and notes in
 * the steps where each instruction went. -ERANGE: too far away.
 */
TM_MUST_CHECK int reloc_emit(struct reloc *reloc, uint64_t place, uint8_t *bytes,
			     size_t *ret_bytes);

/* A jump from `from` to `to` (RELOC_PATCH_BYTES); -ERANGE when farther than 2 GiB. */
TM_MUST_CHECK int reloc_jump(uint64_t from, uint64_t to, uint8_t *bytes);
