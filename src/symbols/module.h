/* SPDX-License-Identifier: Apache-2.0 */
/* One module: the files that name its functions, found, checked and opened. */
#pragma once

#include "symbols/debugfile.h"
#include "symbols/lines.h"
#include "symbols/remote.h"
#include "symbols/table.h"

/* What the modules of a set share. */
struct module_set {
	struct symbols_options options;
	struct debugfile_search search;
	struct strpool *strings;
	struct remote remote;
	uint64_t table_bytes;
	uint64_t budget_ns; /* what is left for debug information */
	bool budget_said;
};

struct symbols_module {
	struct symbols_module *next;
	const char *path;
	uint8_t build_id[ELFFILE_BUILD_ID_MAX]; /* as asked for */
	uint32_t build_id_bytes;
	struct tm_error failure; /* code 0: usable */
	struct elffile file;     /* elf NULL: only its debug file is here */
	struct elffile debug;    /* elf NULL: there is none */
	struct elffile mini;     /* what .gnu_debugdata holds; elf NULL: none */
	uint8_t *mini_bytes;
	struct table tables[2]; /* the second for what the first does not name */
	struct lines *lines;    /* NULL: no debug information, or not asked for */
	lines_demangle_fn demangle;
};

/*
 * Finds and opens what the module is named from. 0, or as symbols_open() says;
 * nothing is open then.
 */
TM_MUST_CHECK int module_open(struct module_set *set, struct symbols_module *module,
			      struct tm_error *err);
void module_done(struct symbols_module *module);

/* The frames at an ELF address, as symbols_lookup(). */
size_t module_lookup(struct module_set *set, struct symbols_module *module, uint64_t elf_address,
		     struct symbols_frame frames[SYMBOLS_CHAIN_MAX]);
