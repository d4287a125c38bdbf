/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/memory.h"
#include "symbols/answers.h"
#include "symbols/strpool.h"

enum { FLUSH_BYTES = 256 * 1024 };
/* A download is told of so often. */
#define PROGRESS_NS (250 * 1000 * 1000ull)

static int flush(struct sender *sender)
{
	int code = text_error(&sender->out);
	if (!code)
		code = io_write(sender->fd, text_string(&sender->out), sender->out.length);
	text_clear(&sender->out);
	return code;
}

static void put_record(struct sender *sender, struct answer record, const char *text)
{
	record.text_bytes = text ? (uint32_t)strnlen(text, ANSWERS_TEXT_MAX) : 0;
	text_put_bytes(&sender->out, &record, sizeof record);
	text_put_bytes(&sender->out, text, record.text_bytes);
}

/* The number of a string of the pool, which is sent if it was not. 0 = none. */
static uint32_t number_of(struct sender *sender, const char *text)
{
	if (!text || !text[0])
		return 0;
	uint32_t index = strpool_number(text);
	if (index >= sender->number_room) {
		size_t room = (size_t)index * 2 + 1024;
		uint32_t *grown = tm_grow_array(sender->numbers, room, sizeof *grown);
		if (!grown)
			_exit(1);
		memset(grown + sender->number_room, 0,
		       (room - sender->number_room) * sizeof *grown);
		sender->numbers = grown;
		sender->number_room = room;
	}
	if (!sender->numbers[index]) {
		put_record(sender, (struct answer){.kind = ANSWER_TEXT}, text);
		sender->numbers[index] = ++sender->sent;
	}
	return sender->numbers[index];
}

int sender_done(void *ctx, size_t requests_done)
{
	struct sender *sender = ctx;
	put_record(sender, (struct answer){.kind = ANSWER_DONE, .number = requests_done}, NULL);
	return flush(sender);
}

int sender_frames(void *ctx, size_t request, const struct symbols_frame *frames, size_t count)
{
	struct sender *sender = ctx;
	if (!count)
		put_record(sender, (struct answer){.kind = ANSWER_UNNAMED, .number = request},
			   NULL);
	for (size_t i = 0; i < count; i++) {
		struct answer record = {
			.kind = ANSWER_FRAME,
			.inlined = i + 1 < count,
			.is_callee = frames[i].is_callee,
			.source = frames[i].source,
			.line = frames[i].line,
			.column = frames[i].column,
			.function = number_of(sender, frames[i].function),
			.file = number_of(sender, frames[i].file),
			.number = request,
		};
		put_record(sender, record, NULL);
	}
	return sender->out.length >= FLUSH_BYTES ? sender_done(sender, request + 1) : 0;
}

void sender_warning(void *ctx, const char *sentence)
{
	put_record(ctx, (struct answer){.kind = ANSWER_WARNING}, sentence);
}

void sender_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	struct sender *sender = ctx;
	uint64_t now = clock_steady_ns();
	if (now - sender->progress_ns < PROGRESS_NS)
		return;
	sender->progress_ns = now;
	put_record(sender,
		   (struct answer){
			   .kind = ANSWER_PROGRESS,
			   .number = done,
			   .line = (uint32_t)total,
			   .column = (uint32_t)(total >> 32),
		   },
		   what);
	if (flush(sender))
		_exit(1);
}
