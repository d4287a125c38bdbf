/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/giveway.h"

#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

enum {
	/* It was late: about as long as a pass. On a machine that is merely full there are seldom
	   two such in a row, and each time it competes somebody may be laid elsewhere for long. */
	HOLD_LEAST_NS = 10 * 1000 * 1000,
	HURRY_NS = 60 * 1000 * 1000, /* it was told to */
	/* Between two looks: each takes a processor from somebody, who may land elsewhere. */
	LOOK_CALM_NS = 60 * 1000 * 1000,
	LOOK_RESTLESS_NS = 2 * 1000 * 1000,
	CALM = 8, /* times as long as it competed it gave way before: then all is as at first */
};
#define HOLD_MOST_NS 4000000000ull

struct giveway {
	pthread_t minder;
	pthread_mutex_t lock; /* for the rest */
	pthread_cond_t changed;
	struct giveway_pair *pairs;
	bool stopping;
};

/* Advice only: a thread that cannot give way competes. */
static void set_policy(pthread_t thread, int policy)
{
	const struct sched_param none = {0};
	(void)pthread_setschedparam(thread, policy, &none);
}

/* With the lock held: then they are there. */
static void set_policies(const struct giveway_pair *pair, int policy)
{
	for (unsigned i = 0; i < pair->count; i++)
		set_policy(pair->threads[i], policy);
}

/* All of it competes; whatever is made from now on as well. */
static void lift(struct giveway_pair *pair)
{
	atomic_store(&pair->competes, true);
	set_policies(pair, SCHED_OTHER);
	atomic_store(&pair->minded, true);
	if (atomic_load(&pair->has_apart))
		set_policy(pair->apart, SCHED_OTHER);
	atomic_store(&pair->minded, false);
}

/* It has given way for so long that it will go on to get on. */
static bool is_calm(const struct giveway_pair *pair, uint64_t now_ns)
{
	return now_ns - pair->changed_ns > pair->hold_ns * CALM;
}

static void compete(struct giveway_pair *pair, uint64_t now_ns)
{
	uint64_t hold_ns = is_calm(pair, now_ns) ? 0 : pair->hold_ns * 2;
	if (hold_ns < HOLD_LEAST_NS)
		hold_ns = HOLD_LEAST_NS;
	pair->hold_ns = hold_ns < HOLD_MOST_NS ? hold_ns : HOLD_MOST_NS;
	pair->changed_ns = now_ns;
	pair->until_ns = now_ns + pair->hold_ns;
	lift(pair);
}

static void give_way(struct giveway_pair *pair, uint64_t now_ns)
{
	atomic_store(&pair->competes, false);
	pair->changed_ns = now_ns;
	set_policies(pair, SCHED_IDLE);
}

/* Does what is due; when to look again. */
static uint64_t look(struct giveway_pair *pair, uint64_t now_ns)
{
	uint64_t due_ns = atomic_load_explicit(&pair->due_ns, memory_order_relaxed);
	bool late = now_ns > due_ns;
	if (late && !pair->competes)
		compete(pair, now_ns);
	else if (late) /* still: one may have been made since */
		lift(pair);
	else if (pair->competes && now_ns >= pair->until_ns)
		give_way(pair, now_ns);
	if (pair->competes)
		return pair->until_ns > now_ns ? pair->until_ns : now_ns + HOLD_LEAST_NS;
	uint64_t soonest_ns = now_ns + (is_calm(pair, now_ns) ? LOOK_CALM_NS : LOOK_RESTLESS_NS);
	return due_ns < soonest_ns ? soonest_ns : due_ns + 1;
}

static void wait_until(struct giveway *giveway, uint64_t until_ns)
{
	if (until_ns == UINT64_MAX) {
		pthread_cond_wait(&giveway->changed, &giveway->lock);
		return;
	}
	const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
				       .tv_nsec = (long)(until_ns % 1000000000u)};
	pthread_cond_timedwait(&giveway->changed, &giveway->lock, &until);
}

static void *mind(void *arg)
{
	struct giveway *giveway = arg;
	pthread_mutex_lock(&giveway->lock);
	while (!giveway->stopping) {
		uint64_t now_ns = clock_steady_ns(), next_ns = UINT64_MAX;
		for (struct giveway_pair *pair = giveway->pairs; pair; pair = pair->next) {
			uint64_t at_ns = look(pair, now_ns);
			next_ns = at_ns < next_ns ? at_ns : next_ns;
		}
		wait_until(giveway, next_ns);
	}
	pthread_mutex_unlock(&giveway->lock);
	return NULL;
}

/* In a thread of its own: who may not come back stays as it is. */
static void *try_it(void *arg)
{
	const struct sched_param none = {0};
	bool *may = arg;
	*may = sched_getscheduler(0) == SCHED_OTHER && !sched_setscheduler(0, SCHED_IDLE, &none) &&
	       !sched_setscheduler(0, SCHED_OTHER, &none);
	return NULL;
}

static bool may_come_back(void)
{
	pthread_t thread;
	bool may = false;
	return !thread_start(&thread, try_it, &may) && !pthread_join(thread, NULL) && may;
}

struct giveway *giveway_new(void)
{
	if (!may_come_back())
		return NULL;
	struct giveway *giveway = tm_alloc(sizeof *giveway);
	if (!giveway)
		return NULL;
	pthread_condattr_t steady;
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_mutex_init(&giveway->lock, NULL);
	pthread_cond_init(&giveway->changed, &steady);
	pthread_condattr_destroy(&steady);
	if (!thread_start(&giveway->minder, mind, giveway))
		return giveway;
	pthread_cond_destroy(&giveway->changed);
	pthread_mutex_destroy(&giveway->lock);
	return tm_free(giveway);
}

struct giveway *giveway_free(struct giveway *giveway)
{
	if (!giveway)
		return NULL;
	pthread_mutex_lock(&giveway->lock);
	giveway->stopping = true;
	pthread_cond_signal(&giveway->changed);
	pthread_mutex_unlock(&giveway->lock);
	pthread_join(giveway->minder, NULL);
	pthread_cond_destroy(&giveway->changed);
	pthread_mutex_destroy(&giveway->lock);
	return tm_free(giveway);
}

/* Where it is linked, or the list's end. With the lock held. */
static struct giveway_pair **find(struct giveway *giveway, const struct giveway_pair *pair)
{
	struct giveway_pair **at = &giveway->pairs;
	while (*at && *at != pair)
		at = &(*at)->next;
	return at;
}

/*
 * Who gives way may not get a processor for long, so nobody does while he holds a lock for which
 * the minder waits: neither ours, nor the one that glibc has for each thread's policy.
 */
static void set_own_policy(int policy)
{
	const struct sched_param none = {0};
	(void)sched_setscheduler(0, policy, &none);
}

/* The minder may have us give way until it lets go of the lock. */
static void lock_as_others_do(struct giveway *giveway)
{
	set_own_policy(SCHED_OTHER);
	pthread_mutex_lock(&giveway->lock);
	set_own_policy(SCHED_OTHER);
}

/* Meanwhile all may compete or have left: that is said before it is done. */
static void give_way_myself(const struct giveway_pair *pair)
{
	set_own_policy(SCHED_IDLE);
	if (!giveway_gives_way(pair))
		set_own_policy(SCHED_OTHER);
}

void giveway_join(struct giveway *giveway, struct giveway_pair *pair, pthread_t other,
		  uint64_t due_ns)
{
	if (!giveway)
		return;
	giveway_get_on(pair, due_ns);
	pthread_mutex_lock(&giveway->lock);
	pair->threads[0] = pthread_self();
	pair->threads[1] = other;
	if (pair->count < 2)
		pair->count = 2;
	pair->hold_ns = 0;
	pair->changed_ns = clock_steady_ns();
	for (unsigned i = 1; i < pair->count; i++)
		set_policy(pair->threads[i], SCHED_IDLE);
	pair->next = giveway->pairs;
	giveway->pairs = pair;
	atomic_store(&pair->joined, true);
	pthread_cond_signal(&giveway->changed);
	pthread_mutex_unlock(&giveway->lock);
	give_way_myself(pair);
}

void giveway_also(struct giveway *giveway, struct giveway_pair *pair)
{
	if (!giveway)
		return;
	pthread_mutex_lock(&giveway->lock);
	pair->threads[2] = pthread_self();
	pair->count = 3;
	pthread_mutex_unlock(&giveway->lock);
	if (giveway_gives_way(pair))
		give_way_myself(pair);
}

void giveway_no_more(struct giveway *giveway, struct giveway_pair *pair)
{
	if (!giveway)
		return;
	lock_as_others_do(giveway);
	pair->count = 2;
	pthread_mutex_unlock(&giveway->lock);
}

void giveway_hurry(struct giveway *giveway, struct giveway_pair *pair)
{
	if (!giveway)
		return;
	lock_as_others_do(giveway);
	uint64_t now_ns = clock_steady_ns();
	if (*find(giveway, pair) && !pair->competes) {
		compete(pair, now_ns);
		pthread_cond_signal(&giveway->changed);
	}
	if (pair->until_ns < now_ns + HURRY_NS)
		pair->until_ns = now_ns + HURRY_NS;
	pthread_mutex_unlock(&giveway->lock);
}

void giveway_leave(struct giveway *giveway, struct giveway_pair *pair)
{
	if (!giveway)
		return;
	lock_as_others_do(giveway);
	struct giveway_pair **at = find(giveway, pair);
	if (*at) {
		*at = pair->next;
		atomic_store(&pair->joined, false);
		set_policies(pair, SCHED_OTHER);
	}
	pthread_mutex_unlock(&giveway->lock);
}

/* ---- apart ---- */

struct errand {
	giveway_work_fn work;
	void *ctx;
	sem_t done;
};

static void *run_errand(void *arg)
{
	struct errand *errand = arg;
	errand->work(errand->ctx);
	/* From here on the minder does not know of us, and somebody waits for our end. */
	set_own_policy(SCHED_OTHER);
	sem_post(&errand->done);
	return NULL;
}

/*
 * The minder must not touch a thread that is gone, and waits for nobody who may not get a
 * processor. So each says what it is about to do, then looks at what the other has said: never do
 * both miss the other.
 */
static void show(struct giveway_pair *pair, pthread_t thread)
{
	pair->apart = thread;
	atomic_store(&pair->has_apart, true);
	/* It was made before it could be seen. */
	if (atomic_load(&pair->competes))
		set_policy(thread, SCHED_OTHER);
}

static void hide(struct giveway_pair *pair)
{
	atomic_store(&pair->has_apart, false);
	while (atomic_load(&pair->minded))
		sched_yield();
}

void giveway_apart(struct giveway_pair *pair, giveway_work_fn work, void *ctx)
{
	struct errand errand = {.work = work, .ctx = ctx};
	pthread_t thread;
	sem_init(&errand.done, 0, 0);
	if (thread_start(&thread, run_errand, &errand)) {
		work(ctx);
	} else {
		show(pair, thread);
		while (sem_wait(&errand.done))
			;
		hide(pair);
		pthread_join(thread, NULL);
	}
	sem_destroy(&errand.done);
}
