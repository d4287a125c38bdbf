/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of one ELF symbol table, sorted by address. */
#pragma once

#include "symbols/elffile.h"

struct table {
	struct table_symbol *symbols; /* sorted by address */
	size_t count;
	Elf *elf;       /* borrowed: holds the names */
	size_t names;   /* section of the names */
	uint8_t source; /* enum trace_symbol_source */
};

/*
 * Reads .symtab (type SHT_SYMTAB) or .dynsym (SHT_DYNSYM). -ENODATA if there is
 * none or it names no function, -EFBIG if it would take more than max_bytes,
 * -ENOMEM. The file must stay open while the table is used.
 */
TM_MUST_CHECK int table_load(struct table *table, const struct elffile *file, uint32_t type,
			     uint64_t max_bytes, struct tm_error *err);
void table_done(struct table *table);
uint64_t table_bytes(const struct table *table);

/* The mangled name of the function that contains the address, or NULL. O(log count). */
const char *table_find(const struct table *table, uint64_t elf_address);

/* Is there a symbol of this name in .symtab? O(bytes of the names). */
bool table_mentions(const struct elffile *file, const char *name);
