/* SPDX-License-Identifier: Apache-2.0 */
/* Files, lines and inlined functions of one module, from its DWARF. */
#pragma once

#include "symbols/debugfile.h"
#include "symbols/elffile.h"
#include "symbols/strpool.h"
#include "symbols/symbols.h"

struct lines;

struct lines_limits {
	uint64_t max_bytes;  /* of unpacked debug sections */
	uint64_t *budget_ns; /* CPU time left for decoding; shared by all modules */
};

/*
 * -ENODATA if the file has no debug information, -ENOMEM. The file must stay
 * open. What dwz moved elsewhere and split units are looked for as `search`
 * says, which must live as long.
 */
TM_MUST_CHECK int lines_open(struct lines **ret_lines, const struct elffile *file,
			     const struct debugfile_search *search,
			     const struct lines_limits *limits);
struct lines *lines_close(struct lines *lines);

typedef void (*lines_demangle_fn)(const char *name, char *out, size_t out_bytes);
/* How names are made readable from now on, if not by symbols_demangle(). */
void lines_set_demangle(struct lines *lines, lines_demangle_fn demangle);

struct lines_answer {
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX]; /* innermost first */
	size_t count;
	bool is_plain; /* the last frame's name is without namespace and types */
	/* Where the address is, also when no function is known: an assembler's files have none. */
	const char *file;
	uint32_t line, column;
};

/*
 * What is at an ELF address; strings go into the pool. Nothing = unknown, or the
 * budget is used up and this part was not decoded before.
 */
void lines_find(struct lines *lines, struct strpool *strings, uint64_t elf_address,
		struct lines_answer *ret_answer);
