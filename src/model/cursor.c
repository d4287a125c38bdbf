/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cursor.h"

#include <errno.h>

#include "base/memory.h"

void cursor_init(struct cursor *cursor, struct trace_reader *reader)
{
	*cursor = (struct cursor){.reader = reader};
	cursor->count = trace_reader_event_block_count(reader);
}

void cursor_done(struct cursor *cursor)
{
	cursor->events = tm_free(cursor->events);
	cursor->room = 0;
}

int cursor_next(struct cursor *cursor, struct tm_error *err)
{
	if (cursor->next >= cursor->count)
		return 0;
	size_t index = cursor->next++;
	int rc = trace_reader_event_block(cursor->reader, index, &cursor->block);
	if (rc)
		return tm_fail(err, rc, "there is no block of events %zu", index);
	if (cursor->block.event_count > cursor->room || !cursor->events) {
		cursor_done(cursor);
		cursor->events =
			tm_alloc_array(cursor->block.event_count + 1, sizeof *cursor->events);
		if (!cursor->events)
			return tm_fail(err, -ENOMEM, "no memory for a block of %llu events",
				       (unsigned long long)cursor->block.event_count);
		cursor->room = cursor->block.event_count;
	}
	rc = trace_reader_events(cursor->reader, index, cursor->events, err);
	cursor->damaged = rc == -EBADMSG;
	return rc == 0 || cursor->damaged ? 1 : rc;
}

uint64_t cursor_all(const struct cursor *cursor)
{
	uint64_t all = 0;
	for (size_t i = 0; i < cursor->count; i++) {
		struct trace_event_block block;
		if (!trace_reader_event_block(cursor->reader, i, &block))
			all += block.event_count;
	}
	return all;
}
