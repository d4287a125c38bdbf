/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/walk.h"

#include <errno.h>

#include "base/memory.h"

/* More than any writer puts into one block; a damaged count asks for no impossible memory. */
enum { EVENTS_MAX = 1 << 22 };

void sql_walk_init(struct walk *walk, struct sql *sql)
{
	*walk = (struct walk){.sql = sql, .count = trace_reader_event_block_count(sql->reader)};
}

void sql_walk_done(struct walk *walk)
{
	tm_free(walk->events);
	*walk = (struct walk){0};
}

static uint64_t end_block_id(const struct walk *walk)
{
	struct trace_event_block next;
	if (trace_reader_event_block(walk->sql->reader, walk->index + 1, &next))
		return UINT64_MAX;
	return next.first_block_id;
}

static int make_room(struct walk *walk, struct tm_error *err)
{
	size_t wanted = (size_t)walk->facts.event_count;
	if (wanted <= walk->room)
		return 0;
	tm_free(walk->events);
	walk->room = 0;
	walk->events = tm_alloc_array(wanted, sizeof *walk->events);
	if (!walk->events)
		return tm_fail(err, -ENOMEM, "no memory for %zu events", wanted);
	walk->room = wanted;
	return 0;
}

/* A damaged block is left out and counted, once however often it is met. */
static void leave_out(struct walk *walk)
{
	struct sql *sql = walk->sql;
	walk->skipped = true;
	if (walk->index < sql->unread_upto)
		return;
	sql->unread_upto = walk->index + 1;
	sql->unread_events += walk->facts.event_count;
}

static int load_here(struct walk *walk, bool *ret_loaded, struct tm_error *err)
{
	int code = -EBADMSG;
	if (walk->facts.event_count <= EVENTS_MAX) {
		code = make_room(walk, err);
		if (!code)
			code = trace_reader_events(walk->sql->reader, walk->index, walk->events,
						   err);
	}
	if (code == -EBADMSG) {
		leave_out(walk);
		return 0;
	}
	*ret_loaded = code == 0;
	walk->sql->stats.blocks_read += code == 0;
	return code;
}

int sql_walk_load(struct walk *walk, walk_wants_fn wants, void *ctx, bool *ret_loaded,
		  struct tm_error *err)
{
	*ret_loaded = false;
	walk->skipped = false;
	for (; walk->index < walk->count && !*ret_loaded; walk->index++) {
		int code = trace_reader_event_block(walk->sql->reader, walk->index, &walk->facts);
		if (code)
			return tm_fail(err, code, "block of events %zu cannot be found",
				       walk->index);
		if (!wants(ctx, &walk->facts, end_block_id(walk))) {
			walk->sql->stats.blocks_skipped++;
			walk->skipped = true;
			continue;
		}
		code = sql_tell(walk->sql, walk->facts.first_event, walk->sql->event_count, err);
		if (!code)
			code = load_here(walk, ret_loaded, err);
		if (code)
			return code;
	}
	return 0;
}
