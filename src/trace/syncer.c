/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/syncer.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

void syncer_init(struct syncer *syncer, int fd)
{
	*syncer = (struct syncer){.fd = fd};
	pthread_mutex_init(&syncer->lock, NULL);
	pthread_cond_init(&syncer->asked, NULL);
}

static void *run(void *arg)
{
	struct syncer *syncer = arg;
	pthread_mutex_lock(&syncer->lock);
	while (syncer->wanted || !syncer->stopping) {
		if (!syncer->wanted) {
			pthread_cond_wait(&syncer->asked, &syncer->lock);
			continue;
		}
		syncer->wanted = false;
		pthread_mutex_unlock(&syncer->lock);
		/* If it fails, so will the next write, which is told; this was a precaution. */
		(void)fdatasync(syncer->fd);
		pthread_mutex_lock(&syncer->lock);
	}
	pthread_mutex_unlock(&syncer->lock);
	return NULL;
}

/* An ordinary thread, also where the one that asks first gives way to all others. */
static bool create(struct syncer *syncer)
{
	pthread_attr_t ordinary;
	if (pthread_attr_init(&ordinary))
		return false;
	bool created = !pthread_attr_setinheritsched(&ordinary, PTHREAD_EXPLICIT_SCHED) &&
		       !pthread_attr_setschedpolicy(&ordinary, SCHED_OTHER) &&
		       !pthread_create(&syncer->thread, &ordinary, run, syncer);
	pthread_attr_destroy(&ordinary);
	return created || !pthread_create(&syncer->thread, NULL, run, syncer);
}

/* Without a thread the system writes in its own time. With the lock held. */
static void start(struct syncer *syncer)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	syncer->running = create(syncer);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void syncer_ask(struct syncer *syncer)
{
	pthread_mutex_lock(&syncer->lock);
	syncer->wanted = true;
	if (!syncer->running)
		start(syncer);
	pthread_cond_signal(&syncer->asked);
	pthread_mutex_unlock(&syncer->lock);
}

void syncer_done(struct syncer *syncer)
{
	pthread_mutex_lock(&syncer->lock);
	bool running = syncer->running;
	syncer->stopping = true;
	pthread_cond_signal(&syncer->asked);
	pthread_mutex_unlock(&syncer->lock);
	if (running)
		pthread_join(syncer->thread, NULL);
	pthread_cond_destroy(&syncer->asked);
	pthread_mutex_destroy(&syncer->lock);
}
