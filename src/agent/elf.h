/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dynamic linker's data, read without libc: auxiliary vector, list of
 * loaded objects, symbols. Freestanding; glibc and musl.
 *
 *   /proc/self/auxv -> AT_PHDR -> PT_DYNAMIC -> DT_DEBUG -> r_debug -> r_map
 *
 * These functions read the loader's memory directly: call them at init, when
 * no object can be unloaded (before main, in a constructor, or while the loader
 * itself calls us). modules.h has the list for all other moments.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the kernel told the program; 0 where it said nothing. */
struct elf_auxv {
	uintptr_t phdr;
	uintptr_t phent;
	uintptr_t phnum;
	uintptr_t base; /* of the dynamic linker; 0: static, or started through the linker */
	uintptr_t entry;
	uintptr_t vdso;   /* ELF header of the vdso */
	uintptr_t random; /* 16 random bytes */
	uintptr_t page_bytes;
	uintptr_t secure; /* not 0: setuid and the like */
};

/* struct link_map as every C library on Linux lays it out. */
struct elf_link_map {
	uintptr_t bias;     /* l_addr */
	uintptr_t name;     /* l_name: a NUL-terminated string */
	uintptr_t dynamic;  /* l_ld */
	uintptr_t next;     /* l_next */
	uintptr_t previous; /* l_prev */
};

enum { ELF_RT_CONSISTENT = 0, ELF_RT_ADD = 1, ELF_RT_DELETE = 2 };

/* struct r_debug; `next` exists from version 2 on (glibc 2.35). */
struct elf_debug {
	int32_t version;
	int32_t pad0;
	uintptr_t map; /* first struct elf_link_map */
	uintptr_t brk;
	int32_t state; /* ELF_RT_* */
	int32_t pad1;
	uintptr_t ldbase;
	uintptr_t next; /* r_debug of the next namespace (dlmopen) */
};
enum { ELF_DEBUG_BYTES_V1 = 40 };

/* Tables of one object for symbol look-up. */
struct elf_module {
	uintptr_t bias;
	const Elf64_Sym *symbols;
	const char *strings;
	size_t string_bytes;
	const uint32_t *gnu_hash;
	const uint32_t *hash;
	const uint16_t *versions; /* DT_VERSYM or NULL */
};

struct elf_scope {
	struct elf_auxv auxv;
	uintptr_t main_bias;    /* of the object AT_PHDR belongs to */
	uintptr_t main_dynamic; /* its PT_DYNAMIC, 0 if none */
	uintptr_t debug;        /* struct elf_debug, 0: static program, nothing to look up */
	uintptr_t self;         /* own struct elf_link_map, 0: not in the list (injected) */
	bool through_loader;    /* started as "ld.so program": AT_PHDR is the linker's */
};

/* 0 or -errno. Makes system calls. */
int elf_auxv_read(struct elf_auxv *ret);

/* From an auxiliary vector in memory, ending with AT_NULL or after count entries. */
void elf_auxv_parse(const Elf64_auxv_t *vector, size_t count, struct elf_auxv *ret);

/*
 * Find the loader's list and our own entry: the one whose l_ld is own_dynamic
 * (pass &_DYNAMIC, hidden; NULL: do not look). Always fills *ret; false: no list
 * (static program).
 */
bool elf_scope_init(struct elf_scope *ret, const struct elf_auxv *auxv, const void *own_dynamic);

/* False: the object has no symbol or hash table. */
bool elf_module_init(struct elf_module *ret, uintptr_t bias, const Elf64_Dyn *dynamic);

/*
 * Address of the function `name` defined by this object, or NULL. The default
 * version; a hidden one only if there is no other. An indirect function is
 * resolved by calling its resolver. O(1).
 */
void *elf_find_in(const struct elf_module *module, const char *name);

/* As elf_find_in() for a data object. */
void *elf_find_object_in(const struct elf_module *module, const char *name);

/*
 * The definition of the function `name` in the objects after our own in the
 * order of the link map, or NULL: what RTLD_NEXT would give. When we are not in
 * the list, all objects are searched. The vdso is left out.
 */
void *elf_find_next(const struct elf_scope *scope, const char *name);

/* As elf_find_next(), over all objects in order, without our own. */
void *elf_find_any(const struct elf_scope *scope, const char *name);

/* As elf_find_any() for a data object. */
void *elf_find_object_any(const struct elf_scope *scope, const char *name);
