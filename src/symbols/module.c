/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where names are looked for, in this order:
 *
 *   lines   the module's own DWARF, its debug file's, one from the network
 *   tables  .symtab of the module, of its debug file, of .gnu_debugdata; .dynsym
 */
#include "symbols/module.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "symbols/host.h"
#include "symbols/unpack.h"

enum { NAME_ROOM = 32 * 1024 };

void module_done(struct symbols_module *module)
{
	module->lines = lines_close(module->lines);
	table_done(&module->tables[0]);
	table_done(&module->tables[1]);
	if (module->mini.elf)
		elffile_close(&module->mini);
	if (module->debug.elf)
		elffile_close(&module->debug);
	if (module->file.elf)
		elffile_close(&module->file);
	module->mini_bytes = tm_free(module->mini_bytes);
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
static const char *without_deleted(struct module_set *set, const char *path)
{
	static const char suffix[] = " (deleted)";
	size_t bytes = strlen(path), cut = sizeof suffix - 1;
	if (bytes <= cut || strcmp(path + bytes - cut, suffix))
		return path;
	const char *kept = strpool_intern(set->strings, path, bytes - cut);
	return kept ? kept : path;
}

/* From a descriptor that the caller kept. */
static bool open_held(struct module_set *set, struct symbols_module *module, const char *path)
{
	int held = -1;
	if (set->options.held)
		held = set->options.held(set->options.held_ctx, module->path, module->build_id,
					 module->build_id_bytes);
	int fd = held >= 0 ? dup(held) : -1;
	if (fd < 0 || elffile_open_fd(&module->file, fd, set->search.roots[0], path, NULL))
		return false;
	if (same_build(module, &module->file))
		return true;
	elffile_close(&module->file);
	return false;
}

static int open_file(struct module_set *set, struct symbols_module *module, struct tm_error *err)
{
	if (!strcmp(module->path, "[vdso]")) {
		int code = open_vdso(&module->file, err);
		if (!code && !same_build(module, &module->file)) {
			elffile_close(&module->file);
			code = tm_fail(err, -ESTALE, "the vdso is of another kernel");
		}
		return code;
	}
	const char *path = without_deleted(set, module->path);
	if (path[0] != '/')
		return tm_fail(err, -ENOENT, "'%s' names no file", path);
	if (open_held(set, module, path))
		return 0;
	int code = -ENOENT;
	for (size_t i = 0; i < set->search.root_count; i++) {
		const char *root = set->search.roots[i];
		/* Beside a copy of another machine's files ours must prove themselves. */
		if (!root[0] && set->options.sysroot && !module->build_id_bytes)
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

/* Another build is there, or nothing: its debug file may still be. */
static int open_any(struct module_set *set, struct symbols_module *module, struct tm_error *err)
{
	int code = open_file(set, module, err);
	if ((code != -ENOENT && code != -ESTALE && code != -EACCES) || !module->build_id_bytes ||
	    set->options.no_debug_files)
		return code;
	if (debugfile_open_build(&module->debug, module->build_id, module->build_id_bytes,
				 &set->search) &&
	    remote_open(&set->remote, &module->debug, module->path, module->build_id,
			module->build_id_bytes))
		return code;
	*err = (struct tm_error){0};
	return 0;
}

static int load_from(struct module_set *set, struct table *table, const struct elffile *file,
		     uint32_t type, struct tm_error *err)
{
	if (!file->elf)
		return tm_fail(err, -ENODATA, "no symbol table");
	uint64_t left = set->options.max_bytes - set->table_bytes;
	int code = table_load(table, file, type, left, err);
	if (!code)
		set->table_bytes += table_bytes(table);
	return code;
}

static bool open_debug_file(struct module_set *set, struct symbols_module *module)
{
	if (!module->debug.elf && !set->options.no_debug_files && module->file.fd >= 0 &&
	    debugfile_open(&module->debug, &module->file, &set->search,
			   without_deleted(set, module->path)))
		return false;
	return module->debug.elf != NULL;
}

static bool open_lines(struct module_set *set, struct symbols_module *module,
		       const struct elffile *file)
{
	struct lines_limits limits = {.max_bytes = set->options.max_bytes,
				      .budget_ns = &set->budget_ns};
	if (file->elf && lines_open(&module->lines, file, &set->search, &limits))
		module->lines = NULL;
	return module->lines != NULL;
}

static void load_lines(struct module_set *set, struct symbols_module *module)
{
	if (!set->options.lines_here || open_lines(set, module, &module->file))
		return;
	if (open_debug_file(set, module) && open_lines(set, module, &module->debug))
		return;
	struct elffile fetched;
	if (!module->debug.elf && module->file.build_id_bytes && !set->options.no_debug_files &&
	    !remote_open(&set->remote, &fetched, module->path, module->file.build_id,
			 module->file.build_id_bytes)) {
		module->debug = fetched;
		open_lines(set, module, &module->debug);
	}
}

/* MiniDebugInfo: a packed ELF file with the symbols that .dynsym lacks. */
static bool open_mini(struct module_set *set, struct symbols_module *module)
{
	GElf_Shdr header;
	Elf_Scn *section = module->file.elf
				   ? elffile_section(&module->file, ".gnu_debugdata", 0, &header)
				   : NULL;
	Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
	size_t bytes = 0;
	return data && data->d_buf &&
	       !unpack_xz(data->d_buf, data->d_size, set->options.max_bytes / 4,
			  &module->mini_bytes, &bytes) &&
	       !elffile_open_memory(&module->mini, module->mini_bytes, bytes, NULL);
}

static int load_tables(struct module_set *set, struct symbols_module *module, struct tm_error *err)
{
	struct tm_error reason;
	struct table *tables = module->tables;
	int code = load_from(set, &tables[0], &module->file, SHT_SYMTAB, &reason);
	if (code == -ENODATA && open_debug_file(set, module))
		code = load_from(set, &tables[0], &module->debug, SHT_SYMTAB, &reason);
	if (code == -ENODATA && open_mini(set, module))
		code = load_from(set, &tables[0], &module->mini, SHT_SYMTAB, &reason);
	if (code == -ENODATA || (!code && module->mini.elf)) {
		int again = load_from(set, &tables[1], &module->file, SHT_DYNSYM, &reason);
		code = code ? again : 0;
	}
	if (code)
		return tm_fail(err, code, "'%s': %s", module->path, reason.text);
	return 0;
}

static void choose_demangler(struct symbols_module *module)
{
	bool is_nim = table_mentions(&module->file, "NimMain") ||
		      table_mentions(&module->debug, "NimMain");
	module->demangle = is_nim ? symbols_demangle_nim : symbols_demangle;
	if (module->lines)
		lines_set_demangle(module->lines, module->demangle);
}

int module_open(struct module_set *set, struct symbols_module *module, struct tm_error *err)
{
	int code = open_any(set, module, err);
	if (code)
		return code;
	/* Lines first: they may bring a debug file with a symbol table. */
	load_lines(set, module);
	code = load_tables(set, module, err);
	choose_demangler(module);
	if (code && module->lines) {
		*err = (struct tm_error){0};
		code = 0;
	}
	if (code)
		module_done(module);
	return code;
}

static const char *demangled(struct module_set *set, const struct symbols_module *module,
			     const char *mangled)
{
	char name[NAME_ROOM];
	module->demangle(mangled, name, sizeof name);
	return strpool_intern(set->strings, name, strlen(name));
}

/* *ret_source: which table it was. */
static const char *find_in_tables(const struct symbols_module *module, uint64_t elf_address,
				  uint8_t *ret_source)
{
	for (size_t i = 0; i < 2; i++) {
		const char *mangled = table_find(&module->tables[i], elf_address);
		if (mangled) {
			*ret_source = module->tables[i].source;
			return mangled;
		}
	}
	return NULL;
}

static bool is_mangled(const char *name)
{
	return name && name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D');
}

static void say_budget(struct module_set *set)
{
	if (!set->budget_said && set->options.warn)
		set->options.warn(set->options.warn_ctx,
				  "reading debug information took too long and was ended: some "
				  "functions have no lines. 'tidemark symbolize' reads the rest");
	set->budget_said = true;
}

size_t module_lookup(struct module_set *set, struct symbols_module *module, uint64_t elf_address,
		     struct symbols_frame frames[SYMBOLS_CHAIN_MAX])
{
	struct lines_answer answer = {0};
	uint8_t source = TRACE_SYM_NONE;
	if (module->lines)
		lines_find(module->lines, set->strings, elf_address, &answer);
	if (module->lines && !set->budget_ns)
		say_budget(set);
	const char *mangled = !answer.count || answer.is_plain
				      ? find_in_tables(module, elf_address, &source)
				      : NULL;
	if (answer.count) {
		/* Some compilers name only the symbol in full. */
		const char *full = is_mangled(mangled) ? demangled(set, module, mangled) : NULL;
		if (full)
			answer.frames[answer.count - 1].function = full;
		memcpy(frames, answer.frames, answer.count * sizeof *frames);
		return answer.count;
	}
	const char *function = mangled ? demangled(set, module, mangled) : NULL;
	if (!function)
		return 0;
	frames[0] = (struct symbols_frame){
		.function = function,
		.file = answer.file,
		.line = answer.line,
		.column = answer.column,
		.source = source,
	};
	return 1;
}
