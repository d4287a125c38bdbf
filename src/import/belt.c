/* SPDX-License-Identifier: Apache-2.0 */
#include "import/belt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/memory.h"

/* A side that had to wait goes on when half is free: it is woken less often. */
enum { CHUNKS = 8, GO_ON = CHUNKS / 2 };

struct belt {
	belt_work_fn work;
	void *ctx;
	struct belt_chunk *chunks[CHUNKS]; /* made as they are needed */
	bool threaded, thread_refused;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t passed_on, done_with;
	uint64_t passed, done; /* chunks; number n is chunks[n % CHUNKS] */
	bool stop;
	struct tm_error failure; /* code 0 = none */
};

static int no_memory(struct tm_error *err)
{
	return tm_fail(err, -ENOMEM, "no memory to import the file");
}

int belt_new(belt_work_fn work, void *ctx, struct belt **ret_belt, struct belt_chunk **ret_chunk,
	     struct tm_error *err)
{
	struct belt *b = tm_alloc(sizeof *b);
	if (!b)
		return no_memory(err);
	b->chunks[0] = tm_alloc(sizeof *b->chunks[0]);
	if (!b->chunks[0]) {
		tm_free(b);
		return no_memory(err);
	}
	b->work = work;
	b->ctx = ctx;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->passed_on, NULL);
	pthread_cond_init(&b->done_with, NULL);
	*ret_belt = b;
	*ret_chunk = b->chunks[0];
	return 0;
}

struct belt *belt_free(struct belt *b)
{
	if (!b)
		return NULL;
	if (b->threaded) {
		pthread_mutex_lock(&b->lock);
		b->stop = true;
		pthread_cond_signal(&b->passed_on);
		pthread_mutex_unlock(&b->lock);
		pthread_join(b->thread, NULL);
	}
	pthread_mutex_destroy(&b->lock);
	pthread_cond_destroy(&b->passed_on);
	pthread_cond_destroy(&b->done_with);
	for (size_t i = 0; i < CHUNKS; i++)
		tm_free(b->chunks[i]);
	return tm_free(b);
}

/* ---- the working side ---- */

/* Chunk number `number`, without the lock. */
static void work_on(struct belt *b, uint64_t number, struct tm_error *failure)
{
	struct belt_chunk *chunk = b->chunks[number % CHUNKS];
	if (!failure->code && b->work(b->ctx, chunk, failure) && !failure->code)
		tm_fail(failure, -EIO, "the file cannot be imported");
	chunk->event_count = chunk->stack_count = chunk->step_count = 0;
}

static void *run(void *ctx)
{
	struct belt *b = ctx;
	struct tm_error failure = {0};
	pthread_mutex_lock(&b->lock);
	for (;;) {
		while (b->done == b->passed && !b->stop)
			pthread_cond_wait(&b->passed_on, &b->lock);
		if (b->stop)
			break;
		uint64_t number = b->done;
		pthread_mutex_unlock(&b->lock);
		work_on(b, number, &failure);
		pthread_mutex_lock(&b->lock);
		b->failure = failure;
		b->done++;
		if (b->passed - b->done == GO_ON || b->passed == b->done)
			pthread_cond_signal(&b->done_with);
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

/* Signals are for the thread that shows the progress. */
static bool start(struct belt *b)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int code = pthread_create(&b->thread, NULL, run, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	b->threaded = code == 0;
	b->thread_refused = code != 0;
	return b->threaded;
}

/* ---- the filling side ---- */

static int failed(const struct belt *b, struct tm_error *err)
{
	if (b->failure.code)
		*err = b->failure;
	return b->failure.code;
}

/* Without a thread: the same chunk again. */
static int do_it_here(struct belt *b, struct belt_chunk **ret_chunk, struct tm_error *err)
{
	work_on(b, b->passed, &b->failure);
	*ret_chunk = b->chunks[b->passed % CHUNKS];
	return failed(b, err);
}

int belt_pass(struct belt *b, struct belt_chunk **ret_chunk, struct tm_error *err)
{
	struct belt_chunk *next = b->chunks[(b->passed + 1) % CHUNKS];
	*ret_chunk = b->chunks[b->passed % CHUNKS];
	if (!b->threaded && (b->thread_refused || !start(b)))
		return do_it_here(b, ret_chunk, err);
	if (!next) {
		next = b->chunks[(b->passed + 1) % CHUNKS] = tm_alloc(sizeof *next);
		if (!next)
			return no_memory(err);
	}
	pthread_mutex_lock(&b->lock);
	b->passed++;
	pthread_cond_signal(&b->passed_on);
	if (b->passed - b->done == CHUNKS)
		while (b->passed - b->done > GO_ON)
			pthread_cond_wait(&b->done_with, &b->lock);
	int code = failed(b, err);
	pthread_mutex_unlock(&b->lock);
	*ret_chunk = next;
	return code;
}

int belt_settle(struct belt *b, struct belt_chunk **ret_chunk, struct tm_error *err)
{
	if (!b->threaded)
		return do_it_here(b, ret_chunk, err);
	int code = belt_pass(b, ret_chunk, err);
	pthread_mutex_lock(&b->lock);
	while (b->done < b->passed)
		pthread_cond_wait(&b->done_with, &b->lock);
	if (!code)
		code = failed(b, err);
	pthread_mutex_unlock(&b->lock);
	return code;
}
