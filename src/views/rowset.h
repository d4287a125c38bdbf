/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are told apart by what they are the row of, made when first met. */
#pragma once

#include "base/idmap.h"
#include "views/views.h"

struct row_set { /* start with {0} */
	struct view_row *rows;
	size_t count, room;
	struct idmap map;
};

/* The number of the row with the key's function, module, file, line and package. -ENOMEM. */
TM_MUST_CHECK int row_set_intern(struct row_set *set, const struct view_row *key, uint32_t *ret_id);
/* Hands the rows over; the set is empty after. */
void row_set_take(struct row_set *set, struct view_rows *ret_rows);
void row_set_done(struct row_set *set);
