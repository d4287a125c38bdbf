/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's own list of loaded objects.
 *
 * Readers are lock-free and may be signal handlers. They get copies, never
 * pointers, so nothing can be retired under them: there are two snapshot
 * buffers; a rescan fills the one that is not current and publishes it; a
 * reader checks afterwards that the buffer it read was not refilled meanwhile,
 * and if so reads again. No memory is ever freed, and none is taken but for the
 * largest number of objects seen at one time and for the (capped) memory of
 * instances: any number of dlopen/dlclose cycles runs in constant memory, about
 * 1.5 MiB of address space of which 100 KiB are touched in a usual program.
 *
 * One thread at a time rescans, under a try-lock. It reads the loader's memory
 * through a safe peek, since another thread may be unloading at that moment,
 * and believes nothing unless the loader said "consistent" before and after and
 * the list was the same both times.
 *
 * Known limits: namespaces of dlmopen are seen from glibc 2.35 on.
 */
#pragma once

#include "agent/cfi.h"
#include "agent/elf.h"

enum {
	MODULE_BUILD_ID_MAX = 64,
	MODULE_PATH_MAX = 4096,
	MODULE_EXEC_MAX = 4,
	MODULE_INSTANCES_REMEMBERED = 4096, /* that get their old id again */
	MODULE_INSTANCE_MAX = 65535,        /* beyond it: 0 */
};

enum module_flags {
	MODULE_MAIN = 1u << 0,
	MODULE_VDSO = 1u << 1,
	MODULE_AGENT = 1u << 2,
	MODULE_LINKER = 1u << 3, /* the dynamic linker */
};

struct module_range {
	uintptr_t start;
	uintptr_t end;
};

/*
 * All facts of a loaded object. An *instance* is one (path, build-id, bias) with
 * its program headers: loaded again in the same place it has its old id again; anything else at the
 * same address has another.
 */
struct module {
	uint32_t instance; /* from 1; 0: more than MODULE_INSTANCE_MAX */
	uint32_t flags;    /* enum module_flags */
	uintptr_t start;   /* mapped range, whole pages */
	uintptr_t end;
	uintptr_t bias;
	struct module_range exec[MODULE_EXEC_MAX]; /* executable segments */
	uint32_t exec_count;
	uint32_t build_id_bytes;
	struct cfi_image cfi;
	uint8_t build_id[MODULE_BUILD_ID_MAX];
	const char *path; /* NUL-terminated; the program's real path, "[vdso]" */
	uint32_t path_bytes;
	uint32_t reserved;
	uintptr_t header;      /* the ELF header, or the program's program headers */
	uint64_t headers_hash; /* of the program headers: tells objects without build-id apart */
	uintptr_t api_table;   /* struct tidemark_table, as its note says; 0 none */
};

/* What unwinding needs of it. */
struct module_code {
	uint32_t instance;
	uint32_t flags;
	uintptr_t start;
	uintptr_t end;
	struct cfi_image cfi;
};

/*
 * Called inside modules_rescan(), under its lock, once for each object that
 * disappeared (mapped == false), then for each that appeared; before readers
 * can find the new ones. *module and its path are valid during the call only.
 * Must not call modules_rescan(). If the thread leaves it for good (longjmp, no
 * memory), the next rescan tells the same again.
 */
typedef void (*module_event_fn)(void *ctx, const struct module *module, bool mapped);
/* Zeroed memory that stays for ever (and is wiped in a forked child), or NULL. */
typedef void *(*module_map_fn)(void *ctx, size_t bytes);
/* Copy memory that may be unmapped; false: not readable. */
typedef bool (*module_peek_fn)(void *ctx, uintptr_t address, void *ret, size_t bytes);

struct modules_options {
	const struct elf_scope *scope; /* copied */
	uintptr_t own_dynamic;         /* &_DYNAMIC of the agent: flags MODULE_AGENT */
	uintptr_t own_image; /* its ELF header, where the loader does not know it; else 0 */
	module_map_fn map;
	module_peek_fn peek;
	module_event_fn event; /* may be NULL */
	void *ctx;
};

enum modules_result {
	MODULES_SAME = 0,    /* nothing has changed */
	MODULES_CHANGED = 1, /* a new list is published */
	MODULES_BUSY = 2,    /* somebody else rescans, or the loader is at work: try later */
	MODULES_FAILED = 3,  /* no memory, or nothing is readable: the old list stays */
};

struct modules;

/* NULL: no memory. The list is empty until the first rescan. Makes system calls. */
struct modules *modules_new(const struct modules_options *options);

/*
 * Read the loader's list. tid: the calling thread's, which owns the lock
 * meanwhile; a signal handler that interrupts the owner gets MODULES_BUSY.
 * thorough: also look whether an object was replaced by another under the same
 * list entry (needed after a dlclose); without it, an unchanged list costs one
 * peek per object and is MODULES_SAME.
 */
enum modules_result modules_rescan(struct modules *modules, uint32_t tid, bool thorough);

/*
 * Make the list right about the one object that holds pc, even while the loader
 * is at work on others. The caller knows that code to be loaded, because pc is
 * on its stack: so the entry around it is true, whatever else is changing.
 * Without such an entry (generated code) it is modules_rescan(), thorough.
 * About one peek per object and ten for the one.
 */
enum modules_result modules_rescan_at(struct modules *modules, uint32_t tid, uintptr_t pc);

/*
 * Thread tid is known not to be inside modules_rescan() any more (it left by
 * siglongjmp, or has ended): break its lock. Harmless if it does not hold it.
 */
void modules_break_lock(struct modules *modules, uint32_t tid);

/* Owner of the lock (a tid) or 0. */
uint32_t modules_lock_owner(const struct modules *modules);

/*
 * The object whose range holds pc. False: none, or (practically never) the list
 * was replaced again and again meanwhile. Lock-free, signal-safe, O(log objects).
 */
bool modules_find(const struct modules *modules, uintptr_t pc, struct module_code *ret);

/*
 * Rises when an object disappeared or changed. Read it before modules_find():
 * what was then derived is valid as long as the generation is the same.
 */
uint32_t modules_generation(const struct modules *modules);

/* Number of objects in the present list. */
uint32_t modules_count(const struct modules *modules);

/* Copy object number index (by rising address), without its path. False: none such. */
bool modules_at(const struct modules *modules, uint32_t index, struct module_code *ret);

/*
 * Call visit for every object of the present list, with all facts (the start
 * of a session). Takes the lock as modules_rescan() does; MODULES_BUSY or
 * MODULES_SAME.
 */
enum modules_result modules_visit(struct modules *modules, uint32_t tid, module_event_fn visit,
				  void *ctx);
