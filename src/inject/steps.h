/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: the steps of going in and out at which tidemark may be killed. With
 * TIDEMARK_TEST_KILL=recorder:STEP the process that the user sees is killed when
 * the tracer gets there, with tracer:STEP the tracer itself, with target:STEP the
 * program. TIDEMARK_TEST_RACE=STEP: there the program is otherwise than it was.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct steps {
	const char *name; /* where; NULL: nowhere */
	const char *race;
	pid_t victim;
	int recorder_fd; /* hangs up when the recorder is dead; -1: another is killed */
};

/* What the environment asks for. The tracer calls it. */
void steps_init(struct steps *steps, pid_t target, pid_t recorder, int recorder_fd);
void steps_reach(struct steps *steps, const char *name);
/* Once, if the environment asks for it: what was found is not there any more. */
bool steps_race(struct steps *steps, const char *name);
