/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of one section by type: see the header. */
#include "trace/section.h"

#include "base/memory.h"
#include "trace/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Add the entry to the groups; journal blocks that continue nothing are left out. */
static void place(struct section *s, const struct scan *scan, uint32_t entry, uint32_t *members,
		  uint32_t *groups)
{
	const struct format_block_header *header = &scan->entries[entry].header;
	struct section_group *last =
		*groups > s->types[header->type].first ? &s->groups[*groups - 1] : NULL;
	if (header->flags & FORMAT_CONTINUES) {
		if (!last || last->header.first_ordinal != header->first_ordinal ||
		    last->header.count > header->count)
			return;
	} else {
		last = &s->groups[(*groups)++];
		*last = (struct section_group){.first = *members};
	}
	last->header = *header;
	last->count++;
	s->members[(*members)++] = entry;
}

/* By ordinal; of those with the same one that which stands for most, and was written last. */
static int compare_groups(const void *a, const void *b)
{
	const struct section_group *x = a, *y = b;
	if (x->header.first_ordinal != y->header.first_ordinal)
		return x->header.first_ordinal < y->header.first_ordinal ? -1 : 1;
	if (section_group_end(x) != section_group_end(y))
		return section_group_end(x) > section_group_end(y) ? -1 : 1;
	return (x->first < y->first) - (x->first > y->first);
}

/* Merged rows come late, and those that they stand for may still be there. */
static uint32_t settle(struct section *s, unsigned type, uint32_t groups)
{
	struct section_group *first = &s->groups[s->types[type].first];
	size_t count = groups - s->types[type].first, kept = 0;
	uint64_t covered = 0;
	bool merged = false;
	for (size_t i = 0; i < count; i++)
		merged |= block_is_merged(&first[i].header);
	if (!merged)
		return groups;
	qsort(first, count, sizeof *first, compare_groups);
	for (size_t i = 0; i < count; i++) {
		if (first[i].header.first_ordinal < covered)
			continue;
		if (block_is_merged(&first[i].header))
			covered = section_group_end(&first[i]);
		first[kept++] = first[i];
	}
	return s->types[type].first + (uint32_t)kept;
}

int section_init(struct section *s, const struct scan *scan, uint32_t number, struct tm_error *err)
{
	s->members = tm_alloc_array(scan->count + 1, sizeof *s->members);
	s->groups = tm_alloc_array(scan->count + 1, sizeof *s->groups);
	if (!s->members || !s->groups) {
		section_done(s);
		return tm_fail(err, -ENOMEM, "There is no memory for the blocks of the trace");
	}
	uint32_t members = 0, groups = 0;
	for (unsigned type = 0; type < FORMAT_TYPE_COUNT; type++) {
		s->types[type].first = groups;
		for (size_t i = 0; i < scan->count; i++) {
			const struct format_block_header *header = &scan->entries[i].header;
			if (header->type == type && header->section == number)
				place(s, scan, (uint32_t)i, &members, &groups);
		}
		groups = settle(s, type, groups);
		s->types[type].count = groups - s->types[type].first;
	}
	return 0;
}

void section_done(struct section *s)
{
	s->members = tm_free(s->members);
	s->groups = tm_free(s->groups);
	memset(s->types, 0, sizeof s->types);
}

uint64_t section_ordinals(const struct section *s, enum format_type type, uint64_t limit)
{
	uint64_t most = 0;
	for (size_t i = 0; i < section_count(s, type); i++) {
		const struct format_block_header *header = &section_group(s, type, i)->header;
		if (header->first_ordinal <= limit &&
		    header->count <= limit - header->first_ordinal &&
		    header->first_ordinal + header->count > most)
			most = header->first_ordinal + header->count;
	}
	return most;
}

uint64_t section_ids(const struct section *s, enum format_type type, uint64_t limit)
{
	uint64_t most = 0;
	for (size_t i = 0; i < section_count(s, type); i++) {
		uint64_t end = section_group(s, type, i)->header.first_block_id;
		if (end > most && end <= limit)
			most = end;
	}
	return most;
}

/* Put the pieces of each column behind each other. */
static int join(struct bytes *pieces, uint32_t piece_count, struct bytes *storage,
		struct span *columns, size_t column_count)
{
	struct span parts[CONTAINER_COLUMNS_MAX];
	size_t starts[CONTAINER_COLUMNS_MAX] = {0};
	for (size_t column = 0; column < column_count; column++) {
		starts[column] = storage->used;
		for (uint32_t i = 0; i < piece_count; i++) {
			if (!container_get(span_of(pieces[i].data, pieces[i].used), parts,
					   column_count))
				return -EBADMSG;
			bytes_put(storage, parts[column].next, span_left(&parts[column]));
		}
	}
	if (storage->failed || !bytes_reserve(storage, 1))
		return -ENOMEM;
	for (size_t column = 0; column < column_count; column++) {
		size_t end = column + 1 < column_count ? starts[column + 1] : storage->used;
		columns[column] = span_of(storage->data + starts[column], end - starts[column]);
	}
	return 0;
}

int section_columns(const struct section *s, const struct scan *scan, struct source *source,
		    const struct section_group *group, struct bytes *storage, struct span *columns,
		    size_t column_count, struct tm_error *err)
{
	const struct format_index_entry *entry = &scan->entries[s->members[group->first]];
	int rc = 0;
	if (group->count == 1) {
		rc = source_load(source, entry, storage, err);
		if (rc == 0 &&
		    !container_get(span_of(storage->data, storage->used), columns, column_count))
			rc = -EBADMSG;
	} else {
		struct bytes *pieces = tm_alloc_array(group->count, sizeof *pieces);
		rc = pieces ? 0 : -ENOMEM;
		for (uint32_t i = 0; i < group->count && rc == 0; i++)
			rc = source_load(source, &scan->entries[s->members[group->first + i]],
					 &pieces[i], err);
		if (rc == 0)
			rc = join(pieces, group->count, storage, columns, column_count);
		for (uint32_t i = 0; i < group->count && pieces; i++)
			bytes_done(&pieces[i]);
		tm_free(pieces);
	}
	if (rc == -EBADMSG || rc == -ENOMEM)
		tm_fail(err, rc, "'%s': the block of %s at offset %llu %s", source->path,
			source_type_name(entry->header.type), (unsigned long long)entry->offset,
			rc == -ENOMEM ? "does not fit into memory" : "is damaged");
	return rc;
}
