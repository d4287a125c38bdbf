/* SPDX-License-Identifier: Apache-2.0 */
/* Files, lines and inlined functions of one module, from its DWARF through libdw. */
#pragma once

#include "symbols/elffile.h"
#include "symbols/strpool.h"
#include "symbols/symbols.h"

struct lines;

struct lines_limits {
	uint64_t max_bytes;  /* of debug sections: more is not opened */
	uint64_t *budget_ns; /* CPU time left for decoding; shared by all modules */
};

/*
 * -ENODATA if the file has no debug information, -EFBIG if it has too much,
 * -ENOMEM. The file must stay open.
 */
TM_MUST_CHECK int lines_open(struct lines **ret_lines, const struct elffile *file,
			     const struct lines_limits *limits);
struct lines *lines_close(struct lines *lines);

/*
 * The frames at an ELF address, innermost first; strings go into the pool. 0 =
 * unknown, or the budget is used up and this part was not decoded before.
 */
size_t lines_find(struct lines *lines, struct strpool *strings, uint64_t elf_address,
		  struct symbols_frame frames[SYMBOLS_CHAIN_MAX]);
