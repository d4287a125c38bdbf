/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "base/memory.h"
#include "symbols/answers.h"
#include "symbols/set.h"

enum { WARNINGS_MAX = 1000 };
/* What may wait to be complete, or for its turn. */
#define WAITING_MAX (256u << 20)
/* All texts of a trace. */
#define TEXTS_MAX       (1u << 24)
#define TEXTS_BYTES_MAX (1ull << 30)

static const char *intern(struct receiver *receiver, const char *text, size_t bytes)
{
	return strpool_intern(set_strings(receiver->batch->symbols), text, bytes);
}

static int take_text(struct receiver *receiver, const struct answer *record, const char *text)
{
	receiver->text_bytes += record->text_bytes;
	if (receiver->text_count == TEXTS_MAX || receiver->text_bytes > TEXTS_BYTES_MAX)
		return -EBADMSG;
	if (receiver->text_count == receiver->text_room) {
		size_t room = receiver->text_room * 2 + 1024;
		void *grown = tm_grow_array(receiver->texts, room, sizeof *receiver->texts);
		if (!grown)
			return -ENOMEM;
		receiver->texts = grown;
		receiver->text_room = room;
	}
	const char *kept = intern(receiver, text, record->text_bytes);
	if (!kept)
		return -ENOMEM;
	receiver->texts[receiver->text_count++] = kept;
	return 0;
}

static int take_frame(struct receiver *receiver, const struct answer *record)
{
	if (record->number != receiver->next || receiver->next >= receiver->end ||
	    receiver->frame_count == SYMBOLS_CHAIN_MAX || !record->function ||
	    record->function > receiver->text_count || record->file > receiver->text_count)
		return -EBADMSG;
	struct symbols_frame frame = {
		.function = receiver->texts[record->function - 1],
		.file = record->file ? receiver->texts[record->file - 1] : NULL,
		.line = record->line,
		.column = record->column,
		.inlined = record->inlined != 0,
		.is_callee = record->is_callee && record->inlined && !receiver->frame_count,
		.source = record->source,
	};
	receiver->frames[receiver->frame_count++] = frame;
	if (frame.inlined)
		return 0;
	int code = receiver->on_frames(receiver->ctx, receiver->next++, receiver->frames,
				       receiver->frame_count);
	receiver->frame_count = 0;
	return code;
}

static void take_warning(struct receiver *receiver, const struct answer *record, const char *text)
{
	const char *sentence = intern(receiver, text, record->text_bytes);
	if (sentence && receiver->warnings++ < WARNINGS_MAX)
		set_warn(receiver->batch->symbols, sentence);
}

static void take_progress(struct receiver *receiver, const struct answer *record, const char *text)
{
	const char *what = intern(receiver, text, record->text_bytes);
	if (what)
		set_progress(receiver->batch->symbols, what, record->number,
			     record->line | (uint64_t)record->column << 32);
}

static int take(struct receiver *receiver, const struct answer *record, const char *text)
{
	switch (record->kind) {
	case ANSWER_FRAME:
		return take_frame(receiver, record);
	case ANSWER_TEXT:
		return take_text(receiver, record, text);
	case ANSWER_PROGRESS: /* was told when it came */
		return 0;
	case ANSWER_UNNAMED:
		if (record->number != receiver->next || receiver->frame_count ||
		    receiver->next >= receiver->end)
			return -EBADMSG;
		return receiver->on_frames(receiver->ctx, receiver->next++, NULL, 0);
	case ANSWER_WARNING:
		take_warning(receiver, record, text);
		return 0;
	case ANSWER_DONE:
		if (record->number != receiver->next || receiver->frame_count)
			return -EBADMSG;
		receiver->done = receiver->next;
		return 0;
	}
	return -EBADMSG;
}

/* The bytes of the record at `at`, 0 if it is not whole yet, or -EBADMSG. */
static ssize_t record_at(const struct text *in, size_t at, struct answer *ret_record)
{
	if (in->length - at < sizeof *ret_record)
		return 0;
	memcpy(ret_record, in->data + at, sizeof *ret_record);
	if (ret_record->text_bytes > ANSWERS_TEXT_MAX)
		return -EBADMSG;
	size_t bytes = sizeof *ret_record + ret_record->text_bytes;
	return in->length - at < bytes ? 0 : (ssize_t)bytes;
}

void receiver_init(struct receiver *receiver, const struct resolve_batch *batch, size_t from,
		   size_t end)
{
	*receiver = (struct receiver){.batch = batch, .next = from, .done = from, .end = end};
}

void receiver_done(struct receiver *receiver)
{
	tm_free(receiver->texts);
	text_done(&receiver->in);
}

int receiver_put(struct receiver *receiver, const void *bytes, size_t count)
{
	struct answer record;
	ssize_t whole = 0;
	text_put_bytes(&receiver->in, bytes, count);
	if (text_error(&receiver->in))
		return -ENOMEM;
	while ((whole = record_at(&receiver->in, receiver->scanned, &record)) > 0) {
		if (record.kind == ANSWER_PROGRESS)
			take_progress(receiver, &record,
				      receiver->in.data + receiver->scanned + sizeof record);
		receiver->scanned += (size_t)whole;
		if (record.kind == ANSWER_DONE)
			receiver->complete = receiver->scanned;
	}
	return whole < 0 || receiver->in.length > WAITING_MAX ? -EBADMSG : 0;
}

int receiver_tell(struct receiver *receiver)
{
	size_t end = receiver->complete;
	int code = 0;
	for (size_t at = 0; !code && at < end;) {
		struct answer record;
		ssize_t bytes = record_at(&receiver->in, at, &record);
		code = take(receiver, &record, receiver->in.data + at + sizeof record);
		at += (size_t)bytes;
	}
	if (end) {
		receiver->scanned -= end;
		receiver->in.length -= end;
		memmove(receiver->in.data, receiver->in.data + end, receiver->in.length);
		receiver->complete = 0;
	}
	return code;
}
