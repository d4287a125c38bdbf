/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of open modules. Each is opened once, recognised by its build-id, and
 * keeps its best symbol table until the set goes; a failure is kept as well.
 */
#include "symbols/symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "symbols/debugfile.h"
#include "symbols/elffile.h"
#include "symbols/host.h"
#include "symbols/lines.h"
#include "symbols/set.h"
#include "symbols/strpool.h"
#include "symbols/table.h"

#define MAX_BYTES_DEFAULT    (512ull << 20)
#define LINES_BUDGET_DEFAULT (1000ull * 1000 * 1000)

enum { NAME_ROOM = 32 * 1024 };

struct symbols_module {
	struct symbols_module *next;
	const char *path;
	uint8_t build_id[ELFFILE_BUILD_ID_MAX]; /* as asked for */
	uint32_t build_id_bytes;
	struct tm_error failure; /* code 0: usable */
	struct elffile file;
	struct elffile debug; /* elf NULL: there is none */
	struct table table;
	struct lines *lines; /* NULL: no debug information, or not asked for */
};

struct symbols {
	struct symbols_options options;
	struct debugfile_search search;
	struct strpool *strings;
	struct symbols_module *modules;
	uint64_t table_bytes;
	uint64_t lines_budget_ns; /* what is left of it */
};

static void add_root(struct debugfile_search *search, const char *root)
{
	if (root && root[0])
		search->roots[search->root_count++] = root;
}

int symbols_new(const struct symbols_options *options, struct symbols **ret_symbols,
		struct tm_error *err)
{
	struct symbols *s = tm_alloc(sizeof *s);
	if (!s)
		return tm_fail(err, -ENOMEM, "out of memory");
	s->options = *options;
	s->strings = strpool_new();
	if (!s->strings) {
		symbols_free(s);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	if (!s->options.max_bytes)
		s->options.max_bytes = MAX_BYTES_DEFAULT;
	s->search.dirs = options->debug_dirs;
	s->search.dir_count = options->debug_dir_count;
	add_root(&s->search, options->sysroot);
	add_root(&s->search, options->root);
	s->search.roots[s->search.root_count++] = "";
	s->lines_budget_ns =
		options->lines_budget_ns ? options->lines_budget_ns : LINES_BUDGET_DEFAULT;
	*ret_symbols = s;
	return 0;
}

static void module_done(struct symbols_module *module)
{
	module->lines = lines_close(module->lines);
	table_done(&module->table);
	if (module->debug.elf)
		elffile_close(&module->debug);
	if (module->file.elf)
		elffile_close(&module->file);
}

struct symbols *symbols_free(struct symbols *s)
{
	if (!s)
		return NULL;
	for (struct symbols_module *module = s->modules, *next; module; module = next) {
		next = module->next;
		module_done(module);
		tm_free(module);
	}
	strpool_free(s->strings);
	return tm_free(s);
}

static int open_vdso(struct elffile *file, struct tm_error *err)
{
	size_t bytes = 0;
	const void *image = host_vdso(&bytes);
	if (!image)
		return tm_fail(err, -ENOENT, "this process has no vdso");
	return elffile_open_memory(file, image, bytes, err);
}

static bool same_build(const struct symbols_module *module, const struct elffile *file)
{
	return !module->build_id_bytes ||
	       (module->build_id_bytes == file->build_id_bytes &&
		!memcmp(module->build_id, file->build_id, file->build_id_bytes));
}

static int open_checked(struct symbols_module *module, const char *root, const char *path,
			struct tm_error *err)
{
	int code = elffile_open(&module->file, root, path, err);
	if (code)
		return code;
	if (same_build(module, &module->file))
		return 0;
	elffile_close(&module->file);
	return tm_fail(err, -ESTALE,
		       "'%s' is not the file that was recorded (its build-id differs): its "
		       "functions are not named. Put the old file back to see them",
		       path);
}

/* A file that was deleted while mapped may have come back under its name. */
static const char *without_deleted(struct symbols *s, const char *path)
{
	static const char suffix[] = " (deleted)";
	size_t bytes = strlen(path), cut = sizeof suffix - 1;
	if (bytes <= cut || strcmp(path + bytes - cut, suffix))
		return path;
	const char *kept = strpool_intern(s->strings, path, bytes - cut);
	return kept ? kept : path;
}

/* From a descriptor that the caller kept. */
static bool open_held(struct symbols *s, struct symbols_module *module, const char *path)
{
	int held = s->options.held ? s->options.held(s->options.held_ctx, module->path) : -1;
	int fd = held >= 0 ? dup(held) : -1;
	if (fd < 0 || elffile_open_fd(&module->file, fd, s->search.roots[0], path, NULL))
		return false;
	if (same_build(module, &module->file))
		return true;
	elffile_close(&module->file);
	return false;
}

static int open_file(struct symbols *s, struct symbols_module *module, struct tm_error *err)
{
	if (!strcmp(module->path, "[vdso]")) {
		int code = open_vdso(&module->file, err);
		if (!code && !same_build(module, &module->file)) {
			elffile_close(&module->file);
			code = tm_fail(err, -ESTALE, "the vdso is of another kernel");
		}
		return code;
	}
	const char *path = without_deleted(s, module->path);
	if (path[0] != '/')
		return tm_fail(err, -ENOENT, "'%s' names no file", path);
	if (open_held(s, module, path))
		return 0;
	int code = -ENOENT;
	for (size_t i = 0; i < s->search.root_count; i++) {
		const char *root = s->search.roots[i];
		/* Beside a copy of another machine's files ours must prove themselves. */
		if (!root[0] && s->options.sysroot && !module->build_id_bytes)
			break;
		struct tm_error reason = {0};
		int again = open_checked(module, root, path, &reason);
		/* What is wrong in the target's own root says more than what is missing in ours. */
		if (!again || i == 0 || code == -ENOENT || code == -EACCES) {
			code = again;
			*err = reason;
		}
		if (!code || code == -ENOMEM)
			break;
	}
	return code;
}

static int load_from(struct symbols *s, struct symbols_module *module, const struct elffile *file,
		     uint32_t type, struct tm_error *err)
{
	uint64_t left = s->options.max_bytes - s->table_bytes;
	int code = table_load(&module->table, file, type, left, err);
	if (!code)
		s->table_bytes += table_bytes(&module->table);
	return code;
}

static bool open_debug_file(struct symbols *s, struct symbols_module *module)
{
	if (!module->debug.elf && !s->options.no_debug_files && module->file.fd >= 0 &&
	    debugfile_open(&module->debug, &module->file, &s->search,
			   without_deleted(s, module->path)))
		return false;
	return module->debug.elf != NULL;
}

static void load_lines(struct symbols *s, struct symbols_module *module)
{
	struct lines_limits limits = {.max_bytes = s->options.max_bytes,
				      .budget_ns = &s->lines_budget_ns};
	if (!s->options.lines_here || !lines_open(&module->lines, &module->file, &limits))
		return;
	if (open_debug_file(s, module) && lines_open(&module->lines, &module->debug, &limits))
		module->lines = NULL;
}

/* .symtab, else the debug file's, else .dynsym. */
static int load_table(struct symbols *s, struct symbols_module *module, struct tm_error *err)
{
	struct tm_error reason;
	int code = load_from(s, module, &module->file, SHT_SYMTAB, &reason);
	if (code == -ENODATA && open_debug_file(s, module))
		code = load_from(s, module, &module->debug, SHT_SYMTAB, &reason);
	if (code == -ENODATA)
		code = load_from(s, module, &module->file, SHT_DYNSYM, &reason);
	if (code)
		return tm_fail(err, code, "'%s': %s", module->path, reason.text);
	return 0;
}

static int load_names(struct symbols *s, struct symbols_module *module, struct tm_error *err)
{
	int code = load_table(s, module, err);
	load_lines(s, module);
	if (code && module->lines) {
		*err = (struct tm_error){0};
		code = 0;
	}
	if (code)
		module_done(module);
	return code;
}

static struct symbols_module *find_open(struct symbols *s, const char *path,
					const uint8_t *build_id, uint32_t build_id_bytes)
{
	for (struct symbols_module *module = s->modules; module; module = module->next)
		if (!strcmp(module->path, path) && module->build_id_bytes == build_id_bytes &&
		    (!build_id_bytes || !memcmp(module->build_id, build_id, build_id_bytes)))
			return module;
	return NULL;
}

static struct symbols_module *add_module(struct symbols *s, const char *path,
					 const uint8_t *build_id, uint32_t build_id_bytes)
{
	struct symbols_module *module = tm_alloc(sizeof *module);
	if (!module)
		return NULL;
	module->path = strpool_intern(s->strings, path, strlen(path));
	if (!module->path)
		return tm_free(module);
	if (build_id_bytes)
		memcpy(module->build_id, build_id, build_id_bytes);
	module->build_id_bytes = build_id_bytes;
	module->next = s->modules;
	s->modules = module;
	return module;
}

int symbols_open(struct symbols *s, const char *path, const uint8_t *build_id,
		 uint32_t build_id_bytes, struct symbols_module **ret_module, struct tm_error *err)
{
	if (build_id_bytes > ELFFILE_BUILD_ID_MAX)
		return tm_fail(err, -EINVAL, "'%s' has an overlong build-id", path);
	struct symbols_module *module = find_open(s, path, build_id, build_id_bytes);
	if (!module) {
		module = add_module(s, path, build_id, build_id_bytes);
		if (!module)
			return tm_fail(err, -ENOMEM, "out of memory");
		int code = open_file(s, module, &module->failure);
		if (!code)
			code = load_names(s, module, &module->failure);
		if (code)
			set_warn(s, module->failure.text);
	}
	if (module->failure.code) {
		if (err)
			*err = module->failure;
		return module->failure.code;
	}
	*ret_module = module;
	return 0;
}

size_t symbols_lookup(struct symbols *s, struct symbols_module *module, uint64_t elf_address,
		      struct symbols_frame frames[SYMBOLS_CHAIN_MAX])
{
	size_t count = 0;
	if (module->lines)
		count = lines_find(module->lines, s->strings, elf_address, frames);
	if (count)
		return count;
	const char *mangled = table_find(&module->table, elf_address);
	if (!mangled)
		return 0;
	char name[NAME_ROOM];
	symbols_demangle(mangled, name, sizeof name);
	const char *function = strpool_intern(s->strings, name, strlen(name));
	if (!function)
		return 0;
	frames[0] = (struct symbols_frame){.function = function, .source = module->table.source};
	return 1;
}

bool set_wants_lines(const struct symbols *s)
{
	return !s->options.no_lines && !s->options.lines_here;
}

void set_become_worker(struct symbols *s, symbols_warn_fn warn, void *warn_ctx)
{
	s->options.lines_here = true;
	s->options.warn = warn;
	s->options.warn_ctx = warn_ctx;
}

uint64_t set_lines_budget_ns(const struct symbols *s)
{
	return s->lines_budget_ns;
}

struct strpool *set_strings(struct symbols *s)
{
	return s->strings;
}

void set_warn(struct symbols *s, const char *sentence)
{
	if (s->options.warn)
		s->options.warn(s->options.warn_ctx, sentence);
}
