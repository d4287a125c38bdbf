/* SPDX-License-Identifier: Apache-2.0 */
#include "model/anonymize.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "symbols/kinds.h"
#include "trace/rename.h"

struct section_paths {
	char **paths; /* by module id */
	size_t count;
};

struct work {
	const struct anonymize_options *options;
	struct words *words;
	struct kinds *kinds;
	struct section_paths *sections;
	size_t section_count;
	/* What the record at hand points to. */
	struct text first, second;
};

/* ---- texts ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int replace(struct work *k, const char **text, struct text *storage)
{
	if (!*text || !**text)
		return 0;
	text_clear(storage);
	if (words_replace(k->words, *text, strlen(*text), storage))
		return -ENOMEM;
	*text = text_string(storage);
	return 0;
}

/* Libraries that every program has (the C library, the loader, ...) keep their names. */
static bool is_common_library(struct work *k, const char *path)
{
	if (!strcmp(path, "[vdso]"))
		return true;
	if (!strcmp(path, "[anonymous]"))
		return false;
	struct kinds_answer answer =
		kinds_of(k->kinds, &(struct kinds_frame){.function = "x", .module = path});
	return answer.kind == KIND_STANDARD || answer.kind == KIND_RUNTIME;
}

static int replace_folders(struct work *k, const char **path, struct text *storage)
{
	if (!*path || !**path)
		return 0;
	const char *base = base_name(*path);
	text_clear(storage);
	if (words_replace(k->words, *path, (size_t)(base - *path), storage))
		return -ENOMEM;
	text_put(storage, base);
	*path = text_string(storage);
	return text_error(storage);
}

static int replace_path(struct work *k, const char **path, struct text *storage)
{
	if (!*path || !**path)
		return 0;
	return is_common_library(k, *path) ? replace_folders(k, path, storage)
					   : replace(k, path, storage);
}

/* ---- records ---- */

/* Ten years: the date and the hour are gone, distances between recordings stay. */
static uint64_t other_start(const struct work *k, uint64_t start_unix_ns)
{
	const uint64_t ten_years_ns = 10ull * 365 * 86400 * 1000000000;
	uint64_t shift = words_number(k->words, "start", 5) % ten_years_ns;
	return start_unix_ns > shift ? start_unix_ns - shift : start_unix_ns;
}

static bool is_plain_source(const char *source)
{
	return source[strspn(source, "abcdefghijklmnopqrstuvwxyz0123456789:-_")] == '\0';
}

static int on_meta(void *ctx, struct trace_meta *meta)
{
	struct work *k = ctx;
	meta->start_unix_ns = other_start(k, meta->start_unix_ns);
	/* Pieces of one recording stay pieces of one, if they get the same key. */
	if (meta->series_id)
		meta->series_id =
			words_number(k->words, &meta->series_id, sizeof meta->series_id) | 1;
	if (meta->source && !is_plain_source(meta->source))
		meta->source = "unknown";
	if (meta->host && meta->host[0])
		meta->host = words_of(k->words, meta->host, strlen(meta->host));
	int rc = replace_path(k, &meta->program, &k->first);
	/* Arguments can hold anything: none of them goes along. */
	if (meta->command && meta->command[0])
		meta->command = meta->program ? base_name(meta->program) : "";
	return rc || !meta->host ? -ENOMEM : 0;
}

static void on_end(void *ctx, struct trace_end *end)
{
	(void)ctx;
	end->facts = end->suppressions = NULL; /* they may quote names */
	snprintf(end->note, sizeof end->note, "Names were replaced by 'tidemark anonymize'.");
}

static int on_module(void *ctx, uint32_t section, struct trace_module *module)
{
	struct work *k = ctx;
	(void)section;
	uint8_t old[sizeof module->build_id + 1];
	memcpy(old, module->build_id, sizeof module->build_id);
	for (uint32_t at = 0; at < module->build_id_bytes; at += 8) {
		old[module->build_id_bytes] = (uint8_t)at;
		uint64_t number = words_number(k->words, old, module->build_id_bytes + 1);
		uint32_t left = module->build_id_bytes - at;
		memcpy(module->build_id + at, &number, left < 8 ? left : 8);
	}
	return replace_path(k, &module->path, &k->first);
}

/* "worker-12": the word of what is before the number, and the number, so that they still group. */
static int on_thread(void *ctx, struct trace_thread *thread)
{
	struct work *k = ctx;
	size_t bytes = strnlen(thread->name, sizeof thread->name - 1), stem = bytes;
	while (stem && bytes - stem < 3 &&
	       (strchr("0123456789", thread->name[stem - 1]) ||
		(stem < bytes && strchr("-_:#/ ", thread->name[stem - 1]))))
		stem--;
	if (!bytes || !stem)
		return 0;
	const char *word = words_of(k->words, thread->name, stem);
	if (!word)
		return -ENOMEM;
	char name[sizeof thread->name];
	snprintf(name, sizeof name, "%.*s%.*s", (int)(sizeof name - 1 - (bytes - stem)), word,
		 (int)(bytes - stem), thread->name + stem);
	memcpy(thread->name, name, sizeof name);
	return 0;
}

static int on_moment(void *ctx, struct trace_moment *moment)
{
	struct work *k = ctx;
	return replace(k, &moment->text, &k->first);
}

static const char *module_path(const struct work *k, uint32_t section, uint32_t module_id)
{
	const char *path = NULL;
	if (section < k->section_count && module_id < k->sections[section].count)
		path = k->sections[section].paths[module_id];
	return path ? path : "[anonymous]";
}

static int on_symbol(void *ctx, uint32_t section, struct trace_symbol *symbol)
{
	struct work *k = ctx;
	const struct kinds_frame frame = {
		.function = symbol->function,
		.file = symbol->file,
		.module = module_path(k, section, symbol->module_id),
		.jit = symbol->source == TRACE_SYM_JIT,
	};
	if (!symbol->kind)
		symbol->kind = (uint8_t)(kinds_of(k->kinds, &frame).kind + 1);
	/* What everybody's C library does is no secret, but what it is instantiated with may be. */
	bool common = symbol->module_id && is_common_library(k, frame.module) &&
		      !(symbol->function && strchr(symbol->function, '<'));
	if (common)
		return replace_folders(k, &symbol->file, &k->second);
	int rc = replace(k, &symbol->function, &k->first);
	return rc ? rc : replace(k, &symbol->file, &k->second);
}

static int on_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct work *k = ctx;
	return k->options->progress ? k->options->progress(k->options->ctx, done, all) : 0;
}

/* ---- all ---- */

static int note_modules(struct section_paths *section, const struct trace_module *modules,
			size_t count)
{
	section->paths = tm_alloc_array(count + 1, sizeof *section->paths);
	if (!section->paths)
		return -ENOMEM;
	section->count = count;
	for (size_t id = 1; id < count; id++) {
		if (!modules[id].path || !modules[id].path[0])
			continue;
		section->paths[id] = tm_strdup(modules[id].path);
		if (!section->paths[id])
			return -ENOMEM;
	}
	return 0;
}

/* Symbols come after the modules that they belong to, but tell only their ids. */
static int note_sections(struct work *k, struct trace_reader *reader, struct tm_error *err)
{
	size_t count = trace_reader_section_count(reader);
	k->sections = tm_alloc_array(count + 1, sizeof *k->sections);
	if (!k->sections)
		return tm_fail(err, -ENOMEM, "no memory for the names of modules");
	k->section_count = count;
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		const struct trace_module *modules;
		size_t module_count;
		rc = trace_reader_select(reader, i, err);
		if (!rc)
			rc = trace_reader_modules(reader, &modules, &module_count, err);
		if (!rc && note_modules(&k->sections[i], modules, module_count))
			rc = tm_fail(err, -ENOMEM, "no memory for the names of modules");
	}
	return rc;
}

static void done(struct work *k)
{
	for (size_t i = 0; i < k->section_count; i++) {
		for (size_t id = 0; id < k->sections[i].count; id++)
			tm_free(k->sections[i].paths[id]);
		tm_free(k->sections[i].paths);
	}
	tm_free(k->sections);
	text_done(&k->first);
	text_done(&k->second);
	kinds_free(k->kinds);
}

int anonymize(const char *path, int fd, const struct anonymize_options *options,
	      struct tm_error *err)
{
	struct work k = {.options = options, .words = options->words};
	const struct trace_words words = {
		.meta = on_meta,
		.end = on_end,
		.module = on_module,
		.thread = on_thread,
		.moment = on_moment,
		.symbol = on_symbol,
		.progress = on_progress,
		.ctx = &k,
	};
	struct trace_reader *reader;
	int rc = trace_reader_open(path, &reader, err);
	if (rc)
		return rc;
	rc = note_sections(&k, reader, err);
	trace_reader_close(reader);
	if (!rc)
		rc = kinds_new(&k.kinds, err);
	if (!rc)
		rc = trace_rename(path, fd, &words, err);
	done(&k);
	return rc;
}
