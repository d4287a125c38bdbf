/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks a file has: from its index, or, when it has no end, by hopping
 * from header to header and then through the journal. Payloads are read only
 * where a kill may have torn them: the last sealed block, and the journal.
 */
#pragma once

#include "base/error.h"
#include "trace/format.h"
#include "trace/source.h"

#include <stdbool.h>
#include <stddef.h>

struct scan {
	struct format_index_entry *entries; /* sealed ones in order, then those of the journal */
	size_t count, room;
	uint32_t section;   /* the highest so far */
	uint64_t gap_bytes; /* of the file: room that is free */
	bool finished;      /* the file has its index */
};

/* Damage is warned of, not an error. */
TM_MUST_CHECK int scan_file(struct scan *scan, struct source *source, struct tm_error *err);
void scan_done(struct scan *scan);
