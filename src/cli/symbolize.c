/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "symbols/sourceline.h"
#include "trace/texts.h"
#include "trace/trace.h"

/* One section on its way. */
struct work {
	const struct symbolize_options *options;
	struct trace_reader *reader;
	struct trace_rewrite *rewrite;
	struct symbols *symbols;
	uint32_t section;
	struct symbolize_result result;
	struct tm_error *err;
};

/* Symbols of one address, in a list that is sorted by module and address. */
struct chain {
	const struct trace_symbol *first;
	size_t count;
};

static int compare(const struct trace_symbol *a, const struct trace_symbol *b)
{
	if (a->module_id != b->module_id)
		return a->module_id < b->module_id ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

static struct chain chain_at(const struct trace_symbol *symbols, size_t at, size_t count)
{
	struct chain chain = {.first = &symbols[at]};
	while (at < count && !compare(&symbols[at], chain.first)) {
		at++;
		chain.count++;
	}
	return chain;
}

/* Debug information says more than a symbol table, that more than the dynamic one. */
static int worth(const struct chain *chain)
{
	if (!chain->count || !chain->first->function)
		return 0;
	switch ((enum trace_symbol_source)chain->first->source) {
	case TRACE_SYM_NONE:
		return 1;
	case TRACE_SYM_DYNSYM:
		return 2;
	case TRACE_SYM_SYMTAB:
		return 3;
	case TRACE_SYM_DWARF:
		return 4;
	case TRACE_SYM_JIT:
		return 5;
	}
	return 0;
}

static void put_chain(struct work *work, const struct chain *chain, struct trace_symbol *out,
		      size_t *used)
{
	if (!chain->count)
		return;
	memcpy(out + *used, chain->first, chain->count * sizeof *out);
	*used += chain->count;
	/* What a program made itself has no file to be looked up in, and is not counted. */
	if (!chain->first->module_id)
		return;
	work->result.named += worth(chain) > 1;
	work->result.with_lines += chain->first->line > 0;
}

/* Both lists in one, of each address the better. */
static int merge(struct work *work, const struct trace_symbol *old, size_t old_count,
		 const struct symbols_result *new, struct trace_symbol **ret, size_t *ret_count)
{
	struct trace_symbol *out = tm_alloc_array(old_count + new->count + 1, sizeof *out);
	if (!out)
		return tm_fail(work->err, -ENOMEM, "out of memory");
	size_t used = 0;
	for (size_t i = 0, k = 0; i < old_count || k < new->count;) {
		struct chain a = {0}, b = {0};
		if (i < old_count)
			a = chain_at(old, i, old_count);
		if (k < new->count)
			b = chain_at(new->symbols, k, new->count);
		int order = !a.count ? 1 : !b.count ? -1 : compare(a.first, b.first);
		bool take_new = order > 0 || (order == 0 && worth(&b) >= worth(&a));
		if (order <= 0 && a.first->module_id)
			work->result.named_before += worth(&a) > 1;
		put_chain(work, take_new ? &b : &a, out, &used);
		i += order <= 0 ? a.count : 0;
		k += order >= 0 ? b.count : 0;
	}
	*ret = out;
	*ret_count = used;
	return 0;
}

/* ---- source lines ---- */

struct lines {
	const struct work *work;
	struct texts texts;
	struct trace_source_line *list;
	size_t count, room;
};

static int open_source(void *ctx, const char *path)
{
	const struct lines *lines = ctx;
	const char *sysroot = lines->work->options->symbols.sysroot;
	char joined[8192];
	int fd = -1;
	if (sysroot && snprintf(joined, sizeof joined, "%s%s", sysroot, path) < (int)sizeof joined)
		fd = open(joined, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

static int keep_line(void *ctx, const struct trace_source_line *line)
{
	struct lines *lines = ctx;
	if (lines->count == lines->room) {
		size_t room = lines->room * 2 + 64;
		void *grown = tm_grow_array(lines->list, room, sizeof *lines->list);
		if (!grown)
			return -ENOMEM;
		lines->list = grown;
		lines->room = room;
	}
	const char *text = texts_add(&lines->texts, line->text, strlen(line->text));
	if (!text)
		return -ENOMEM;
	lines->list[lines->count++] =
		(struct trace_source_line){.file = line->file, .line = line->line, .text = text};
	return 0;
}

/* New ones if they are asked for, else those that are there. */
static int write_sources(struct work *work, const struct trace_symbol *symbols, size_t count)
{
	const struct trace_source_line *old = NULL;
	size_t old_count = 0;
	int code = trace_reader_sources(work->reader, &old, &old_count, work->err);
	if (code)
		return code;
	struct lines lines = {.work = work};
	if (work->options->embed_source) {
		code = sourceline_read(symbols, count, open_source, keep_line, &lines);
		if (code)
			tm_fail(work->err, code, "out of memory");
	}
	if (lines.count) {
		old = lines.list;
		old_count = lines.count;
	}
	work->result.source_lines += old_count;
	if (!code)
		code = trace_rewrite_sources(work->rewrite, work->section, old, old_count,
					     work->err);
	texts_done(&lines.texts);
	tm_free(lines.list);
	return code;
}

/* ---- sections ---- */

static int resolve(struct work *work, struct symbols_result *ret)
{
	const struct trace_stack *stacks;
	const struct trace_module *modules;
	struct symbols_request *requests = NULL;
	size_t stack_count, module_count, count = 0;
	int code = trace_reader_stacks(work->reader, &stacks, &stack_count, work->err);
	if (!code)
		code = trace_reader_modules(work->reader, &modules, &module_count, work->err);
	if (!code)
		code = symbols_requests(stacks, 1, stack_count, &requests, &count, work->err);
	if (!code)
		code = symbols_resolve(work->symbols, modules, module_count, requests, count, ret,
				       work->err);
	if (!code)
		work->result.addresses += count;
	tm_free(requests);
	return code;
}

static int do_section(struct work *work)
{
	const struct trace_symbol *old = NULL;
	struct trace_symbol *merged = NULL;
	struct symbols_result found = {0};
	size_t old_count = 0, count = 0;
	int code = trace_reader_select(work->reader, work->section, work->err);
	if (!code)
		code = trace_reader_symbols(work->reader, &old, &old_count, work->err);
	if (!code)
		code = resolve(work, &found);
	if (!code)
		code = merge(work, old, old_count, &found, &merged, &count);
	if (!code)
		code = trace_rewrite_symbols(work->rewrite, work->section, merged, count,
					     work->err);
	if (!code)
		code = write_sources(work, merged, count);
	tm_free(merged);
	tm_free(found.symbols);
	return code;
}

static int do_all(struct work *work, const char *path)
{
	int code = trace_rewrite_open(path, &work->rewrite, work->err);
	size_t count = trace_reader_section_count(work->reader);
	for (; !code && work->section < count; work->section++)
		code = do_section(work);
	if (!code)
		return trace_rewrite_close(work->rewrite, work->err);
	trace_rewrite_cancel(work->rewrite);
	return code;
}

int symbolize_file(const char *path, const struct symbolize_options *options,
		   struct symbolize_result *ret_result, struct tm_error *err)
{
	struct work work = {.options = options, .err = err};
	int code = trace_reader_open(path, &work.reader, err);
	if (!code)
		code = symbols_new(&options->symbols, &work.symbols, err);
	if (!code)
		code = do_all(&work, path);
	symbols_free(work.symbols);
	trace_reader_close(work.reader);
	if (!code)
		*ret_result = work.result;
	return code;
}
