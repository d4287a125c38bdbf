/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/site.h"

#include <stdio.h>

#include "sql/guard.h"

/* A stack of long names is cut: SQLite refuses texts beyond GUARD_LENGTH. */
enum { STACK_TEXT_MAX = GUARD_LENGTH / 2 };

static const struct view_frame *site_frame(const struct sql *sql, uint32_t stack_id,
					   uint32_t *ret_cursor)
{
	uint32_t cursor = view_stack_of(sql->data, stack_id), after = 0;
	const struct view_frame *leaf = NULL, *frame;
	while ((frame = view_next_frame(sql->data, &cursor))) {
		if (!leaf) {
			leaf = frame;
			after = cursor;
		}
		if (!frame->is_allocator) {
			*ret_cursor = cursor;
			return frame;
		}
	}
	*ret_cursor = after;
	return leaf;
}

static const char *name_of(const struct view_frame *frame, char own[SITE_BYTES])
{
	if (frame->function)
		return frame->function;
	snprintf(own, SITE_BYTES, "[%s]", view_module_name(frame->module));
	return own;
}

void site_find(const struct sql *sql, uint32_t stack_id, struct site *ret)
{
	uint32_t cursor;
	const struct view_frame *frame = site_frame(sql, stack_id, &cursor);
	ret->text = frame ? name_of(frame, ret->own) : "[no stack]";
	ret->module = frame ? frame->module : NULL;
}

void site_put(sqlite3_context *ret, const struct sql *sql, uint32_t stack_id)
{
	struct site site;
	site_find(sql, stack_id, &site);
	sqlite3_result_text(ret, site.text, -1,
			    site.text == site.own ? SQLITE_TRANSIENT : SQLITE_STATIC);
}

void site_put_stack(struct text *text, const struct sql *sql, uint32_t stack_id, uint64_t limit)
{
	uint32_t cursor;
	char own[SITE_BYTES];
	const struct view_frame *frame = site_frame(sql, stack_id, &cursor);
	for (uint64_t i = 0; frame; i++, frame = view_next_frame(sql->data, &cursor)) {
		text_put(text, i ? " < " : "");
		if ((limit > 0 && i == limit) || text->length > STACK_TEXT_MAX) {
			text_put(text, "...");
			return;
		}
		text_put(text, name_of(frame, own));
	}
}
