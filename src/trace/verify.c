/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "trace/block.h"
#include "trace/reader.h"

int trace_check_tell(const struct trace_check *check, size_t section, uint64_t offset,
		     const char *format, ...)
{
	struct trace_problem problem = {.offset = offset, .section = section};
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(problem.text, sizeof problem.text, format, arguments);
	va_end(arguments);
	return check->problem(check->ctx, &problem);
}

/* ---- the blocks as they lie in the file ---- */

/* The walk from block to block. */
struct walk {
	struct trace_reader *r;
	const struct trace_check *check;
	uint64_t end; /* of the sealed block before */
	bool has_sequence;
	uint32_t sequence;
	struct bytes raw;
	struct tm_error *err;
};

/* An index tells where blocks are and what their headers say: do they? */
static int check_header(struct walk *w, const struct format_index_entry *entry)
{
	struct format_block_header header;
	size_t got = 0;
	int rc = source_read_some(&w->r->source, &header, sizeof header, entry->offset, &got,
				  w->err);
	if (rc < 0)
		return rc;
	if (got == sizeof header && !memcmp(&header, &entry->header, sizeof header))
		return 0;
	return trace_check_tell(w->check, entry->header.section, entry->offset,
				"the header of a block of %s is damaged: it is not what the index "
				"says",
				source_type_name(entry->header.type));
}

static int check_payload(struct walk *w, const struct format_index_entry *entry)
{
	struct source *source = &w->r->source;
	int rc = source_verify(source, entry, w->err);
	if (rc == -EBADMSG)
		return trace_check_tell(w->check, entry->header.section, entry->offset,
					"a block of %s is damaged: its checksum does not match",
					source_type_name(entry->header.type));
	if (rc == 0)
		rc = source_load(source, entry, &w->raw, w->err);
	if (rc == -EBADMSG)
		return trace_check_tell(w->check, entry->header.section, entry->offset,
					"a block of %s cannot be unpacked",
					source_type_name(entry->header.type));
	return rc;
}

/* Room that is free lies between blocks. */
static int pass_gaps(struct walk *w, uint64_t to)
{
	struct source *source = &w->r->source;
	int rc = 0;
	while (source->reuse && w->end < to && rc == 0) {
		struct format_block_header header;
		size_t got = 0;
		rc = source_read_some(source, &header, sizeof header, w->end, &got, w->err);
		if (rc || got < sizeof header || header.type != FORMAT_GAP ||
		    !block_header_valid(&header, source->file_id))
			break;
		w->end = block_end(w->end, &header);
	}
	return rc;
}

static int check_place(struct walk *w, const struct format_index_entry *entry)
{
	int rc = pass_gaps(w, entry->offset);
	if (rc)
		return rc;
	if (entry->offset != w->end)
		rc = trace_check_tell(w->check, entry->header.section, w->end,
				      "the bytes up to %" PRIu64
				      " are damaged: no block begins here",
				      entry->offset);
	else if (w->has_sequence && !w->r->source.reuse &&
		 entry->header.sequence != w->sequence + 1)
		rc = trace_check_tell(
			w->check, entry->header.section, entry->offset,
			"blocks are missing before the block of %s: number %u follows %u",
			source_type_name(entry->header.type), entry->header.sequence, w->sequence);
	w->has_sequence = true;
	w->sequence = entry->header.sequence;
	w->end = block_end(entry->offset, &entry->header);
	return rc;
}

static int check_entry(struct walk *w, const struct format_index_entry *entry)
{
	int rc = 0;
	if (!(entry->header.flags & FORMAT_JOURNAL))
		rc = check_place(w, entry);
	if (rc == 0 && w->r->scan.finished)
		rc = check_header(w, entry);
	return rc ? rc : check_payload(w, entry);
}

/* The end of the file: an index right after the last block, or none at all. */
static int check_index(struct walk *w)
{
	const struct scan *scan = &w->r->scan;
	struct source *source = &w->r->source;
	struct format_trailer trailer;
	size_t last = scan->count ? scan->entries[scan->count - 1].header.section : 0;
	if (!scan->finished)
		return trace_check_tell(w->check, last, w->end,
					"the file has no index: it is still being written, its "
					"writing was cut short, or its end is damaged");
	int rc = source_read(source, &trailer, sizeof trailer, source->file_bytes - sizeof trailer,
			     w->err);
	if (rc < 0)
		return rc;
	rc = pass_gaps(w, trailer.index_offset);
	if (rc < 0)
		return rc;
	if (trailer.index_offset != w->end)
		return trace_check_tell(
			w->check, last, w->end,
			"the bytes up to %" PRIu64
			" are damaged: no block begins here, and it is not the index",
			trailer.index_offset);
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct format_index_entry *x = a, *y = b;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* As they lie in the file. The caller frees them. */
static struct format_index_entry *by_place(const struct scan *scan)
{
	struct format_index_entry *sorted = tm_alloc_array(scan->count + 1, sizeof *sorted);
	if (sorted && scan->count) {
		memcpy(sorted, scan->entries, scan->count * sizeof *sorted);
		qsort(sorted, scan->count, sizeof *sorted, compare_places);
	}
	return sorted;
}

static int check_blocks(struct walk *w)
{
	const struct scan *scan = &w->r->scan;
	struct format_index_entry *entries = by_place(scan);
	uint64_t all = w->r->source.file_bytes;
	int rc = entries ? 0 : tm_fail(w->err, -ENOMEM, "There is no memory to check the trace");
	for (size_t i = 0; i < scan->count && rc == 0; i++) {
		rc = check_entry(w, &entries[i]);
		if (rc == 0 && w->check->progress && i % 64 == 0)
			rc = w->check->progress(w->check->ctx, entries[i].offset, all);
	}
	tm_free(entries);
	return rc ? rc : check_index(w);
}

/* ---- a section's tables ---- */

struct table_check {
	struct trace_reader *r;
	const struct trace_check *check;
	size_t section;
	const struct trace_stack *stacks;
	const struct trace_module *modules;
	const struct trace_sample *samples;
	const struct trace_moment *moments;
	const struct trace_symbol *symbols;
	const struct trace_map_event *maps;
	size_t stack_count, module_count, sample_count, symbol_count, map_count;
	size_t moment_count;
};

/* Records of a type follow each other without a gap. */
static int check_ordinals(const struct table_check *t, enum format_type type)
{
	const struct section *section = &t->r->section;
	uint64_t next = 0;
	for (size_t i = 0; i < section_count(section, type); i++) {
		const struct section_group *group = section_group(section, type, i);
		uint64_t first = group->header.first_ordinal;
		uint64_t offset = t->r->scan.entries[section->members[group->first]].offset;
		int rc = 0;
		if (first != next)
			rc = trace_check_tell(t->check, t->section, offset,
					      "%s %" PRIu64 " to %" PRIu64 " are missing before it",
					      source_type_name(type), next, first);
		if (rc)
			return rc;
		next = section_group_end(group);
	}
	return 0;
}

/* Those that count: neither what was merged since nor older ones of the open slice. */
static int check_slices(const struct table_check *t)
{
	const struct reader_slices *slices = &t->r->slices;
	uint64_t next = 0;
	int rc = 0;
	for (size_t i = 0; i < slices->count && rc == 0; i++) {
		const struct reader_slice *slice = &slices->rows[i];
		const struct section_group *group =
			section_group(&t->r->section, FORMAT_SLICE, slice->group);
		if (slice->first != next)
			rc = trace_check_tell(
				t->check, t->section,
				t->r->scan.entries[t->r->section.members[group->first]].offset,
				"%s %" PRIu64 " to %u are missing before it",
				source_type_name(FORMAT_SLICE), next, slice->first);
		next = (uint64_t)slice->last + 1;
	}
	return rc;
}

static int check_ends(const struct table_check *t)
{
	const struct section *section = &t->r->section;
	int rc = 0;
	if (section_count(section, FORMAT_BEGIN) != 1)
		rc = trace_check_tell(t->check, t->section, UINT64_MAX,
				      "it has %zu blocks of meta data, there must be one",
				      section_count(section, FORMAT_BEGIN));
	if (rc == 0 && section_count(section, FORMAT_END) != 1)
		rc = trace_check_tell(t->check, t->section, UINT64_MAX,
				      "its end is written %zu times, it must be once",
				      section_count(section, FORMAT_END));
	return rc;
}

static bool module_exists(const struct table_check *t, uint32_t module_id)
{
	return module_id == 0 || module_id == TRACE_MODULE_MARK ||
	       (module_id < t->module_count && t->modules[module_id].path);
}

static int check_references(const struct table_check *t)
{
	int rc = 0;
	for (size_t i = 1; i < t->stack_count && rc == 0; i++)
		if (t->stacks[i].parent_id >= i || !module_exists(t, t->stacks[i].module_id))
			rc = trace_check_tell(t->check, t->section, UINT64_MAX,
					      "stack %zu refers to a module or a parent that there "
					      "is not",
					      i);
	for (size_t i = 0; i < t->symbol_count && rc == 0; i++)
		if (!module_exists(t, t->symbols[i].module_id))
			rc = trace_check_tell(t->check, t->section, UINT64_MAX,
					      "symbol %zu refers to a module that there is not", i);
	for (size_t i = 0; i < t->map_count && rc == 0; i++)
		if (t->maps[i].stack_id >= t->stack_count ||
		    t->maps[i].thread_id >= t->r->thread_count)
			rc = trace_check_tell(
				t->check, t->section, UINT64_MAX,
				"mapping %zu refers to a stack or a thread that there "
				"is not",
				i);
	return rc;
}

static int check_times(const struct table_check *t)
{
	int rc = 0;
	for (size_t i = 1; i < t->sample_count && rc == 0; i++)
		if (t->samples[i].time_ns < t->samples[i - 1].time_ns)
			rc = trace_check_tell(t->check, t->section, UINT64_MAX,
					      "sample %zu is earlier than the one before it", i);
	return rc;
}

static int load_tables(struct table_check *t, struct tm_error *err)
{
	const struct trace_meta *meta;
	int rc = trace_reader_meta(t->r, &meta, err);
	if (rc == -ENODATA || rc == -EBADMSG)
		rc = trace_check_tell(t->check, t->section, UINT64_MAX,
				      "its meta data cannot be read");
	if (rc == 0)
		rc = trace_reader_stacks(t->r, &t->stacks, &t->stack_count, err);
	if (rc == 0)
		rc = trace_reader_modules(t->r, &t->modules, &t->module_count, err);
	if (rc == 0)
		rc = trace_reader_samples(t->r, &t->samples, &t->sample_count, err);
	if (rc == 0)
		rc = trace_reader_moments(t->r, &t->moments, &t->moment_count, err);
	if (rc == 0)
		rc = trace_reader_symbols(t->r, &t->symbols, &t->symbol_count, err);
	if (rc == 0)
		rc = trace_reader_maps(t->r, &t->maps, &t->map_count, err);
	return rc;
}

static int check_section(struct table_check *t, struct tm_error *err)
{
	static const enum format_type types[] = {FORMAT_STACKS, FORMAT_MAPS, FORMAT_SAMPLES,
						 FORMAT_MOMENTS};
	int rc = trace_reader_select(t->r, t->section, err);
	if (rc == 0)
		rc = check_ends(t);
	for (size_t i = 0; i < sizeof types / sizeof types[0] && rc == 0; i++)
		rc = check_ordinals(t, types[i]);
	if (rc == 0)
		rc = check_slices(t);
	if (rc == 0)
		rc = load_tables(t, err);
	if (rc == 0)
		rc = check_references(t);
	return rc ? rc : check_times(t);
}

int trace_verify(struct trace_reader *r, const struct trace_check *check, struct tm_error *err)
{
	struct walk walk = {.r = r, .check = check, .err = err};
	walk.end = sizeof(struct format_file_header);
	int rc = check_blocks(&walk);
	bytes_done(&walk.raw);
	size_t count = trace_reader_section_count(r);
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct table_check tables = {.r = r, .check = check, .section = i};
		rc = check_section(&tables, err);
	}
	return rc;
}
