/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests do with a trace file that they have written from the events of a
 * reference model. Whatever goes wrong stops the test.
 */
#pragma once

#include "model/query.h"
#include "trace/trace.h"

#include <stdint.h>

/* Of a program that never ran; strings are constants. */
struct trace_meta written_meta(void);
/* A new file; its name is in path. A section with the stacks of the reference model is begun. */
void written_begin(char path[64], const struct trace_writer_options *options,
		   const struct trace_meta *meta, struct trace_writer **ret_writer);
/* Ends the section and the file. */
void written_close(struct trace_writer *writer);
void written_open(const char *path, struct trace_reader **ret_reader,
		  struct query_section **ret_section);
/* All checks of the file and of its model find nothing. */
void written_is_sound(struct trace_reader *reader);
uint64_t written_bytes(const char *path);
/* Opens the file as it is now, as if its writer was killed. */
void written_open_copy(const char *path, struct trace_reader **ret_reader);
/* Spoils the block of this kind that has `after` others of it behind it. */
void written_damage(const char *path, uint32_t type, int after);
