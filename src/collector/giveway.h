/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that record give way: while anybody else wants their processor
 * they do not have it (SCHED_IDLE). What a recorder costs is more than its time.
 * Where a program and its partner (a client, a server) fill the processors, a
 * wake-up of the partner finds its own one busy with us, lays it beside the
 * program, and there it stays long after we sleep again. A processor on which
 * only such threads run counts as free.
 *
 * But the program waits for us when the pool is full, and the file must not be
 * far behind. So a *minder* looks whether a pair of threads that gives way gets
 * on, and has it compete like any other where it does not: for a while, which is
 * longer each time. A machine without an idle moment is thus found out at once.
 *
 * To compete again takes a right (CAP_SYS_NICE, or RLIMIT_NICE). Without it
 * nobody gives way.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct giveway;

/* Who gives way together: a drain thread and the thread that writes for it, which waits for its
 * locks. */
struct giveway_pair {
	_Atomic uint64_t due_ns; /* CLOCK_MONOTONIC: until then it says that it gets on */
	/* Under the minder's lock. */
	pthread_t threads[2];
	struct giveway_pair *next;
	bool competes;
	uint64_t changed_ns, hold_ns; /* since when, and how long it competes at least */
};

/* NULL: nobody gives way, for want of the right or of memory. The rest accepts that. */
struct giveway *giveway_new(void);
/* All have left. Accepts NULL, returns NULL. */
struct giveway *giveway_free(struct giveway *giveway);

/*
 * The calling thread and `other` give way from now on, until giveway_leave(),
 * which must come before either ends. due_ns: as for giveway_get_on().
 */
void giveway_join(struct giveway *giveway, struct giveway_pair *pair, pthread_t other,
		  uint64_t due_ns);
/* They compete like any other. No harm if they have left before. */
void giveway_leave(struct giveway *giveway, struct giveway_pair *pair);

/* What it does cannot wait: the pair competes for a while. Nothing if it has left. Thread-safe. */
void giveway_hurry(struct giveway *giveway, struct giveway_pair *pair);

/* The pair gets on, and will say so again before due_ns (CLOCK_MONOTONIC). Costs a store. */
static inline void giveway_get_on(struct giveway_pair *pair, uint64_t due_ns)
{
	atomic_store_explicit(&pair->due_ns, due_ns, memory_order_relaxed);
}
