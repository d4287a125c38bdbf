/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker sends to the process that asked it:
 *
 *   worker: look up ──> sender ──> records in a pipe ──> receiver: check, intern, tell
 *
 * Records are a struct answer and its text. A text is sent once ('T') and has a
 * number from then on: names of templates are long, and come again. 'D' says up
 * to which request all are answered; what follows the last 'D' of a worker that
 * died is thrown away. It may have been taken over by a hostile file: the
 * receiver believes nothing it says about sizes and numbers.
 */
#pragma once

#include "base/text.h"
#include "symbols/resolve.h"

enum { ANSWERS_TEXT_MAX = 64 * 1024 };

enum {
	ANSWER_DONE = 'D',
	ANSWER_FRAME = 'F',
	ANSWER_PROGRESS = 'P',
	ANSWER_TEXT = 'T',
	ANSWER_UNNAMED = 'U',
	ANSWER_WARNING = 'W',
};

struct answer {
	uint8_t kind, inlined, source, is_callee;
	uint32_t line, column;
	uint32_t function, file; /* numbers of texts, from 1 on in the order of their sending */
	uint32_t text_bytes;     /* of the text that follows */
	uint64_t number;         /* of the request; of 'D' how many are done; of 'P' bytes done of
					column and line */
};

/* ---- in the worker ---- */

struct sender {
	int fd;
	struct text out;
	uint32_t *numbers; /* by the pool's number of a string; 0 = not sent */
	size_t number_room;
	uint32_t sent;
	uint64_t progress_ns; /* when it was last told */
};

/* For resolve_here() and set_become_worker(), with a struct sender as ctx. */
int sender_frames(void *ctx, size_t request, const struct symbols_frame *frames, size_t count);
int sender_done(void *ctx, size_t requests_done);
void sender_warning(void *ctx, const char *sentence);
void sender_progress(void *ctx, const char *what, uint64_t done, uint64_t total);

/* ---- in the process that asked ---- */

struct receiver {
	const struct resolve_batch *batch;
	resolve_frames_fn on_frames;
	void *ctx;
	size_t end;         /* the request after the last that is asked for */
	struct text in;     /* records that were not told yet */
	size_t scanned;     /* of them, whole records seen */
	size_t complete;    /* of them, up to the last 'D' */
	size_t next;        /* the request that must be answered next */
	size_t done;        /* requests up to the last 'D' that was told */
	const char **texts; /* by number, from 1 on */
	size_t text_count, text_room;
	uint64_t text_bytes;
	unsigned warnings; /* so far: a mad child is not heard for ever */
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	size_t frame_count;
};

void receiver_init(struct receiver *receiver, const struct resolve_batch *batch, size_t from,
		   size_t end);
void receiver_done(struct receiver *receiver);
/* Takes bytes from the pipe; progress is told at once. -EBADMSG, -ENOMEM. */
TM_MUST_CHECK int receiver_put(struct receiver *receiver, const void *bytes, size_t count);
/* Tells what is complete. -EBADMSG, -ENOMEM, or what on_frames returned. */
TM_MUST_CHECK int receiver_tell(struct receiver *receiver);
