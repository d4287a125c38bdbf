/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices one by one, the facts of all of them, and sums over the first of them:
 * from the nearest SUMS block on, so that no reader adds up a whole long run.
 */
#include "trace/reader.h"

#include "base/memory.h"
#include "trace/container.h"
#include "trace/decode.h"
#include "trace/ends.h"
#include "trace/slices.h"
#include "trace/sums.h"

#include <errno.h>
#include <inttypes.h>

static const struct format_index_entry *entry_of(const struct trace_reader *r,
						 const struct section_group *group)
{
	return &r->scan.entries[r->section.members[group->first]];
}

static int unreadable(const struct trace_reader *r, const struct format_index_entry *entry,
		      const char *wrong, struct tm_error *err)
{
	return tm_fail(err, wrong == decode_no_memory ? -ENOMEM : -EBADMSG,
		       "'%s': the %s at offset %" PRIu64 " cannot be read: %s", r->source.path,
		       source_type_name(entry->header.type), entry->offset, wrong);
}

/* ---- slices ---- */

size_t trace_reader_slice_count(const struct trace_reader *r)
{
	return r->slices.count;
}

static int no_slice(const struct trace_reader *r, size_t index, struct tm_error *err)
{
	return tm_fail(err, -ENOENT, "'%s' has no slice %zu", r->source.path, index);
}

static const struct format_index_entry *slice_entry(const struct trace_reader *r, size_t index)
{
	return entry_of(r, section_group(&r->section, FORMAT_SLICE, r->slices.rows[index].group));
}

/* Numbers below that of this slice are all there. */
static bool follows(const struct trace_reader *r, size_t index)
{
	return r->slices.rows[index].first ==
	       (index ? (uint64_t)r->slices.rows[index - 1].last + 1 : 0);
}

int reader_slice_load(struct trace_reader *r, size_t index, struct bytes *raw,
		      struct slices_reader *slices, struct tm_error *err)
{
	if (index >= r->slices.count)
		return no_slice(r, index, err);
	const struct format_index_entry *entry = slice_entry(r, index);
	int rc = source_load(&r->source, entry, raw, err);
	if (rc)
		return rc;
	const char *wrong = slices_get(span_of(raw->data, raw->used), r->stack_count, slices);
	if (!wrong && (slices->slice.slice_id != r->slices.rows[index].last || !follows(r, index)))
		wrong = "slices are missing before it";
	if (wrong)
		return unreadable(r, entry, wrong, err);
	reader_slices_renumber(&r->slices, index, slices);
	return 0;
}

static int read_slice(struct trace_reader *r, size_t index, bool no_buckets, trace_slice_fn fn,
		      void *ctx, struct tm_error *err)
{
	struct slices_reader slices = {.no_buckets = no_buckets};
	struct bytes raw = {0};
	int rc = reader_slice_load(r, index, &raw, &slices, err);
	if (rc == 0)
		rc = fn(ctx, &slices.slice);
	slices_done(&slices);
	bytes_done(&raw);
	return rc;
}

int trace_reader_slice(struct trace_reader *r, size_t index, trace_slice_fn fn, void *ctx,
		       struct tm_error *err)
{
	return read_slice(r, index, false, fn, ctx, err);
}

int trace_reader_plain_slice(struct trace_reader *r, size_t index, trace_slice_fn fn, void *ctx,
			     struct tm_error *err)
{
	return read_slice(r, index, true, fn, ctx, err);
}

int trace_reader_slice_ends(struct trace_reader *r, size_t index, uint32_t first_birth,
			    trace_ends_fn fn, void *ctx, struct tm_error *err)
{
	const struct reader_slices *all = &r->slices;
	if (index >= all->count)
		return no_slice(r, index, err);
	struct bytes raw = {0};
	const struct format_index_entry *entry = slice_entry(r, index);
	int rc = source_load(&r->source, entry, &raw, err);
	const char *wrong = NULL;
	const struct slices_ends_of which = {
		.slice_id = all->rows[index].last,
		.first_birth = first_birth < all->count ? all->rows[first_birth].first : UINT32_MAX,
		.before = first_birth && first_birth <= all->count
				  ? all->rows[first_birth - 1].first
				  : UINT32_MAX,
	};
	if (rc == 0)
		wrong = slices_get_ends(span_of(raw.data, raw.used), r->stack_count, &which, fn,
					ctx);
	if (wrong)
		rc = unreadable(r, entry, wrong, err);
	bytes_done(&raw);
	return rc;
}

/* ---- facts ---- */

static int copy_facts(void *ctx, const struct trace_slice *slice)
{
	struct trace_slice *facts = ctx;
	*facts = *slice;
	facts->rows = NULL;
	return 0;
}

/* Which slice these facts are of; false: of one that was merged since, or of none. */
static bool facts_fit(const struct trace_reader *r, const struct trace_slice *facts,
		      uint64_t stands_for, size_t *ret_index)
{
	if (!reader_slices_find(&r->slices, facts->slice_id, ret_index))
		return false;
	const struct reader_slice *slice = &r->slices.rows[*ret_index];
	return slice->last == facts->slice_id && stands_for == slice->last - slice->first + 1u;
}

/* A block of facts; what is wrong with it is found out from the slices themselves. */
static int load_curve(struct trace_reader *r, const struct section_group *group,
		      struct trace_slice *facts, struct tm_error *err)
{
	const struct format_block_header *header = &group->header;
	bool merged = header->flags & FORMAT_MERGED;
	struct bytes raw = {0};
	int rc = source_load(&r->source, entry_of(r, group), &raw, err);
	struct span in = span_of(NULL, 0);
	if (rc == 0 && !container_get(span_of(raw.data, raw.used), &in, 1))
		rc = -EBADMSG;
	for (uint64_t i = 0; rc == 0 && i < header->count; i++) {
		struct trace_slice slice = {0};
		uint64_t stands_for = merged ? span_varint(&in) : 1;
		size_t index;
		slices_get_facts(&in, &slice);
		if (in.bad || (!merged && slice.slice_id != header->first_ordinal + i))
			break;
		if (!facts_fit(r, &slice, stands_for, &index))
			continue;
		slice.slice_id = (uint32_t)index;
		facts[index] = slice;
	}
	bytes_done(&raw);
	return rc == -EBADMSG ? 0 : rc;
}

int trace_reader_curve(struct trace_reader *r, struct trace_slice **ret, size_t *ret_count,
		       struct tm_error *err)
{
	size_t count = r->slices.count;
	struct trace_slice *facts = tm_alloc_array(count + 1, sizeof *facts);
	if (!facts)
		return tm_fail(err, -ENOMEM, "There is no memory for the slices of '%s'",
			       r->source.path);
	int rc = 0;
	for (size_t i = 0; i < count; i++)
		facts[i].slice_id = UINT32_MAX;
	for (size_t i = 0; i < section_count(&r->section, FORMAT_CURVE) && rc == 0; i++)
		rc = load_curve(r, section_group(&r->section, FORMAT_CURVE, i), facts, err);
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (facts[i].slice_id != i || !follows(r, i))
			rc = read_slice(r, i, true, copy_facts, &facts[i], err);
	}
	if (rc) {
		tm_free(facts);
		return rc;
	}
	*ret = facts;
	*ret_count = count;
	return 0;
}

/* ---- sums ---- */

/* A block of sums, and how many slices are in them. */
struct sums_place {
	size_t block, slices;
};

/* That over most slices, of those over at most `slices`; false if there is none. */
static bool nearest_sums(const struct trace_reader *r, size_t slices, struct sums_place *ret)
{
	bool found = false;
	for (size_t i = section_count(&r->section, FORMAT_SUMS); i-- > 0;) {
		size_t has;
		uint64_t end = section_group(&r->section, FORMAT_SUMS, i)->header.first_ordinal;
		if (!reader_slices_before(&r->slices, end, &has) || has > slices ||
		    (found && has <= ret->slices))
			continue;
		*ret = (struct sums_place){.block = i, .slices = has};
		found = true;
	}
	return found;
}

static int load_sums(struct trace_reader *r, const struct sums_place *place, struct sums *sums,
		     struct tm_error *err)
{
	const struct section_group *group = section_group(&r->section, FORMAT_SUMS, place->block);
	const struct format_index_entry *entry = entry_of(r, group);
	struct bytes raw = {0};
	int rc = source_load(&r->source, entry, &raw, err);
	if (rc == 0) {
		const char *wrong = sums_get(span_of(raw.data, raw.used), r->stack_count, sums);
		if (!wrong && sums->slices != group->header.first_ordinal)
			wrong = "it is of other slices";
		if (wrong)
			rc = unreadable(r, entry, wrong, err);
		sums->slices = (uint32_t)place->slices;
	}
	bytes_done(&raw);
	return rc;
}

static int add_slice(void *ctx, const struct trace_slice *slice)
{
	return sums_add(ctx, slice);
}

/* From the nearest sums that can be read; at worst from the first slice on. */
static int find_sums(struct trace_reader *r, size_t slices, struct sums *sums, struct tm_error *err)
{
	struct sums_place place = {0};
	size_t most = slices;
	int rc = 0;
	while (nearest_sums(r, most, &place)) {
		rc = load_sums(r, &place, sums, err);
		if (rc == 0 || rc == -ENOMEM)
			break;
		sums_done(sums);
		rc = 0;
		if (place.slices == 0)
			break;
		most = place.slices - 1;
	}
	for (size_t i = sums->slices; i < slices && rc == 0; i++)
		rc = read_slice(r, i, true, add_slice, sums, err);
	return rc;
}

int trace_reader_sums(struct trace_reader *r, size_t slices, struct trace_sum **ret,
		      size_t *ret_count, struct tm_error *err)
{
	struct sums sums = {0};
	struct trace_sum *list = NULL;
	int rc = find_sums(r, slices, &sums, err);
	if (rc == 0) {
		list = tm_alloc_array(sums.count + 1, sizeof *list);
		rc = list ? 0 : -ENOMEM;
	}
	if (rc == -ENOMEM)
		tm_fail(err, rc, "There is no memory for the sums of '%s'", r->source.path);
	if (rc == 0) {
		sums_list(&sums, list);
		*ret = list;
		*ret_count = sums.count;
	}
	sums_done(&sums);
	return rc;
}

/* ---- ends ---- */

static const struct section_group *find_ends(const struct trace_reader *r, uint64_t first_event)
{
	size_t low = 0, high = section_count(&r->section, FORMAT_ENDS);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct section_group *group = section_group(&r->section, FORMAT_ENDS, middle);
		if (group->header.first_ordinal == first_event)
			return group;
		if (group->header.first_ordinal < first_event)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* The ENDS of a block of events, or NULL. */
static const struct section_group *ends_of(const struct trace_reader *r, size_t index)
{
	if (index >= section_count(&r->section, FORMAT_EVENTS))
		return NULL;
	const struct format_block_header *events =
		&section_group(&r->section, FORMAT_EVENTS, index)->header;
	const struct section_group *group = find_ends(r, events->first_ordinal);
	return group && group->header.count <= events->count ? group : NULL;
}

int trace_reader_ends_facts(const struct trace_reader *r, size_t index,
			    struct trace_ends_facts *ret)
{
	const struct section_group *group = ends_of(r, index);
	if (!group)
		return -ENODATA;
	*ret = (struct trace_ends_facts){
		.count = group->header.count,
		.lowest_block_id = group->header.first_block_id,
		.highest_block_id = group->header.min_size_bytes,
		.undone = group->header.max_size_bytes,
	};
	return 0;
}

int trace_reader_ends(struct trace_reader *r, size_t index, struct trace_old_end *rows,
		      struct tm_error *err)
{
	const struct section_group *group = ends_of(r, index);
	if (!group)
		return tm_fail(err, -ENODATA, "'%s' has no ends of block %zu of events",
			       r->source.path, index);
	struct bytes raw = {0};
	int rc = source_load(&r->source, entry_of(r, group), &raw, err);
	if (rc == 0) {
		const char *wrong =
			ends_get(span_of(raw.data, raw.used), &group->header, r->stack_count, rows);
		if (wrong)
			rc = unreadable(r, entry_of(r, group), wrong, err);
	}
	bytes_done(&raw);
	return rc;
}
