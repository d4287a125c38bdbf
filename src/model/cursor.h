/* SPDX-License-Identifier: Apache-2.0 */
/* All events of a section, block by block, for those who need to see every one. */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

struct cursor {
	struct trace_reader *reader;
	size_t next, count; /* blocks of events */
	struct trace_event_block block;
	struct trace_event *events; /* of the block */
	uint64_t room;
	bool damaged; /* the block cannot be read: events[] says nothing */
};

/* The selected section. */
void cursor_init(struct cursor *cursor, struct trace_reader *reader);
void cursor_done(struct cursor *cursor);
/* 1: a block, damaged or decoded. 0: there is none. -errno. */
TM_MUST_CHECK int cursor_next(struct cursor *cursor, struct tm_error *err);
/* Events that the headers promise, all blocks together. */
uint64_t cursor_all(const struct cursor *cursor);
