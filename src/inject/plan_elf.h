/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module's symbols and code, read from its file. Every number in the file is
 * hostile: checked, and bounded.
 */
#pragma once

#include "base/error.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLAN_ELF_TABLES = 2 }; /* .symtab, .dynsym */

/* One symbol table with its names. */
struct plan_table {
	Elf64_Sym *symbols;
	size_t count;
	char *names; /* ends with a NUL */
	size_t name_bytes;
	bool dynamic;
};

struct plan_elf {
	int fd;
	Elf64_Phdr *headers;
	size_t header_count;
	struct plan_table tables[PLAN_ELF_TABLES];
	size_t table_count;
};

TM_MUST_CHECK int plan_elf_open(int fd, struct plan_elf *ret_elf, struct tm_error *err);
void plan_elf_done(struct plan_elf *elf);

/* "" when it has none. Borrowed. */
const char *plan_elf_name(const struct plan_table *table, const Elf64_Sym *symbol);

/*
 * Up to `bytes` of code from an ELF address on, as far as it lies in one executable
 * segment of the file; how many is returned, 0 for none.
 */
size_t plan_elf_code(const struct plan_elf *elf, uint64_t address, void *code, size_t bytes);

/* Likewise, from any segment. */
size_t plan_elf_data(const struct plan_elf *elf, uint64_t address, void *data, size_t bytes);
