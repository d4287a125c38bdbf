/* SPDX-License-Identifier: Apache-2.0 */
#include "model/young.h"

#include <errno.h>

#include "base/memory.h"

int young_init(struct young_table *table)
{
	*table = (struct young_table){.places = tm_alloc_array(YOUNG_COUNT, sizeof *table->places)};
	return table->places ? 0 : -ENOMEM;
}

void young_done(struct young_table *table)
{
	tm_free(table->places);
	*table = (struct young_table){0};
}

int young_each(const struct young_table *table, live_visit_fn fn, void *ctx)
{
	for (size_t i = 0; i < YOUNG_COUNT; i++) {
		const struct young *young = &table->places[i];
		int rc = young_is_used(young) ? fn(ctx, young->key, &young->block) : 0;
		if (rc)
			return rc;
	}
	return 0;
}
