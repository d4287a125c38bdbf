/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading records of the selected section: stacks, modules, threads and so on.
 * A block that is damaged is left out with a warning that says what is lost.
 */
#include "trace/reader.h"

#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One kind of record: where it is and how it is read and stored. */
struct kind {
	enum format_type type;
	size_t row_bytes;
	unsigned column_count;
	/* Reads one record and stores it; false if the bytes are bad. -ENOMEM is kept in *ret. */
	bool (*get)(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret);
};

/* A slot for row number `index`, zeros before it included. */
static void *table_slot(struct reader_table *table, size_t index, size_t row_bytes)
{
	if (index >= table->room) {
		size_t room = table->room ? table->room : 64;
		while (room <= index)
			room *= 2;
		char *rows = tm_grow_array(table->rows, room, row_bytes);
		if (!rows)
			return NULL;
		memset(rows + table->room * row_bytes, 0, (room - table->room) * row_bytes);
		table->rows = rows;
		table->room = room;
	}
	if (index >= table->count)
		table->count = index + 1;
	return (char *)table->rows + index * row_bytes;
}

static bool get_stack(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_stack stack;
	uint64_t id = ordinal + 1;
	if (id >= r->stack_count || !rows_get_stack(in, (uint32_t)id, &stack))
		return false;
	struct trace_stack *slot = table_slot(&r->stacks, id, sizeof stack);
	if (slot)
		*slot = stack;
	*ret = slot ? 0 : -ENOMEM;
	return true;
}

static bool get_module(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_module module;
	(void)ordinal;
	if (!rows_get_module(in, &module) ||
	    module.module_id >= section_ids(&r->section, FORMAT_MODULES, source_limit(&r->source)))
		return false;
	struct trace_module *slot = table_slot(&r->modules, module.module_id, sizeof module);
	if (slot)
		*slot = module;
	*ret = slot && !r->texts.failed ? 0 : -ENOMEM;
	return true;
}

static bool get_thread(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_thread thread;
	(void)ordinal;
	if (!rows_get_thread(in, &thread) || thread.thread_id >= r->thread_count)
		return false;
	struct trace_thread *slot = table_slot(&r->threads, thread.thread_id, sizeof thread);
	if (slot)
		*slot = thread;
	*ret = slot ? 0 : -ENOMEM;
	return true;
}

static bool get_map(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_map_event event;
	(void)ordinal;
	if (!rows_get_map(in, &event) || event.stack_id >= r->stack_count)
		return false;
	struct trace_map_event *slot = table_slot(&r->maps, r->maps.count, sizeof event);
	if (slot)
		*slot = event;
	*ret = slot ? 0 : -ENOMEM;
	return true;
}

static bool get_sample(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_sample sample;
	(void)ordinal;
	if (!rows_get_sample(in, &sample))
		return false;
	struct trace_sample *slot = table_slot(&r->samples, r->samples.count, sizeof sample);
	if (slot)
		*slot = sample;
	*ret = slot ? 0 : -ENOMEM;
	return true;
}

static bool get_moment(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_moment moment;
	const struct trace_moment *rows = r->moments.rows;
	(void)ordinal;
	if (!rows_get_moment(in, &moment) ||
	    (r->moments.count > 0 && moment.time_ns < rows[r->moments.count - 1].time_ns))
		return false;
	struct trace_moment *slot = table_slot(&r->moments, r->moments.count, sizeof moment);
	if (slot)
		*slot = moment;
	*ret = slot && !r->texts.failed ? 0 : -ENOMEM;
	return true;
}

static bool get_symbol(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_symbol symbol;
	(void)ordinal;
	if (!rows_get_symbol(in, &symbol))
		return false;
	struct trace_symbol *slot = table_slot(&r->symbols, r->symbols.count, sizeof symbol);
	if (slot)
		*slot = symbol;
	*ret = slot && !r->texts.failed ? 0 : -ENOMEM;
	return true;
}

static bool get_source(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct trace_source_line line;
	(void)ordinal;
	if (!rows_get_source(in, &line) || !line.file || !line.text)
		return false;
	struct trace_source_line *slot = table_slot(&r->sources, r->sources.count, sizeof line);
	if (slot)
		*slot = line;
	*ret = slot && !r->texts.failed ? 0 : -ENOMEM;
	return true;
}

static bool get_ref(struct trace_reader *r, struct rows_reader *in, uint64_t ordinal, int *ret)
{
	struct rows_ref ref;
	const struct rows_ref *rows = r->refs.rows;
	(void)ordinal;
	if (!rows_get_ref(in, &ref) || ref.stack_id >= r->stack_count ||
	    (r->refs.count > 0 && ref.ordinal <= rows[r->refs.count - 1].ordinal))
		return false;
	struct rows_ref *slot = table_slot(&r->refs, r->refs.count, sizeof ref);
	if (slot)
		*slot = ref;
	*ret = slot ? 0 : -ENOMEM;
	return true;
}

/* All records of one block. A damaged one is warned of; only lack of memory is an error. */
static int load_group(struct trace_reader *r, const struct kind *kind,
		      const struct section_group *group, struct tm_error *err)
{
	struct bytes storage = {0};
	struct rows_reader in = {.texts = &r->texts};
	struct tm_error why = {0};
	uint32_t row = 0;
	int rc = section_columns(&r->section, &r->scan, &r->source, group, &storage, in.columns,
				 kind->column_count, &why);
	bool good = rc == 0;
	while (good && rc == 0 && row < group->header.count) {
		good = kind->get(r, &in, group->header.first_ordinal + row, &rc);
		row += good;
	}
	bytes_done(&storage);
	if (rc == -ENOMEM)
		return tm_fail(err, rc, "There is no memory for the %s of '%s'",
			       source_type_name(kind->type), r->source.path);
	if (rc == -EBADMSG || (rc == 0 && !good)) {
		source_warn(&r->source,
			    "a block of %s is damaged: %" PRIu32 " of its %" PRIu32
			    " records are lost",
			    source_type_name(kind->type), group->header.count - row,
			    group->header.count);
		return 0;
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

static int load_table(struct trace_reader *r, const struct kind *kind, struct reader_table *table,
		      struct tm_error *err)
{
	if (table->loaded)
		return 0;
	table->count = 0;
	for (size_t i = 0; i < section_count(&r->section, kind->type); i++) {
		int rc = load_group(r, kind, section_group(&r->section, kind->type, i), err);
		if (rc < 0)
			return rc;
	}
	table->loaded = true;
	return 0;
}

/* A table by id: as long as the headers promise, whatever was lost. */
static int pad_table(struct trace_reader *r, struct reader_table *table, size_t count,
		     size_t row_bytes, struct tm_error *err)
{
	if (count > 0 && !table_slot(table, count - 1, row_bytes))
		return tm_fail(err, -ENOMEM, "There is no memory for the tables of '%s'",
			       r->source.path);
	return 0;
}

int trace_reader_stacks(struct trace_reader *r, const struct trace_stack **ret, size_t *ret_count,
			struct tm_error *err)
{
	static const struct kind kind = {FORMAT_STACKS, sizeof(struct trace_stack), 3, get_stack};
	int rc = load_table(r, &kind, &r->stacks, err);
	if (rc == 0)
		rc = pad_table(r, &r->stacks, r->stack_count, sizeof(struct trace_stack), err);
	if (rc < 0)
		return rc;
	*ret = r->stacks.rows;
	*ret_count = r->stacks.count;
	return 0;
}

int trace_reader_modules(struct trace_reader *r, const struct trace_module **ret, size_t *ret_count,
			 struct tm_error *err)
{
	static const struct kind kind = {FORMAT_MODULES, sizeof(struct trace_module), 1,
					 get_module};
	int rc = load_table(r, &kind, &r->modules, err);
	if (rc == 0)
		rc = pad_table(r, &r->modules, 1, sizeof(struct trace_module), err);
	if (rc < 0)
		return rc;
	struct trace_module *modules = r->modules.rows;
	for (size_t i = 0; i < r->modules.count; i++)
		if (!modules[i].path)
			modules[i].path = "";
	*ret = modules;
	*ret_count = r->modules.count;
	return 0;
}

int trace_reader_threads(struct trace_reader *r, const struct trace_thread **ret, size_t *ret_count,
			 struct tm_error *err)
{
	static const struct kind kind = {FORMAT_THREADS, sizeof(struct trace_thread), 1,
					 get_thread};
	int rc = load_table(r, &kind, &r->threads, err);
	if (rc == 0)
		rc = pad_table(r, &r->threads, r->thread_count, sizeof(struct trace_thread), err);
	if (rc < 0)
		return rc;
	struct trace_thread *threads = r->threads.rows;
	for (size_t i = 0; i < r->threads.count; i++)
		threads[i].thread_id = (uint32_t)i;
	*ret = threads;
	*ret_count = r->threads.count;
	return 0;
}

int trace_reader_samples(struct trace_reader *r, const struct trace_sample **ret, size_t *ret_count,
			 struct tm_error *err)
{
	static const struct kind kind = {FORMAT_SAMPLES, sizeof(struct trace_sample), 1,
					 get_sample};
	int rc = load_table(r, &kind, &r->samples, err);
	if (rc < 0)
		return rc;
	*ret = r->samples.rows;
	*ret_count = r->samples.count;
	return 0;
}

int trace_reader_moments(struct trace_reader *r, const struct trace_moment **ret, size_t *ret_count,
			 struct tm_error *err)
{
	static const struct kind kind = {FORMAT_MOMENTS, sizeof(struct trace_moment), 1,
					 get_moment};
	int rc = load_table(r, &kind, &r->moments, err);
	if (rc < 0)
		return rc;
	*ret = r->moments.rows;
	*ret_count = r->moments.count;
	return 0;
}

int trace_reader_maps(struct trace_reader *r, const struct trace_map_event **ret, size_t *ret_count,
		      struct tm_error *err)
{
	static const struct kind kind = {FORMAT_MAPS, sizeof(struct trace_map_event), 1, get_map};
	int rc = load_table(r, &kind, &r->maps, err);
	if (rc < 0)
		return rc;
	*ret = r->maps.rows;
	*ret_count = r->maps.count;
	return 0;
}

/* With its place in the file: equal addresses keep their order, inlined frames come first. */
struct placed_symbol {
	struct trace_symbol symbol;
	size_t place;
};

static int compare_symbols(const void *a, const void *b)
{
	const struct placed_symbol *x = a, *y = b;
	if (x->symbol.module_id != y->symbol.module_id)
		return x->symbol.module_id < y->symbol.module_id ? -1 : 1;
	if (x->symbol.address != y->symbol.address)
		return x->symbol.address < y->symbol.address ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

static int sort_symbols(struct trace_reader *r, struct tm_error *err)
{
	size_t count = r->symbols.count;
	struct trace_symbol *symbols = r->symbols.rows;
	struct placed_symbol *placed = tm_alloc_array(count + 1, sizeof *placed);
	if (!placed)
		return tm_fail(err, -ENOMEM, "There is no memory for the symbols of '%s'",
			       r->source.path);
	for (size_t i = 0; i < count; i++)
		placed[i] = (struct placed_symbol){symbols[i], i};
	qsort(placed, count, sizeof *placed, compare_symbols);
	for (size_t i = 0; i < count; i++)
		symbols[i] = placed[i].symbol;
	tm_free(placed);
	return 0;
}

int trace_reader_symbols(struct trace_reader *r, const struct trace_symbol **ret, size_t *ret_count,
			 struct tm_error *err)
{
	static const struct kind kind = {FORMAT_SYMBOLS, sizeof(struct trace_symbol), 1,
					 get_symbol};
	bool loaded = r->symbols.loaded;
	int rc = load_table(r, &kind, &r->symbols, err);
	if (rc == 0 && !loaded)
		rc = sort_symbols(r, err);
	if (rc < 0) {
		r->symbols.loaded = false;
		return rc;
	}
	*ret = r->symbols.rows;
	*ret_count = r->symbols.count;
	return 0;
}

static int compare_sources(const void *a, const void *b)
{
	const struct trace_source_line *x = a, *y = b;
	int order = strcmp(x->file, y->file);
	return order ? order : (x->line > y->line) - (x->line < y->line);
}

int trace_reader_sources(struct trace_reader *r, const struct trace_source_line **ret,
			 size_t *ret_count, struct tm_error *err)
{
	static const struct kind kind = {FORMAT_SOURCES, sizeof(struct trace_source_line), 1,
					 get_source};
	bool loaded = r->sources.loaded;
	int rc = load_table(r, &kind, &r->sources, err);
	if (rc < 0)
		return rc;
	if (!loaded && r->sources.count)
		qsort(r->sources.rows, r->sources.count, sizeof(struct trace_source_line),
		      compare_sources);
	*ret = r->sources.rows;
	*ret_count = r->sources.count;
	return 0;
}

int reader_load_refs(struct trace_reader *r, struct tm_error *err)
{
	static const struct kind kind = {FORMAT_REFS, sizeof(struct rows_ref), 3, get_ref};
	return load_table(r, &kind, &r->refs, err);
}
