/* SPDX-License-Identifier: Apache-2.0 */
/* Placing, moving and replacing the journal: see the header. */
#include "trace/journal.h"

#include "base/io.h"
#include "base/memory.h"
#include "trace/block.h"
#include "trace/hole.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

/* A place for `bytes` beyond the sealed blocks that does not touch the present journal. */
static uint64_t place(const struct journal *j, size_t bytes, uint64_t sealed_end)
{
	uint64_t page = 4096;
	uint64_t start = (sealed_end + FORMAT_JOURNAL_GAP + page - 1) & ~(page - 1);
	bool overlaps = j->start > 0 && start < j->end && start + bytes > j->start;
	return overlaps ? (j->end + page - 1) & ~(page - 1) : start;
}

/* From now on the journal is there. One aligned word: it changes as a whole. */
static int point_to(struct journal *j, uint64_t start, uint64_t end)
{
	size_t word = offsetof(struct format_file_header, journal_offset);
	int rc = io_pwrite(j->fd, &start, sizeof start, word);
	if (rc < 0)
		return rc;
	j->start = start;
	j->end = end;
	return 0;
}

/*
 * Readers look for lost blocks wherever there are bytes after the sealed ones:
 * leave none. Best effort, only their time depends on it.
 */
static void make_hole(int fd, uint64_t start, uint64_t end)
{
	if (start < end)
		hole_make(fd, start, end - start);
}

int journal_replace(struct journal *j, const void *blocks, size_t bytes, uint64_t sealed_end)
{
	uint64_t start = place(j, bytes, sealed_end), old_start = j->start, old_end = j->end;
	int rc = io_pwrite(j->fd, blocks, bytes, start);
	if (rc == 0)
		rc = point_to(j, start, start + bytes);
	if (rc == 0)
		make_hole(j->fd, old_start, old_end);
	return rc;
}

int journal_append(struct journal *j, const void *blocks, size_t bytes, uint64_t sealed_end)
{
	if (j->start == 0)
		return journal_replace(j, blocks, bytes, sealed_end);
	int rc = io_pwrite(j->fd, blocks, bytes, j->end);
	if (rc < 0)
		return rc;
	j->end += bytes;
	return 0;
}

int journal_make_way(struct journal *j, uint64_t sealed_end)
{
	if (j->start == 0 || sealed_end <= j->start)
		return 0;
	size_t bytes = (size_t)(j->end - j->start), got = 0;
	uint8_t *copy = tm_grow_array(NULL, bytes, 1);
	if (!copy)
		return -ENOMEM;
	int rc = io_pread(j->fd, copy, bytes, j->start, &got);
	if (rc == 0 && got < bytes)
		rc = -EIO;
	if (rc == 0)
		rc = journal_replace(j, copy, bytes, sealed_end);
	tm_free(copy);
	return rc;
}
