/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forces what was written to the disk, in a thread of its own: that may take
 * seconds, for which the writing thread must not stand still. The thread is
 * there only from the first time on that it is asked.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct syncer {
	int fd;
	pthread_t thread;
	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t asked;
	bool running, wanted, stopping;
};

/* fd is borrowed. */
void syncer_init(struct syncer *syncer, int fd);
/* What has been written so far shall be on the disk. Does not wait. */
void syncer_ask(struct syncer *syncer);
/* Waits for the thread. */
void syncer_done(struct syncer *syncer);
