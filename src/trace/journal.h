/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: where the tail that is not yet sealed lies, behind a hole after
 * the sealed blocks, so that neither can tear the other.
 *
 *   | sealed blocks |   hole   | journal |
 *                    ^ grows    ^ start   ^ end
 *
 * A new journal never overlaps the one it replaces: it is written elsewhere, and
 * then the file header's word is changed. Used by the writing thread alone.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal {
	int fd;
	uint64_t start, end; /* 0 = there is none */
};

/* Append whole blocks. -errno. */
TM_MUST_CHECK int journal_append(struct journal *j, const void *blocks, size_t bytes,
				 uint64_t sealed_end);
/* Whole blocks replace the journal. -errno, and the old one still counts. */
TM_MUST_CHECK int journal_replace(struct journal *j, const void *blocks, size_t bytes,
				  uint64_t sealed_end);
/* Sealed blocks will reach up to sealed_end: move the journal away if it lies there. */
TM_MUST_CHECK int journal_make_way(struct journal *j, uint64_t sealed_end);
