/* SPDX-License-Identifier: Apache-2.0 */
/* All tables, in the order in which they are shown; NULL at the end. */
#pragma once

struct vtab;
extern const struct vtab *const tables_all[];

extern const struct vtab table_blocks, table_events, table_frames, table_info, table_maps,
	table_marks, table_modules, table_samples, table_stack_timeline, table_stacks,
	table_threads, table_timeline;
