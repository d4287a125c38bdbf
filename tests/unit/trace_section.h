/* SPDX-License-Identifier: Apache-2.0 */
/* Whole sections with records of every kind, written and checked, on top of the fixture. */
#pragma once

#include "trace_fixture.h"

/* A writer on a new file. */
struct trace_writer *section_open_writer(const char *name, char path[256],
					 struct trace_writer_options options);
struct trace_reader *section_open_reader(const char *path);
void section_end_and_close(struct trace_writer *w);
struct trace_event *section_make_events(struct fixture *f, size_t count);

/* Samples, maps, slices, symbols: of each kind at most so many, or all; and their check. */
void section_write_some(struct trace_writer *w, uint64_t most);
void section_write_others(struct trace_writer *w);
int section_check_slice(void *ctx, const struct trace_slice *slice);
void section_check_others(struct trace_reader *r);

/* A section of `count` events in batches of odd sizes with all other records, without its end. */
void section_write(struct trace_writer *w, const struct trace_event *events, size_t count,
		   bool free_stacks);
