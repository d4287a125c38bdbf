/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/steps.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEATH_MS = 10 * 1000 };

void steps_init(struct steps *steps, pid_t target, pid_t recorder, int recorder_fd)
{
	const char *wanted = getenv("TIDEMARK_TEST_KILL");
	*steps = (struct steps){.victim = getpid(), .recorder_fd = -1};
	if (wanted && !strncmp(wanted, "recorder:", 9))
		*steps = (struct steps){
			.name = wanted + 9, .victim = recorder, .recorder_fd = recorder_fd};
	else if (wanted && !strncmp(wanted, "tracer:", 7))
		steps->name = wanted + 7;
	else if (wanted && !strncmp(wanted, "target:", 7))
		*steps = (struct steps){.name = wanted + 7, .victim = target, .recorder_fd = -1};
	steps->race = getenv("TIDEMARK_TEST_RACE");
}

bool steps_race(struct steps *steps, const char *name)
{
	bool now = steps->race && !strcmp(steps->race, name);
	if (now)
		steps->race = NULL;
	return now;
}

void steps_reach(struct steps *steps, const char *name)
{
	if (!steps->name || strcmp(steps->name, name) != 0)
		return;
	struct pollfd dead = {.fd = steps->recorder_fd};
	steps->name = NULL;
	kill(steps->victim, SIGKILL);
	if (steps->recorder_fd >= 0)
		poll(&dead, 1, DEATH_MS);
}
