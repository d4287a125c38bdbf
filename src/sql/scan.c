/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/scan.h"

#include <errno.h>

#include "base/memory.h"

/* More than any writer puts into one block; a damaged count asks for no impossible memory. */
enum { EVENTS_MAX = 1 << 22 };

void scan_init(struct scan *scan, struct sql *sql)
{
	*scan = (struct scan){.sql = sql, .count = trace_reader_event_block_count(sql->reader)};
}

void scan_done(struct scan *scan)
{
	tm_free(scan->events);
	*scan = (struct scan){0};
}

static uint64_t end_block_id(const struct scan *scan)
{
	struct trace_event_block next;
	if (trace_reader_event_block(scan->sql->reader, scan->index + 1, &next))
		return UINT64_MAX;
	return next.first_block_id;
}

static int make_room(struct scan *scan, struct tm_error *err)
{
	size_t wanted = (size_t)scan->facts.event_count;
	if (wanted <= scan->room)
		return 0;
	tm_free(scan->events);
	scan->room = 0;
	scan->events = tm_alloc_array(wanted, sizeof *scan->events);
	if (!scan->events)
		return tm_fail(err, -ENOMEM, "no memory for %zu events", wanted);
	scan->room = wanted;
	return 0;
}

/* A damaged block is left out and counted, once however often it is met. */
static void leave_out(struct scan *scan)
{
	struct sql *sql = scan->sql;
	scan->skipped = true;
	if (scan->index < sql->unread_upto)
		return;
	sql->unread_upto = scan->index + 1;
	sql->unread_events += scan->facts.event_count;
}

static int load_here(struct scan *scan, bool *ret_loaded, struct tm_error *err)
{
	int code = -EBADMSG;
	if (scan->facts.event_count <= EVENTS_MAX) {
		code = make_room(scan, err);
		if (!code)
			code = trace_reader_events(scan->sql->reader, scan->index, scan->events,
						   err);
	}
	if (code == -EBADMSG) {
		leave_out(scan);
		return 0;
	}
	*ret_loaded = code == 0;
	scan->sql->stats.blocks_read += code == 0;
	return code;
}

int scan_load(struct scan *scan, scan_wants_fn wants, void *ctx, bool *ret_loaded,
	      struct tm_error *err)
{
	*ret_loaded = false;
	scan->skipped = false;
	for (; scan->index < scan->count && !*ret_loaded; scan->index++) {
		int code = trace_reader_event_block(scan->sql->reader, scan->index, &scan->facts);
		if (code)
			return tm_fail(err, code, "block of events %zu cannot be found",
				       scan->index);
		if (!wants(ctx, &scan->facts, end_block_id(scan))) {
			scan->sql->stats.blocks_skipped++;
			scan->skipped = true;
			continue;
		}
		code = sql_tell(scan->sql, scan->facts.first_event, scan->sql->event_count, err);
		if (!code)
			code = load_here(scan, ret_loaded, err);
		if (code)
			return code;
	}
	return 0;
}
