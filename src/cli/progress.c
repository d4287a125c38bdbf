/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"

enum { FIRST_NS = 500000000, STEP_NS = 100000000 };

/* A signal handler has no other place to put it. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

void progress_watch(struct progress *progress, const char *verb, const char *unit)
{
	*progress = (struct progress){.verb = verb, .unit = unit, .start_ns = clock_steady_ns()};
	progress->last_ns = progress->start_ns + FIRST_NS - STEP_NS;
	progress->terminal = isatty(STDERR_FILENO);
}

void progress_begin(struct progress *progress, const char *verb, const char *unit)
{
	progress_watch(progress, verb, unit);
	interrupted = 0;
	/* The second one ends the tool, should the work not stop at the first. */
	struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
	sigaction(SIGINT, &action, NULL);
}

static void show(struct progress *progress, uint64_t now_ns, uint64_t done, uint64_t all)
{
	uint64_t took_ns = now_ns - progress->start_ns;
	double seconds = (double)took_ns / 1e9;
	double part = all ? (double)done / (double)all : 0;
	if (part > 1)
		part = 1;
	fprintf(stderr, "\r\033[K%s: %.0f %%, %s %s/s", progress->verb, part * 100,
		units_count((uint64_t)((double)done / seconds)).text, progress->unit);
	if (part > 0.01)
		fprintf(stderr, ", %s left",
			units_duration((uint64_t)((double)took_ns * (1 - part) / part)).text);
	fflush(stderr);
	progress->shown = true;
}

int progress_tell(struct progress *progress, uint64_t done, uint64_t all)
{
	if (interrupted)
		return -ECANCELED;
	if (!progress->terminal)
		return 0;
	uint64_t now_ns = clock_steady_ns();
	if (now_ns - progress->last_ns < STEP_NS || now_ns < progress->last_ns)
		return 0;
	progress->last_ns = now_ns;
	show(progress, now_ns, done, all);
	return 0;
}

int progress_tell_fn(void *ctx, uint64_t done, uint64_t all)
{
	return progress_tell(ctx, done, all);
}

void progress_end(struct progress *progress)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigaction(SIGINT, &action, NULL);
	if (progress->shown)
		fputs("\r\033[K", stderr);
}
