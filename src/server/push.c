/* SPDX-License-Identifier: Apache-2.0 */
#include "server/push.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/post.h"
#include "server/push_make.h"

enum {
	TRACES_MAX = 16,
	TIMEOUT_MS = 10 * 1000,
	LAST_MS = 3 * 1000,    /* for what is in the queue at the end */
	LAST_PAUSE_MS = 100,   /* between the last trials */
	PAUSE_FIRST_MS = 1000, /* after a failure; doubles */
	PAUSE_MOST_MS = 60 * 1000,
	INTERVAL_MS = 60 * 1000,
};

/* When each trace was pushed last. */
struct pushed {
	char id[CATALOG_ID_CHARS + 1];
	uint64_t version, until_s;
};

struct push {
	struct push_options options;
	struct post_url url;
	struct push_queue queue;
	struct pushed pushed[TRACES_MAX];
	pthread_t maker, sender;
	bool has_maker, has_sender;
	int stop[2];                  /* a pipe: readable when it is to end */
	_Atomic uint64_t deadline_ns; /* of the end; 0 while it goes on */
	_Atomic uint64_t sent, refused, dropped, failures;
};

__attribute__((format(printf, 2, 3))) static void say(const struct push *push, const char *format,
						      ...)
{
	char line[700];
	va_list values;
	va_start(values, format);
	vsnprintf(line, sizeof line, format, values);
	va_end(values);
	if (push->options.log)
		push->options.log(push->options.log_ctx, line);
}

/* False: it is to end. */
static bool pause_ms(const struct push *push, uint64_t ms)
{
	struct pollfd stop = {.fd = push->stop[0], .events = POLLIN};
	uint64_t until_ns = clock_steady_ns() + ms * 1000000;
	for (uint64_t now_ns; (now_ns = clock_steady_ns()) < until_ns;)
		if (poll(&stop, 1, (int)((until_ns - now_ns) / 1000000) + 1) > 0)
			return false;
	return true;
}

/* ---- making ---- */

static struct pushed *find_pushed(struct push *push, const char *id)
{
	struct pushed *oldest = &push->pushed[0];
	for (size_t i = 0; i < TRACES_MAX; i++) {
		struct pushed *one = &push->pushed[i];
		if (!strcmp(one->id, id))
			return one;
		if (one->until_s < oldest->until_s)
			oldest = one;
	}
	*oldest = (struct pushed){.version = 0};
	memcpy(oldest->id, id, sizeof oldest->id);
	return oldest;
}

static int make_one(struct push *push, const char *id, struct tm_error *err)
{
	struct pushed *pushed = find_pushed(push, id);
	struct shown_facts *facts;
	struct push_item item;
	uint64_t now_s = clock_wall_ns() / 1000000000;
	int code = catalog_enter(push->options.catalog, id, &facts, err);
	if (code)
		return code == -ENODATA ? 0 : code; /* its first block is still to come */
	bool is_new = facts->version != pushed->version;
	if (is_new) {
		uint64_t start_s = facts->input.meta->start_unix_ns / 1000000000;
		shown_lock(facts);
		code = push_make(facts, push->url.target,
				 pushed->until_s ? pushed->until_s : start_s, now_s, &item, err);
		shown_unlock(facts);
	}
	if (is_new && !code) {
		pushed->version = facts->version;
		pushed->until_s = now_s;
		atomic_fetch_add(&push->dropped, push_queue_put(&push->queue, &item));
	}
	shown_leave(facts);
	return code;
}

static void make_round(struct push *push, bool is_last)
{
	char ids[TRACES_MAX][CATALOG_ID_CHARS + 1];
	if (push->options.before)
		push->options.before(push->options.before_ctx);
	size_t count = catalog_recent(push->options.catalog, ids, TRACES_MAX);
	for (size_t i = 0; i < count; i++) {
		struct tm_error err = {0};
		struct shown *shown = is_last ? catalog_find(push->options.catalog, ids[i]) : NULL;
		if (shown) /* what was read a moment ago is not the end */
			shown_close_idle(shown);
		if (make_one(push, ids[i], &err)) {
			atomic_fetch_add(&push->dropped, 1);
			say(push, "no profile was pushed: %s", err.text);
		}
	}
}

static void *make_all(void *ctx)
{
	struct push *push = ctx;
	while (pause_ms(push, push->options.interval_ns / 1000000))
		make_round(push, false);
	make_round(push, true);
	return NULL;
}

/* ---- sending ---- */

/* Whom the receiver will not take it from the next time either. */
static bool is_refusal(int status)
{
	return status >= 300 && status < 500 && status != 408 && status != 429;
}

static bool is_ending(const struct push *push, uint64_t *ret_left_ms)
{
	uint64_t deadline_ns = atomic_load(&push->deadline_ns), now_ns = clock_steady_ns();
	if (!deadline_ns)
		return false;
	*ret_left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000000 : 0;
	return true;
}

/* A 2xx is 0; -EACCES: it does not want it; all else may be tried again. */
static int send_once(struct push *push, const struct push_item *item, struct tm_error *err)
{
	uint64_t left_ms = TIMEOUT_MS;
	int status = 0;
	bool ends = is_ending(push, &left_ms);
	const struct post post = {
		.url = &push->url,
		.target = item->target,
		.type = "application/octet-stream", /* packed already: no Content-Encoding */
		.body = item->body,
		.bytes = item->bytes,
		.timeout_ms = left_ms < TIMEOUT_MS ? (uint32_t)left_ms : TIMEOUT_MS,
		.cancel_fd = ends ? -1 : push->stop[0],
	};
	int code = post_send(&post, &status, err);
	if (code || (status >= 200 && status < 300))
		return code;
	return tm_fail(err, is_refusal(status) ? -EACCES : -EAGAIN, "%s answered %d",
		       push->url.authority, status);
}

/* Doubles; a little by chance, so that many that failed together do not come back together. */
static uint64_t next_pause(const struct push *push, uint64_t pause_ms)
{
	uint64_t interval_ms = push->options.interval_ns / 1000000;
	uint64_t first = interval_ms < PAUSE_FIRST_MS ? interval_ms : PAUSE_FIRST_MS;
	uint64_t next = pause_ms ? 2 * pause_ms : first;
	next = next < PAUSE_MOST_MS ? next : PAUSE_MOST_MS;
	return next - (clock_steady_ns() >> 10) % (next / 4 + 1);
}

/* Until it is there, refused, or the time is over. */
static void send_item(struct push *push, const struct push_item *item)
{
	uint64_t pause = 0, left_ms = 0;
	for (;;) {
		struct tm_error err = {0};
		int code = send_once(push, item, &err);
		if (!code) {
			atomic_fetch_add(&push->sent, 1);
			if (pause)
				say(push, "pushing works again; %" PRIu64 " profiles were dropped",
				    atomic_load(&push->dropped));
			return;
		}
		if (code == -EACCES) {
			if (!atomic_fetch_add(&push->refused, 1))
				say(push, "a profile was refused: %s", err.text);
			return;
		}
		if (is_ending(push, &left_ms) && left_ms <= LAST_PAUSE_MS) {
			atomic_fetch_add(&push->dropped, 1);
			return;
		}
		if (code == -ECANCELED)
			continue; /* it ends: once more, with the time that is left */
		atomic_fetch_add(&push->failures, 1);
		if (!pause)
			say(push, "pushing failed, and is tried again: %s", err.text);
		pause = next_pause(push, pause);
		if (!pause_ms(push, pause) && is_ending(push, &left_ms))
			poll(NULL, 0, LAST_PAUSE_MS); /* the receiver may just be coming back */
	}
}

static void *send_all(void *ctx)
{
	struct push *push = ctx;
	struct push_item item;
	while (push_queue_take(&push->queue, &item)) {
		send_item(push, &item);
		push_item_done(&item);
	}
	return NULL;
}

/* ---- both ---- */

static int start_threads(struct push *push, struct tm_error *err)
{
	if (pipe(push->stop)) {
		push->stop[0] = push->stop[1] = -1;
		return tm_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
	}
	for (int i = 0; i < 2; i++)
		fcntl(push->stop[i], F_SETFD, FD_CLOEXEC);
	push->has_sender = !pthread_create(&push->sender, NULL, send_all, push);
	push->has_maker = push->has_sender && !pthread_create(&push->maker, NULL, make_all, push);
	return push->has_maker ? 0 : tm_fail(err, -EAGAIN, "no thread for pushing profiles");
}

int push_start(const struct push_options *options, struct push **ret_push, struct tm_error *err)
{
	struct push *push = tm_alloc(sizeof *push);
	if (!push)
		return tm_fail(err, -ENOMEM, "no memory for pushing profiles");
	push->options = *options;
	if (!options->interval_ns)
		push->options.interval_ns = INTERVAL_MS * 1000000ull;
	push_queue_init(&push->queue);
	push->stop[0] = push->stop[1] = -1;
	int code = post_url_parse(options->url, &push->url, err);
	if (!code && push->options.interval_ns < PUSH_INTERVAL_MIN_MS * 1000000ull)
		code = tm_fail(err, -EINVAL, "profiles are pushed every 100 ms at most");
	if (!code)
		code = start_threads(push, err);
	if (code)
		push_stop(push);
	else
		*ret_push = push;
	return code;
}

static void end_threads(struct push *push)
{
	/* Before the pipe tells: the sender must know how much time it has. */
	atomic_store(&push->deadline_ns, clock_steady_ns() + LAST_MS * 1000000ull);
	if (push->stop[1] >= 0 && write(push->stop[1], "", 1) != 1)
		say(push, "cannot wake the thread that pushes profiles");
	if (push->has_maker)
		pthread_join(push->maker, NULL);
	atomic_store(&push->deadline_ns, clock_steady_ns() + LAST_MS * 1000000ull);
	push_queue_close(&push->queue);
	if (push->has_sender)
		pthread_join(push->sender, NULL);
}

struct push *push_stop(struct push *push)
{
	if (!push)
		return NULL;
	end_threads(push);
	if (push->dropped || push->refused)
		say(push,
		    "%" PRIu64 " profiles were pushed, %" PRIu64 " dropped, %" PRIu64 " refused",
		    push->sent, push->dropped, push->refused);
	for (int i = 0; i < 2; i++)
		if (push->stop[i] >= 0)
			close(push->stop[i]);
	push_queue_done(&push->queue);
	return tm_free(push);
}

void push_figures(const struct push *push, struct push_figures *ret)
{
	*ret = (struct push_figures){
		.sent = atomic_load(&push->sent),
		.refused = atomic_load(&push->refused),
		.dropped = atomic_load(&push->dropped),
		.failures = atomic_load(&push->failures),
		.waiting = push_queue_count((struct push_queue *)&push->queue),
	};
}
