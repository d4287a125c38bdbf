/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/old_rows.h"

#include "base/memory.h"
#include "trace/container.h"
#include "trace/rows.h"

#include <string.h>

enum {
	/* Of the limit; where there is none, so many bytes. */
	SAMPLES_SHARE = 32,
	MAPS_SHARE = 16,
	SAMPLES_BYTES = 4 << 20,
	MAPS_BYTES = 16 << 20,
};

void old_rows_done(struct old_rows *old)
{
	old->blocks = tm_free(old->blocks);
	old->count = 0;
}

static bool is_too_large(const struct room *room, uint64_t bytes, uint64_t share, uint64_t most)
{
	return bytes > (room->limit_bytes ? room_usable(room) / share : most);
}

/* ---- remembering ---- */

static uint64_t *bytes_of(struct old_rows *old, uint8_t type)
{
	return type == FORMAT_MAPS ? &old->maps_bytes : &old->samples_bytes;
}

void old_rows_note(struct old_rows *old, const struct format_block_header *header, uint64_t offset,
		   uint64_t bytes)
{
	if (old->off || (header->type != FORMAT_MAPS && header->type != FORMAT_SAMPLES))
		return;
	if (old->count == old->room) {
		size_t more = old->room ? old->room * 2 : 64;
		void *grown = tm_grow_array(old->blocks, more, sizeof *old->blocks);
		if (!grown) {
			old->off = true;
			return;
		}
		old->blocks = grown;
		old->room = more;
	}
	old->blocks[old->count++] = (struct old_block){
		.offset = offset,
		.bytes = bytes,
		.first = header->first_ordinal,
		.end = header->first_ordinal + header->count,
		.start_ns = header->start_ns,
		.end_ns = header->end_ns,
		.section = header->section,
		.type = header->type,
	};
	*bytes_of(old, header->type) += bytes;
}

/* ---- reading ---- */

/* One row after the other; false: its block is not as it was written. */
typedef bool (*row_fn)(void *ctx, struct rows_reader *in);

static bool each_row(struct old_rows *old, const struct room *room, size_t index, row_fn fn,
		     void *ctx)
{
	struct old_block *block = &old->blocks[index];
	struct format_block_header header;
	struct bytes raw = {0};
	struct rows_reader in = {0};
	bool good = room_read(room, block->offset, block->bytes, &header, &raw) &&
		    container_get(span_of(raw.data, raw.used), in.columns, 1);
	for (uint32_t i = 0; good && i < header.count; i++)
		good = fn(ctx, &in);
	bytes_done(&raw);
	block->stuck |= !good;
	return good;
}

static size_t next_of(const struct old_rows *old, size_t index)
{
	const struct old_block *block = &old->blocks[index];
	for (size_t i = index + 1; i < old->count; i++)
		if (old->blocks[i].type == block->type && old->blocks[i].section == block->section)
			return i;
	return SIZE_MAX;
}

/* ---- samples ---- */

struct thinning {
	struct stream out;
	struct trace_sample kept;
	bool has_kept;
};

static bool thin(void *ctx, struct rows_reader *in)
{
	struct thinning *thinning = ctx;
	struct trace_sample sample;
	if (!rows_get_sample(in, &sample))
		return false;
	if (!thinning->has_kept) {
		thinning->kept = sample;
		thinning->has_kept = true;
		return true;
	}
	struct trace_sample *kept = &thinning->kept;
	uint64_t pss = kept->pss_bytes ? kept->pss_bytes : sample.pss_bytes;
	if (sample.rss_bytes > kept->rss_bytes)
		*kept = sample;
	if (!kept->pss_bytes)
		kept->pss_bytes = pss; /* not all of them have it */
	rows_put_sample(&thinning->out, kept);
	thinning->has_kept = false;
	return true;
}

/* The pair whose span is the shortest beside its age. */
static bool choose_samples(const struct old_rows *old, uint64_t now_ns, size_t *ret)
{
	double least = 0;
	bool found = false;
	for (size_t i = 0; i < old->count; i++) {
		const struct old_block *a = &old->blocks[i];
		size_t next = a->type == FORMAT_SAMPLES && !a->stuck ? next_of(old, i) : SIZE_MAX;
		if (next == SIZE_MAX || old->blocks[next].stuck)
			continue;
		double span = (double)(old->blocks[next].end_ns - a->start_ns);
		double share = span / ((double)now_ns - (double)a->start_ns + 1);
		if (found && share >= least)
			continue;
		found = true;
		least = share;
		*ret = i;
	}
	return found;
}

static bool merge_samples(struct old_rows *old, const struct room *room, struct stream *ret)
{
	if (!choose_samples(old, room->last_ns, &old->chosen))
		return false;
	struct thinning thinning = {0};
	stream_init(&thinning.out, FORMAT_SAMPLES, 1);
	old->chosen_count = 2;
	bool good = each_row(old, room, old->chosen, thin, &thinning) &&
		    each_row(old, room, next_of(old, old->chosen), thin, &thinning);
	if (good && thinning.has_kept)
		rows_put_sample(&thinning.out, &thinning.kept);
	*ret = thinning.out;
	return good;
}

/* ---- maps ---- */

struct visiting {
	trace_map_fn fn;
	void *ctx;
};

static bool visit_map(void *ctx, struct rows_reader *in)
{
	const struct visiting *visiting = ctx;
	struct trace_map_event event;
	return rows_get_map(in, &event) && !visiting->fn(visiting->ctx, &event);
}

/* What a trace_restate_fn reads. */
struct old_maps {
	struct old_rows *old;
	const struct room *room;
};

static bool each_map(const void *ctx, trace_map_fn fn, void *fn_ctx)
{
	const struct old_maps *maps = ctx;
	struct visiting visiting = {.fn = fn, .ctx = fn_ctx};
	size_t index = maps->old->chosen;
	bool good = true;
	for (size_t i = 0; good && i < maps->old->chosen_count; i++) {
		good = each_row(maps->old, maps->room, index, visit_map, &visiting);
		index = next_of(maps->old, index);
	}
	return good;
}

static int put_map(void *ctx, const struct trace_map_event *event)
{
	struct stream *out = ctx;
	rows_put_map(out, event);
	return out->columns[0].failed;
}

/*
 * Whole sections that have ended; of the open one what is older than `since`: its single events,
 * unless these are few and mappings many.
 */
static bool is_old(const struct room *room, const struct old_block *block, uint64_t since)
{
	return !block->stuck && (block->section != room->section || block->end_ns <= since);
}

/* Enough blocks of one section, from its first on, that restating them will pay. */
static bool choose_maps(struct old_rows *old, const struct room *room, uint64_t since)
{
	for (size_t i = 0; i < old->count; i++) {
		const struct old_block *first = &old->blocks[i];
		if (first->type != FORMAT_MAPS || first->first || !is_old(room, first, since))
			continue;
		uint64_t merged = first->merged ? first->bytes : 0, others = 0;
		size_t count = 0;
		for (size_t at = i; at != SIZE_MAX && is_old(room, &old->blocks[at], since);
		     at = next_of(old, at), count++)
			others += old->blocks[at].bytes;
		others -= merged;
		old->chosen = i;
		old->chosen_count = count;
		if (count > 1 && others > merged && others > old->maps_bytes / 8)
			return true;
	}
	return false;
}

static bool merge_maps(struct old_rows *old, const struct room *room, struct stream *ret)
{
	const struct old_maps maps = {.old = old, .room = room};
	stream_init(ret, FORMAT_MAPS, 1);
	bool found =
		old->restate && (choose_maps(old, room, room_since(room)) ||
				 (is_too_large(room, old->maps_bytes / 2, MAPS_SHARE, MAPS_BYTES) &&
				  choose_maps(old, room, UINT64_MAX)));
	return found && old->restate(each_map, &maps, put_map, ret) == 0;
}

/* ---- merging ---- */

static bool merge(struct old_rows *old, const struct room *room, struct stream *ret)
{
	if (is_too_large(room, old->maps_bytes, MAPS_SHARE, MAPS_BYTES) &&
	    old->maps_bytes / 2 >= old->vain_bytes) {
		if (merge_maps(old, room, ret))
			return true;
		stream_done(ret);
	}
	return is_too_large(room, old->samples_bytes, SAMPLES_SHARE, SAMPLES_BYTES) &&
	       merge_samples(old, room, ret);
}

static const struct old_block *last_chosen(const struct old_rows *old)
{
	size_t index = old->chosen;
	for (size_t i = 1; i < old->chosen_count; i++)
		index = next_of(old, index);
	return &old->blocks[index];
}

bool old_rows_merge(struct old_rows *old, const struct room *room,
		    struct format_block_header *ret_header, struct bytes *ret_raw)
{
	struct stream rows = {0};
	uint32_t from[STREAM_COLUMNS] = {0};
	bool good = !old->off && merge(old, room, &rows);
	const struct old_block *first = good ? &old->blocks[old->chosen] : NULL;
	/* A block that is no smaller helps nobody. */
	if (good && rows.count > last_chosen(old)->end - first->first) {
		old->vain_bytes = old->maps_bytes;
		good = false;
	}
	if (good) {
		stream_piece(&rows, from, ret_raw);
		*ret_header = (struct format_block_header){
			.type = first->type,
			.flags = FORMAT_MERGED,
			.section = first->section,
			.first_ordinal = first->first,
			.first_block_id = last_chosen(old)->end,
			.count = rows.count,
			.start_ns = first->start_ns,
			.end_ns = last_chosen(old)->end_ns,
		};
		good = !ret_raw->failed && ret_raw->used <= FORMAT_RAW_MAX;
	}
	if (!good)
		bytes_done(ret_raw);
	stream_done(&rows);
	return good;
}

int old_rows_replaced(struct old_rows *old, struct room *room,
		      const struct format_block_header *header, uint64_t offset, uint64_t bytes)
{
	uint64_t *total = bytes_of(old, header->type);
	size_t kept = old->chosen + 1;
	int rc = 0;
	for (size_t i = old->chosen; i < old->count; i++) {
		struct old_block *block = &old->blocks[i];
		bool replaced = block->type == header->type && block->section == header->section &&
				block->first < header->first_block_id;
		if (replaced) {
			*total -= block->bytes;
			rc = rc ? rc : room_give(room, block->offset, block->bytes);
		} else if (i > old->chosen) {
			old->blocks[kept++] = *block;
		}
	}
	old->count = kept;
	old->blocks[old->chosen] = (struct old_block){
		.offset = offset,
		.bytes = bytes,
		.first = header->first_ordinal,
		.end = header->first_block_id,
		.start_ns = header->start_ns,
		.end_ns = header->end_ns,
		.section = header->section,
		.type = header->type,
		.merged = true,
	};
	*total += bytes;
	return rc;
}
