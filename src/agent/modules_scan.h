/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the loader's list and the facts of one object, through a safe peek.
 * Internal to modules*.c.
 */
#pragma once

#include "agent/modules.h"

enum {
	SCAN_HEADERS_MAX = 64,    /* program headers of one object */
	SCAN_OBJECTS_MAX = 65536, /* a longer list is damaged */
	SCAN_NAMESPACES_MAX = 64,
	SCAN_NEAR_MAX = 16384, /* a list read while it changes may run in a circle */
};

/* An entry of the loader's list, as it stands there. */
struct scan_entry {
	uintptr_t map; /* struct elf_link_map; 0: the vdso, or a static program */
	uintptr_t bias;
	uintptr_t dynamic;
	uintptr_t name;
	uintptr_t key; /* an address inside the object: what entries are sorted by */
};

struct scan_list {
	struct scan_entry *entries;
	uint32_t count;
	uint32_t capacity;
};

/* Where to read, and room to read into (one rescan at a time uses it). */
struct scan {
	struct elf_scope scope;
	uintptr_t own_dynamic;
	uintptr_t own_image; /* 0: we are in the loader's list */
	module_peek_fn peek;
	void *ctx;
	uintptr_t main_dynamic;  /* tells the program in the list */
	uintptr_t main_eh_frame; /* ELF address; 0: unknown, or not needed */
	uint32_t main_path_bytes;
	uint32_t linker_path_bytes; /* 0: the loader knows it itself */
	char main_path[MODULE_PATH_MAX];
	char linker_path[MODULE_PATH_MAX];
	char path[MODULE_PATH_MAX]; /* of the object read last */
	Elf64_Phdr headers[SCAN_HEADERS_MAX];
	uint8_t notes[4096];
};

/* Find out which object is the program, and its path. Makes system calls. */
void scan_init(struct scan *scan, const struct modules_options *options);

enum scan_result {
	SCAN_OK = 0,
	SCAN_BUSY, /* the loader is at work, or the list changes under us */
	SCAN_FULL, /* more entries than capacity */
};

/* Copy the list of all namespaces, the vdso added. */
enum scan_result scan_walk(struct scan *scan, struct scan_list *ret);

/*
 * The entries next to pc, on either side: one of them is the object that holds
 * it, if any does. Takes the list as it is, also while the loader changes it.
 * Returns their number.
 */
unsigned scan_near(struct scan *scan, uintptr_t pc, struct scan_entry ret[2]);

bool scan_same(const struct scan_list *a, const struct scan_list *b);

/* Sort by key. */
void scan_sort(struct scan_list *list);

/*
 * All facts of one object but its instance. ret->path is scan->path, valid until
 * the next call. hint: where its ELF header was the last time, or 0. False: this
 * is no readable ELF object.
 */
bool scan_read(struct scan *scan, const struct scan_entry *entry, uintptr_t hint,
	       struct module *ret);
