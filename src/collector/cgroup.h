/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process's control group, version 1 or 2. A limit may stand on
 * any level above the process; the one that leaves the least room is the one
 * that counts. Any call may block for as long as the kernel likes.
 *
 * Known limits: limits above the root of our own cgroup namespace cannot be seen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CGROUP_LEVELS = 12, CGROUP_PATH = 400 };

struct cgroup {
	unsigned version; /* 1 or 2; 0: none */
	unsigned level_count;
	char levels[CGROUP_LEVELS][CGROUP_PATH]; /* folders, the process's own first */
};

/* Of a process. version stays 0 where there is none. */
void cgroup_find(pid_t pid, struct cgroup *ret);
/*
 * The same from the text of /proc/PID/cgroup and the folder where the control groups are mounted:
 * below it "memory/..." is version 1.
 */
void cgroup_find_in(const char *root, const char *text, struct cgroup *ret);

struct cgroup_memory {
	/* Of the level with the least room; without any limit, of the process's own. 0 unknown. */
	uint64_t current_bytes;
	uint64_t limit_bytes; /* 0 none; so are the next two then */
	uint64_t used_bytes;  /* without pages of files that the kernel may drop */
	uint64_t hits;        /* how often the limit was met; 0 unknown */
};
void cgroup_memory(const struct cgroup *group, struct cgroup_memory *ret);
/* Kills by the kernel for lack of memory among the process's own group. */
uint64_t cgroup_oom_kills(const struct cgroup *group);

/*
 * Wakes a poll() when the memory of the level with the limit comes near it: the descriptor, or
 * -errno where the kernel or its rights do not allow it. Poll for POLLIN | POLLPRI; then call
 * cgroup_alarm_seen().
 */
int cgroup_alarm(const struct cgroup *group, unsigned percent);
void cgroup_alarm_seen(int fd);
