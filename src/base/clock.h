/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks the tools use, in nanoseconds. Thread-safe, cannot fail. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t id)
{
	struct timespec now = {0};
	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Rises steadily; for intervals and deadlines. */
static inline uint64_t clock_steady_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* Since 1970, UTC; may jump when the clock is set. */
static inline uint64_t clock_wall_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

/* CPU time of all threads of this process. */
static inline uint64_t clock_cpu_ns(void)
{
	return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* CPU time of the calling thread. */
static inline uint64_t clock_thread_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}
