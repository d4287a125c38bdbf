/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at memory for pressure.h: the control groups of the program and of the
 * recorder, and what the recorder itself has. Belongs to the watch thread, since
 * all of it may block.
 */
#pragma once

#include "collector/pressure.h"

#include <poll.h>

enum { LOOKOUT_ALARMS = 3 };

/*
 * Where the program stood when it surely lived: found later, a program that was killed at once
 * would be in no group, and its own end among the kills before.
 */
struct lookout_start {
	struct cgroup program;
	uint64_t oom_kills;
};
void lookout_find(pid_t pid, struct lookout_start *ret);

struct lookout_options {
	const struct lookout_start *start; /* outlives the lookout */
	pid_t helper;                      /* the process that looks up names; 0 none */
	uint64_t max_bytes;                /* --max-memory; 0 none */
};

struct lookout {
	struct lookout_options options;
	const struct cgroup *program;
	struct cgroup own;
	bool same; /* they are one */
	struct pressure pressure;
	struct pressure_look look; /* the last */
	uint64_t next_ns;
	int alarms[LOOKOUT_ALARMS]; /* -1: none */
};

void lookout_init(struct lookout *lookout, const struct lookout_options *options);
void lookout_done(struct lookout *lookout);
/* What the kernel may wake us by: LOOKOUT_ALARMS entries. */
void lookout_polls(const struct lookout *lookout, struct pollfd *polls);
/* After poll(): a look is due at once if one of them rang. */
void lookout_heard(struct lookout *lookout, const struct pollfd *polls);
/* Looks, if it is time. False: nothing is to be done. */
bool lookout_check(struct lookout *lookout, uint64_t now_ns, struct pressure_verdict *ret);
/* Does the last look say that there is a limit? */
bool lookout_has_limit(const struct lookout *lookout);
/* Kills by the kernel for lack of memory in the program's group since the beginning. */
uint64_t lookout_oom_kills(const struct lookout *lookout);
