/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enters a process and leaves it again, many times, without a collector: events
 * that nobody reads are dropped. For tests of survival and for the bench of
 * pauses.
 *
 *	attach_cycles AGENT PID COUNT [MICROSECONDS BETWEEN]
 *
 * Prints one line: how often, the pauses in microseconds (median, 90 %, most) of
 * entering and of leaving, and how many places to come back to were moved.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "collector/shm.h"
#include "inject/inject.h"

struct samples {
	uint64_t *enter_ns, *leave_ns, *borrow_ns;
	unsigned moved;
};

static int fill(void *ctx, const char *path, struct tm_error *err)
{
	struct shm *shm = ctx;
	struct shm_options options = {.options = WIRE_OPT_DROP, .state = WIRE_IDLE};
	int error = shm_open_at(shm, &options, path, err);
	shm_close_fd(shm);
	return error;
}

static int cycle(const struct inject_options *options, unsigned pause_us, size_t number,
		 struct samples *samples, struct tm_error *err)
{
	struct inject *inject = NULL;
	struct shm shm = {.fd = -1};
	int error = inject_open(options, &inject, err);
	if (error)
		return error;
	error = inject_enter(inject, fill, &shm, err);
	if (!error)
		atomic_store(&shm.map.control->state, WIRE_RECORD);
	if (!error)
		error = inject_patch(inject, err);
	if (!error) {
		usleep(pause_us);
		error = inject_leave(inject, err);
		atomic_store(&shm.map.control->state, WIRE_OFF);
	}
	const struct inject_facts *facts = inject_facts(inject);
	samples->enter_ns[number] = facts->enter_pause_ns;
	samples->leave_ns[number] = facts->leave_pause_ns;
	samples->borrow_ns[number] = facts->borrow_ns;
	samples->moved += facts->moved;
	shm_empty(&shm);
	shm_close(&shm);
	inject_close(inject);
	return error;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void print(const char *name, uint64_t *ns, size_t count)
{
	qsort(ns, count, sizeof *ns, compare);
	printf(" %s %.0f %.0f %.0f", name, (double)ns[count / 2] / 1e3,
	       (double)ns[count * 9 / 10] / 1e3, (double)ns[count - 1] / 1e3);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	size_t count = strtoul(argv[3], NULL, 10), done = 0;
	unsigned pause_us = argc > 4 ? (unsigned)atoi(argv[4]) : 2000;
	struct inject_options options = {.pid = atoi(argv[2]), .agent_path = argv[1]};
	struct samples samples = {.enter_ns = tm_alloc_array(count + 1, 8),
				  .leave_ns = tm_alloc_array(count + 1, 8),
				  .borrow_ns = tm_alloc_array(count + 1, 8)};
	struct tm_error err = {0};
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	if (!samples.enter_ns || !samples.leave_ns || !samples.borrow_ns || !count)
		return 2;
	while (done < count && !cycle(&options, pause_us, done, &samples, &err))
		done++;
	printf("cycles %zu of %zu", done, count);
	if (done) {
		print("enter", samples.enter_ns, done);
		print("leave", samples.leave_ns, done);
		print("borrow", samples.borrow_ns, done);
	}
	printf(" moved %u\n", samples.moved);
	if (done < count)
		printf("error: %s\n", err.text);
	puts("end of cycles");
	tm_free(samples.enter_ns);
	tm_free(samples.leave_ns);
	tm_free(samples.borrow_ns);
	return done == count ? 0 : 1;
}
