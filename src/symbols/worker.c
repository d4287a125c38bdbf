/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information is read in a child process that streams its answers back:
 *
 *   child: open, look up ──> records in a pipe ──> parent: check, intern, tell
 *
 * Records are a struct record and its text. A text is sent once ('T') and has a
 * number from then on: names of templates are long, and come again. 'D' says up
 * to which request all are answered; what follows the last 'D' of a child that
 * died is thrown away. The child may have been taken over by a hostile file: the
 * parent believes nothing it says about sizes and numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "symbols/resolve.h"
#include "symbols/set.h"

enum { FLUSH_BYTES = 256 * 1024, TEXT_MAX = 64 * 1024, WARNINGS_MAX = 1000 };
/* What may wait to be complete. */
#define WAITING_MAX (256u << 20)
/* Beyond its CPU limit the child may still hang on a dead network disk. */
#define SILENCE_MAX_MS (30 * 1000)

/* All texts of a trace. */
#define TEXTS_MAX       (1u << 24)
#define TEXTS_BYTES_MAX (1ull << 30)
/* A download is told of so often. */
#define PROGRESS_NS (250 * 1000 * 1000ull)

enum {
	KIND_DONE = 'D',
	KIND_FRAME = 'F',
	KIND_PROGRESS = 'P',
	KIND_TEXT = 'T',
	KIND_UNNAMED = 'U',
	KIND_WARNING = 'W',
};

struct record {
	uint8_t kind, inlined, source, reserved;
	uint32_t line, column;
	uint32_t function, file; /* numbers of texts, from 1 on in the order of their sending */
	uint32_t text_bytes;     /* of the text that follows */
	uint64_t number;         /* of the request; of 'D' how many are done; of 'P' bytes done of
					column and line */
};

/* ---- the child ---- */

struct sender {
	int fd;
	struct text out;
	uint32_t *numbers; /* by the pool's number of a string; 0 = not sent */
	size_t number_room;
	uint32_t sent;
	uint64_t progress_ns; /* when it was last told */
};

static int flush(struct sender *sender)
{
	int code = text_error(&sender->out);
	if (!code)
		code = io_write(sender->fd, text_string(&sender->out), sender->out.length);
	text_clear(&sender->out);
	return code;
}

static void put_record(struct sender *sender, struct record record, const char *text)
{
	record.text_bytes = text ? (uint32_t)strnlen(text, TEXT_MAX) : 0;
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
		put_record(sender, (struct record){.kind = KIND_TEXT}, text);
		sender->numbers[index] = ++sender->sent;
	}
	return sender->numbers[index];
}

static int send_done(void *ctx, size_t requests_done)
{
	struct sender *sender = ctx;
	put_record(sender, (struct record){.kind = KIND_DONE, .number = requests_done}, NULL);
	return flush(sender);
}

static int send_frames(void *ctx, size_t request, const struct symbols_frame *frames, size_t count)
{
	struct sender *sender = ctx;
	if (!count)
		put_record(sender, (struct record){.kind = KIND_UNNAMED, .number = request}, NULL);
	for (size_t i = 0; i < count; i++) {
		struct record record = {
			.kind = KIND_FRAME,
			.inlined = i + 1 < count,
			.source = frames[i].source,
			.line = frames[i].line,
			.column = frames[i].column,
			.function = number_of(sender, frames[i].function),
			.file = number_of(sender, frames[i].file),
			.number = request,
		};
		put_record(sender, record, NULL);
	}
	return sender->out.length >= FLUSH_BYTES ? send_done(sender, request + 1) : 0;
}

static void send_warning(void *ctx, const char *sentence)
{
	put_record(ctx, (struct record){.kind = KIND_WARNING}, sentence);
}

static void send_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	struct sender *sender = ctx;
	uint64_t now = clock_steady_ns();
	if (now - sender->progress_ns < PROGRESS_NS)
		return;
	sender->progress_ns = now;
	put_record(sender,
		   (struct record){
			   .kind = KIND_PROGRESS,
			   .number = done,
			   .line = (uint32_t)total,
			   .column = (uint32_t)(total >> 32),
		   },
		   what);
	if (flush(sender))
		_exit(1);
}

static _Noreturn void run_child(const struct resolve_batch *batch, size_t from, int fd)
{
	struct sender sender = {.fd = fd};
	uint64_t seconds = set_lines_budget_ns(batch->symbols) / 1000000000u + 3;
	struct rlimit none = {0}, cpu = {.rlim_cur = seconds, .rlim_max = seconds};
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_CPU, &cpu);
	set_become_worker(batch->symbols, send_warning, send_progress, &sender);
	int code = resolve_here(batch, from, batch->request_count, send_frames, send_done, &sender);
	_exit(code ? 1 : 0);
}

/* ---- the parent ---- */

struct receiver {
	const struct resolve_batch *batch;
	resolve_frames_fn on_frames;
	void *ctx;
	struct text in;     /* records that were not told yet */
	size_t scanned;     /* of them, whole records seen */
	size_t next;        /* the request that must be answered next */
	size_t done;        /* requests up to the last 'D' */
	const char **texts; /* by number, from 1 on */
	size_t text_count, text_room;
	uint64_t text_bytes;
	unsigned warnings; /* so far: a mad child is not heard for ever */
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	size_t frame_count;
};

static const char *intern(struct receiver *receiver, const char *text, size_t bytes)
{
	return strpool_intern(set_strings(receiver->batch->symbols), text, bytes);
}

static int take_text(struct receiver *receiver, const struct record *record, const char *text)
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

static int take_frame(struct receiver *receiver, const struct record *record)
{
	if (record->number != receiver->next || receiver->next >= receiver->batch->request_count ||
	    receiver->frame_count == SYMBOLS_CHAIN_MAX || !record->function ||
	    record->function > receiver->text_count || record->file > receiver->text_count)
		return -EBADMSG;
	struct symbols_frame frame = {
		.function = receiver->texts[record->function - 1],
		.file = record->file ? receiver->texts[record->file - 1] : NULL,
		.line = record->line,
		.column = record->column,
		.inlined = record->inlined != 0,
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

static void take_warning(struct receiver *receiver, const struct record *record, const char *text)
{
	const char *sentence = intern(receiver, text, record->text_bytes);
	if (sentence && receiver->warnings++ < WARNINGS_MAX)
		set_warn(receiver->batch->symbols, sentence);
}

static void take_progress(struct receiver *receiver, const struct record *record, const char *text)
{
	const char *what = intern(receiver, text, record->text_bytes);
	if (what)
		set_progress(receiver->batch->symbols, what, record->number,
			     record->line | (uint64_t)record->column << 32);
}

static int take(struct receiver *receiver, const struct record *record, const char *text)
{
	switch (record->kind) {
	case KIND_FRAME:
		return take_frame(receiver, record);
	case KIND_TEXT:
		return take_text(receiver, record, text);
	case KIND_PROGRESS: /* was told when it came */
		return 0;
	case KIND_UNNAMED:
		if (record->number != receiver->next || receiver->frame_count ||
		    receiver->next >= receiver->batch->request_count)
			return -EBADMSG;
		return receiver->on_frames(receiver->ctx, receiver->next++, NULL, 0);
	case KIND_WARNING:
		take_warning(receiver, record, text);
		return 0;
	case KIND_DONE:
		if (record->number != receiver->next || receiver->frame_count)
			return -EBADMSG;
		receiver->done = receiver->next;
		return 0;
	}
	return -EBADMSG;
}

/* The bytes of the record at `at`, 0 if it is not whole yet, or -EBADMSG. */
static ssize_t record_at(const struct text *in, size_t at, struct record *ret_record)
{
	if (in->length - at < sizeof *ret_record)
		return 0;
	memcpy(ret_record, in->data + at, sizeof *ret_record);
	if (ret_record->text_bytes > TEXT_MAX)
		return -EBADMSG;
	size_t bytes = sizeof *ret_record + ret_record->text_bytes;
	return in->length - at < bytes ? 0 : (ssize_t)bytes;
}

/* Where the last 'D' among the new records ends, 0 if there is none: only what is complete is told.
 */
static ssize_t answered(struct receiver *receiver)
{
	ssize_t end = 0, bytes = 0;
	struct record record;
	while ((bytes = record_at(&receiver->in, receiver->scanned, &record)) > 0) {
		if (record.kind == KIND_PROGRESS)
			take_progress(receiver, &record,
				      receiver->in.data + receiver->scanned + sizeof record);
		receiver->scanned += (size_t)bytes;
		if (record.kind == KIND_DONE)
			end = (ssize_t)receiver->scanned;
	}
	return bytes < 0 ? bytes : end;
}

/* Tells what is complete, keeps the rest. */
static int take_all(struct receiver *receiver)
{
	if (receiver->in.length > WAITING_MAX)
		return -EBADMSG;
	ssize_t end = answered(receiver);
	if (end <= 0)
		return (int)end;
	int code = 0;
	for (size_t at = 0; !code && at < (size_t)end;) {
		struct record record;
		ssize_t bytes = record_at(&receiver->in, at, &record);
		code = take(receiver, &record, receiver->in.data + at + sizeof record);
		at += (size_t)bytes;
	}
	receiver->scanned -= (size_t)end;
	receiver->in.length -= (size_t)end;
	memmove(receiver->in.data, receiver->in.data + end, receiver->in.length);
	return code;
}

static int receive(struct receiver *receiver, int fd)
{
	char bytes[64 * 1024];
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		int ready = poll(&wait, 1, SILENCE_MAX_MS);
		if (ready < 0 && errno == EINTR)
			continue;
		ssize_t got = ready > 0 ? read(fd, bytes, sizeof bytes) : 0;
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		text_put_bytes(&receiver->in, bytes, (size_t)got);
		int code = text_error(&receiver->in);
		if (!code)
			code = take_all(receiver);
		if (code)
			return code;
	}
}

/* With all signals blocked, so that the parent's handlers never run in the child. */
static pid_t start(const struct resolve_batch *batch, size_t from, int *ret_fd)
{
	int ends[2];
	if (pipe(ends))
		return -1;
#ifdef F_SETPIPE_SZ
	fcntl(ends[0], F_SETPIPE_SZ, 1 << 20); /* fewer changes between the two */
#endif
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		run_child(batch, from, ends[1]);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (child < 0)
		close(ends[0]);
	*ret_fd = ends[0];
	return child;
}

int worker_resolve(const struct resolve_batch *batch, size_t from, resolve_frames_fn on_frames,
		   void *ctx, size_t *ret_done)
{
	int fd = -1;
	pid_t child = start(batch, from, &fd);
	if (child < 0)
		return 0; /* nothing is done: the caller goes on without debug information */
	struct receiver *receiver = tm_alloc(sizeof *receiver);
	int code = -ENOMEM;
	if (receiver) {
		*receiver = (struct receiver){.batch = batch,
					      .on_frames = on_frames,
					      .ctx = ctx,
					      .next = from,
					      .done = from};
		code = receive(receiver, fd);
		if (!code)
			code = take_all(receiver);
		*ret_done = receiver->done;
		tm_free(receiver->texts);
		text_done(&receiver->in);
	}
	tm_free(receiver);
	close(fd);
	kill(child, SIGKILL); /* it has ended, or hangs */
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return code == -EBADMSG ? 0 : code;
}
