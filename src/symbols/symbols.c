/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of open modules. Each is opened once, recognised by its build-id, and
 * keeps its best symbol table until the set goes; a failure is kept as well.
 */
#include "symbols/symbols.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "symbols/module.h"
#include "symbols/set.h"
#include "symbols/strpool.h"

#define MAX_BYTES_DEFAULT    (512ull << 20)
#define LINES_BUDGET_DEFAULT (20ull * 1000 * 1000 * 1000)

struct symbols {
	struct module_set set;
	struct symbols_module *modules;
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
	s->set.options = *options;
	s->set.remote.options = &s->set.options;
	s->set.strings = strpool_new();
	if (!s->set.strings) {
		symbols_free(s);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	if (!s->set.options.max_bytes)
		s->set.options.max_bytes = MAX_BYTES_DEFAULT;
	s->set.search.dirs = options->debug_dirs;
	s->set.search.dir_count = options->debug_dir_count;
	add_root(&s->set.search, options->sysroot);
	add_root(&s->set.search, options->root);
	s->set.search.roots[s->set.search.root_count++] = "";
	s->set.budget_ns =
		options->lines_budget_ns ? options->lines_budget_ns : LINES_BUDGET_DEFAULT;
	*ret_symbols = s;
	return 0;
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
	remote_done(&s->set.remote);
	strpool_free(s->set.strings);
	return tm_free(s);
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
	module->path = strpool_intern(s->set.strings, path, strlen(path));
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
		if (module_open(&s->set, module, &module->failure))
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
	return module_lookup(&s->set, module, elf_address, frames);
}

bool set_wants_lines(const struct symbols *s)
{
	return !s->set.options.no_lines && !s->set.options.lines_here;
}

void set_become_worker(struct symbols *s, symbols_warn_fn warn, symbols_progress_fn progress,
		       void *ctx)
{
	s->set.options.lines_here = true;
	s->set.options.warn = warn;
	s->set.options.warn_ctx = ctx;
	s->set.options.progress = progress;
	s->set.options.progress_ctx = ctx;
}

uint64_t set_lines_budget_ns(const struct symbols *s)
{
	return s->set.budget_ns;
}

struct strpool *set_strings(struct symbols *s)
{
	return s->set.strings;
}

void set_warn(struct symbols *s, const char *sentence)
{
	if (s->set.options.warn)
		s->set.options.warn(s->set.options.warn_ctx, sentence);
}

void set_progress(struct symbols *s, const char *what, uint64_t done, uint64_t total)
{
	if (s->set.options.progress)
		s->set.options.progress(s->set.options.progress_ctx, what, done, total);
}

uint32_t set_workers(const struct symbols *s)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	if (s->set.options.workers)
		return s->set.options.workers;
	return online > 0 ? (uint32_t)online : 1;
}
