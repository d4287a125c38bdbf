/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One section of a file being read: its blocks by type, and loading all records
 * of a type. A group is one sealed block, or the journal blocks that continue
 * each other: together they hold the columns of one block.
 */
#pragma once

#include "base/error.h"
#include "trace/block.h"
#include "trace/bytes.h"
#include "trace/format.h"
#include "trace/scan.h"
#include "trace/source.h"

#include <stddef.h>
#include <stdint.h>

struct section_group {
	uint32_t first, count;             /* in section.members */
	struct format_block_header header; /* of the last piece, which counts for all */
};

struct section {
	uint32_t *members; /* entries of the scan, sorted by type, in file order */
	struct section_group *groups;
	struct {
		uint32_t first, count; /* in groups */
	} types[FORMAT_TYPE_COUNT];
};

TM_MUST_CHECK int section_init(struct section *s, const struct scan *scan, uint32_t number,
			       struct tm_error *err);
void section_done(struct section *s);

static inline size_t section_count(const struct section *s, enum format_type type)
{
	return s->types[type].count;
}

static inline const struct section_group *section_group(const struct section *s,
							enum format_type type, size_t index)
{
	return &s->groups[s->types[type].first + index];
}

/* One past the last ordinal that it stands for. */
static inline uint64_t section_group_end(const struct section_group *group)
{
	const struct format_block_header *header = &group->header;
	return block_is_merged(header) ? header->first_block_id
				       : header->first_ordinal + header->count;
}

/* One past the last ordinal that the headers of this type promise, no more than limit. */
uint64_t section_ordinals(const struct section *s, enum format_type type, uint64_t limit);
/* One past the highest id that they promise (threads, modules). */
uint64_t section_ids(const struct section *s, enum format_type type, uint64_t limit);

/* The columns of a group; *storage holds them and is the caller's to free. */
TM_MUST_CHECK int section_columns(const struct section *s, const struct scan *scan,
				  struct source *source, const struct section_group *group,
				  struct bytes *storage, struct span *columns, size_t column_count,
				  struct tm_error *err);
