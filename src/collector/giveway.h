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
 * locks; and one that looks after them. */
struct giveway_pair {
	_Atomic uint64_t due_ns; /* CLOCK_MONOTONIC: until then it says that it gets on */
	_Atomic bool joined, competes;
	/* A third one, for a moment: giveway_apart(). */
	pthread_t apart;
	_Atomic bool has_apart, minded; /* it is there; the minder is with it */
	/* Under the minder's lock. */
	pthread_t threads[3];
	unsigned count;
	struct giveway_pair *next;
	uint64_t changed_ns, hold_ns; /* since when; how long it competes where it was late */
	uint64_t until_ns;            /* it competes so long at least */
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

/* So does the calling thread, while they do, until giveway_no_more(), which must come before it
 * ends.
 */
void giveway_also(struct giveway *giveway, struct giveway_pair *pair);
void giveway_no_more(struct giveway *giveway, struct giveway_pair *pair);

/* What it does cannot wait: the pair competes for a while from now on. Nothing if it has left.
 * Thread-safe. */
void giveway_hurry(struct giveway *giveway, struct giveway_pair *pair);

/*
 * Does the work in a thread of its own, which belongs to the pair meanwhile; in the calling one,
 * the pair's first, where there is none to be had. Also where nobody gives way.
 *
 * The kernel counts what a thread has done of late against its processor while it sleeps there, a
 * hundred milliseconds long, and looks for an idle one only where the sum is small. What a thread
 * did that has ended is forgotten at once. Costs some 20 us.
 */
typedef void (*giveway_work_fn)(void *ctx);
void giveway_apart(struct giveway_pair *pair, giveway_work_fn work, void *ctx);

/* Does it, as far as can be known without the lock? Where nobody gives way it never does. */
static inline bool giveway_gives_way(const struct giveway_pair *pair)
{
	return atomic_load(&pair->joined) && !atomic_load(&pair->competes);
}

/* The pair gets on, and will say so again before due_ns (CLOCK_MONOTONIC). Costs a store. */
static inline void giveway_get_on(struct giveway_pair *pair, uint64_t due_ns)
{
	atomic_store_explicit(&pair->due_ns, due_ns, memory_order_relaxed);
}
