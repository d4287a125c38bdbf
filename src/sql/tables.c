/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/tables.h"

#include <stddef.h>

const struct vtab *const tables_all[] = {
	&table_blocks,  &table_events,  &table_stacks,   &table_frames,
	&table_threads, &table_modules, &table_timeline, &table_stack_timeline,
	&table_samples, &table_maps,    &table_marks,    &table_info,
	NULL,
};
