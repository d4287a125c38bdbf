/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace file being read: bytes at offsets, whole blocks, and the words about
 * what was wrong. Reading is thread-safe; warnings are not.
 */
#pragma once

#include "base/error.h"
#include "trace/bytes.h"
#include "trace/format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct source {
	int fd;
	char *path;
	uint64_t file_bytes, held_bytes, file_id, journal_offset;
	bool reuse; /* blocks lie in any order: their sequence counts */
	/* The journal as it was when the file was opened: its place may be used again soon. */
	uint8_t *journal;
	size_t journal_bytes;
	_Atomic uint64_t bytes_read;
	char warning[640];
	unsigned warnings; /* how many there were */
	bool warnings_cut; /* not all of them fit */
};

/* Opens, checks the file header. */
TM_MUST_CHECK int source_open(struct source *s, const char *path, struct tm_error *err);
void source_close(struct source *s);
/* Does another process write it? The writer holds a lock on it, which ends with its process. */
bool source_is_written(const struct source *s);

/*
 * What is at journal_offset is held from now on. Without memory, or if it is very large, it is not:
 * it is then read when it is asked for.
 */
TM_MUST_CHECK int source_hold_journal(struct source *s, struct tm_error *err);
/* Has the journal moved since the file was opened? It is to be looked for in its new place then. */
bool source_has_moved(struct source *s);

/* Exactly these bytes, or an error that says where. */
TM_MUST_CHECK int source_read(struct source *s, void *data, size_t bytes, uint64_t offset,
			      struct tm_error *err);
/* Up to these bytes; *ret_bytes tells how many there were. */
TM_MUST_CHECK int source_read_some(struct source *s, void *data, size_t bytes, uint64_t offset,
				   size_t *ret_bytes, struct tm_error *err);
/* The unpacked payload of a block replaces what is in *raw. Checked against its checksum. */
TM_MUST_CHECK int source_load(struct source *s, const struct format_index_entry *entry,
			      struct bytes *raw, struct tm_error *err);
/* Is the stored payload whole? -EBADMSG if not. */
TM_MUST_CHECK int source_verify(struct source *s, const struct format_index_entry *entry,
				struct tm_error *err);
/* One more sentence about what is damaged or missing. */
void source_warn(struct source *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Nothing in a file of this size can be more numerous than this, however well it is packed. */
uint64_t source_limit(const struct source *s);
const char *source_type_name(unsigned type);
