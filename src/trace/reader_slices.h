/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which slices a section has. Each was numbered when it was recorded; old ones
 * may have been merged with their neighbours since, so that one stands for
 * several numbers. Readers see them as one row without holes: slice 0, 1, 2 ...
 */
#pragma once

#include "base/error.h"
#include "trace/section.h"
#include "trace/slices.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader_slice {
	uint32_t group;       /* of the SLICE blocks of the section */
	uint32_t first, last; /* numbers that it stands for */
};

struct reader_slices {
	struct reader_slice *rows;
	size_t count;
	bool merged; /* some stand for several numbers */
	bool whole;  /* no numbers are missing */
};

TM_MUST_CHECK int reader_slices_init(struct reader_slices *s, const struct section *section,
				     struct tm_error *err);
void reader_slices_done(struct reader_slices *s);
/* Which slice has this number; false: none has it. */
bool reader_slices_find(const struct reader_slices *s, uint32_t number, size_t *ret_index);
/* How many slices have the numbers below `end`; false: one has only some of them. */
bool reader_slices_before(const struct reader_slices *s, uint64_t end, size_t *ret_count);
/* Numbers in a decoded slice become the places in the row. */
void reader_slices_renumber(const struct reader_slices *s, size_t index,
			    struct slices_reader *slice);
