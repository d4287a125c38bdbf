/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of the names: an address in a module becomes a chain of frames,
 * innermost inlined function first. Names come from DWARF, else .symtab (of the
 * file itself or of its separate debug file), else .dynsym; every frame says
 * which it was.
 *
 * A module is opened by its path and recognised by its build-id. A file that
 * has been replaced since is never used: opening it fails with -ESTALE and a
 * sentence. ELF files are hostile input: all sizes are checked, memory and the
 * time spent on debug information are bounded.
 *
 * Not thread-safe: one `struct symbols` belongs to one thread.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"

#include <stddef.h>

struct symbols;
struct symbols_module;

typedef void (*symbols_warn_fn)(void *ctx, const char *sentence);
/*
 * Long work, as a download: what it is about, how much is done of how much (0 =
 * not known). Called a few times a second at most.
 */
typedef void (*symbols_progress_fn)(void *ctx, const char *what, uint64_t done, uint64_t total);

/*
 * A descriptor of the module's file that was opened when it was mapped, so that
 * it can be read although it is gone now; -1 = none. It stays the caller's.
 */
typedef int (*symbols_held_fn)(void *ctx, const char *path, const uint8_t *build_id,
			       uint32_t build_id_bytes);

/* Whether debug files that this machine lacks are asked for on the network, by their build-id. */
enum symbols_debuginfod {
	SYMBOLS_DEBUGINFOD_OFF,
	SYMBOLS_DEBUGINFOD_IF_SET, /* when DEBUGINFOD_URLS names servers */
	SYMBOLS_DEBUGINFOD_ON,     /* urls, else DEBUGINFOD_URLS, else the public server */
};

/* Strings and lists are borrowed until symbols_free(). */
struct symbols_options {
	const char *root;    /* tried before the plain path, as "/proc/123/root"; NULL = none */
	const char *sysroot; /* a copy of the machine's files; tried before all; NULL = none */
	const char *const *debug_dirs; /* like /usr/lib/debug, and tried before it */
	size_t debug_dir_count;
	enum symbols_debuginfod debuginfod;
	const char *debuginfod_urls;   /* separated by spaces; NULL = see above */
	uint32_t debuginfod_timeout_s; /* without any progress; 0 = 20 */
	uint64_t max_bytes;            /* of all tables together; 0 = 512 MiB */
	uint64_t lines_budget_ns;      /* CPU time for debug information, about; 0 = 20 s */
	uint32_t workers;     /* processes that read DWARF at once; 0 = one per CPU, at most 4 */
	bool no_lines;        /* function names only */
	bool lines_here;      /* read DWARF in this process: see symbols_lookup() */
	bool no_debug_files;  /* look into the module itself only */
	symbols_warn_fn warn; /* called once per module that cannot be used, or NULL */
	void *warn_ctx;
	symbols_held_fn held; /* asked before any path is tried; may be NULL */
	void *held_ctx;
	symbols_progress_fn progress; /* may be NULL */
	void *progress_ctx;
};

/* One function at an address. Strings live as long as the struct symbols. */
struct symbols_frame {
	const char *function; /* demangled; never NULL */
	const char *file;     /* NULL = unknown */
	uint32_t line, column;
	bool inlined;   /* into the next frame of the chain */
	bool is_callee; /* called here, not inlined: shown when it tail-called the frame inside */
	uint8_t source; /* enum trace_symbol_source */
};

enum { SYMBOLS_CHAIN_MAX = 64 }; /* inlined frames at one address; the rest is cut */

TM_MUST_CHECK int symbols_new(const struct symbols_options *options, struct symbols **ret_symbols,
			      struct tm_error *err);
struct symbols *symbols_free(struct symbols *s);

/*
 * Opens a module, or finds it among those already open (failures are kept too,
 * so a missing file is tried once). "[vdso]" is the kernel's code as mapped into
 * this process. build_id_bytes 0: the file cannot be verified and is trusted.
 * -ENOENT: no such file. -ESTALE: another build is there now. -ENOEXEC: not an
 * ELF file. -ENODATA: neither symbols nor debug information in it. -ENOMEM.
 */
TM_MUST_CHECK int symbols_open(struct symbols *s, const char *path, const uint8_t *build_id,
			       uint32_t build_id_bytes, struct symbols_module **ret_module,
			       struct tm_error *err);

/*
 * The frames at an ELF address (run-time address minus bias), innermost first,
 * at most SYMBOLS_CHAIN_MAX. Returns how many; 0 = unknown. O(log symbols).
 * Files, lines and inlined frames only with options.lines_here, and that only
 * where a crash is no harm: libdw does not withstand every damaged file.
 * symbols_resolve() reads debug information in a process of its own.
 */
size_t symbols_lookup(struct symbols *s, struct symbols_module *module, uint64_t elf_address,
		      struct symbols_frame frames[SYMBOLS_CHAIN_MAX]);

/* An address to be named: run-time address of the call (return address - 1) or exact pc. */
struct symbols_request {
	uint32_t module_id;
	uint64_t address;
};

/*
 * The distinct requests of stacks[first, count), sorted by module and address:
 * what a trace must know to name these stacks. Marks and frames without a
 * module are left out. The caller releases the array with tm_free().
 */
TM_MUST_CHECK int symbols_requests(const struct trace_stack *stacks, size_t first, size_t count,
				   struct symbols_request **ret_requests, size_t *ret_count,
				   struct tm_error *err);

struct symbols_result {
	struct trace_symbol *symbols; /* by (module_id, address), innermost first; tm_free() it */
	size_t count;                 /* entries in symbols[] */
	size_t unnamed;               /* requests without any name */
};

/*
 * Names requests sorted as above. modules[i].module_id need not be i. A module
 * that cannot be used is no failure: its addresses stay unnamed, options.warn
 * is told. Forks and waits for the child unless options.no_lines. The strings in the result are
 * borrowed from `s`. -ENOMEM only.
 */
TM_MUST_CHECK int symbols_resolve(struct symbols *s, const struct trace_module *modules,
				  size_t module_count, const struct symbols_request *requests,
				  size_t request_count, struct symbols_result *ret_result,
				  struct tm_error *err);

/* The address that a frame of a stack is looked up by. */
static inline uint64_t symbols_lookup_address(uint64_t pc)
{
	return pc & TRACE_PC_EXACT ? pc & ~TRACE_PC_EXACT : pc - 1;
}

/*
 * Demangles C++, Rust (without the hash) and D into out (at most out_bytes, cut
 * if longer, always terminated). Any other name is copied. Bounded in time.
 */
void symbols_demangle(const char *name, char *out, size_t out_bytes);
/* The same for a program of Nim, whose procs become module.proc. */
void symbols_demangle_nim(const char *name, char *out, size_t out_bytes);

/*
 * A demangled name for the screen: without the arguments of templates and
 * generics ("std::vector<…>::push_back(int&&)"). Cut and terminated as above.
 */
void symbols_shorten(const char *name, char *out, size_t out_bytes);
