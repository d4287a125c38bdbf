/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/giveway.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

enum {
	HOLD_LEAST_NS = 50 * 1000 * 1000,
	LOOK_LEAST_NS = 2 * 1000 * 1000, /* between two looks */
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
static void set_policy(const struct giveway_pair *pair, int policy)
{
	const struct sched_param none = {0};
	for (int i = 0; i < 2; i++)
		(void)pthread_setschedparam(pair->threads[i], policy, &none);
}

static void compete(struct giveway_pair *pair, uint64_t now_ns)
{
	bool calm = now_ns - pair->changed_ns > pair->hold_ns * CALM;
	uint64_t hold_ns = calm ? HOLD_LEAST_NS : pair->hold_ns * 2;
	pair->hold_ns = hold_ns < HOLD_MOST_NS ? hold_ns : HOLD_MOST_NS;
	pair->competes = true;
	pair->changed_ns = now_ns;
	set_policy(pair, SCHED_OTHER);
}

static void give_way(struct giveway_pair *pair, uint64_t now_ns)
{
	pair->competes = false;
	pair->changed_ns = now_ns;
	set_policy(pair, SCHED_IDLE);
}

/* Does what is due; when to look again. */
static uint64_t look(struct giveway_pair *pair, uint64_t now_ns)
{
	uint64_t due_ns = atomic_load_explicit(&pair->due_ns, memory_order_relaxed);
	bool late = now_ns > due_ns;
	if (late && !pair->competes)
		compete(pair, now_ns);
	else if (!late && pair->competes && now_ns >= pair->changed_ns + pair->hold_ns)
		give_way(pair, now_ns);
	if (!pair->competes)
		return due_ns + 1;
	uint64_t end_ns = pair->changed_ns + pair->hold_ns;
	return end_ns > now_ns ? end_ns : now_ns + HOLD_LEAST_NS;
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
		if (next_ns < now_ns + LOOK_LEAST_NS)
			next_ns = now_ns + LOOK_LEAST_NS;
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
	return !pthread_create(&thread, NULL, try_it, &may) && !pthread_join(thread, NULL) && may;
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
	if (!pthread_create(&giveway->minder, NULL, mind, giveway))
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

void giveway_join(struct giveway *giveway, struct giveway_pair *pair, pthread_t other,
		  uint64_t due_ns)
{
	if (!giveway)
		return;
	giveway_get_on(pair, due_ns);
	pthread_mutex_lock(&giveway->lock);
	pair->threads[0] = pthread_self();
	pair->threads[1] = other;
	pair->hold_ns = HOLD_LEAST_NS;
	pair->next = giveway->pairs;
	giveway->pairs = pair;
	give_way(pair, clock_steady_ns());
	pthread_cond_signal(&giveway->changed);
	pthread_mutex_unlock(&giveway->lock);
}

/* Where it is linked, or the list's end. With the lock held. */
static struct giveway_pair **find(struct giveway *giveway, const struct giveway_pair *pair)
{
	struct giveway_pair **at = &giveway->pairs;
	while (*at && *at != pair)
		at = &(*at)->next;
	return at;
}

void giveway_hurry(struct giveway *giveway, struct giveway_pair *pair)
{
	if (!giveway)
		return;
	pthread_mutex_lock(&giveway->lock);
	if (*find(giveway, pair) && !pair->competes)
		compete(pair, clock_steady_ns());
	pthread_cond_signal(&giveway->changed);
	pthread_mutex_unlock(&giveway->lock);
}

void giveway_leave(struct giveway *giveway, struct giveway_pair *pair)
{
	if (!giveway)
		return;
	pthread_mutex_lock(&giveway->lock);
	struct giveway_pair **at = find(giveway, pair);
	if (*at) {
		*at = pair->next;
		set_policy(pair, SCHED_OTHER);
	}
	pthread_mutex_unlock(&giveway->lock);
}
