/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says about a process that is to be entered: its state, its threads,
 * its mappings. A process whose first thread has ended shows nothing under
 * /proc/PID; then a thread that lives is asked (/proc/PID/task/TID). The parsers
 * take text, so that tests can give them any.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From status. */
struct proc_status {
	char state;   /* R S D T t Z X I */
	pid_t group;  /* Tgid: the process */
	pid_t tracer; /* 0: nobody */
	pid_t inner;  /* its number in its own pid namespace; 0 unknown */
	uid_t uid[4]; /* real, effective, saved, file system */
	int seccomp;  /* 0 none, 1 strict, 2 filters */
	unsigned filters;
	uint64_t capabilities; /* effective */
	bool no_new_privileges;
	bool kernel_thread; /* it has no memory of its own */
	char name[64];
};
/* False: that is no status. */
bool proc_status_parse(const char *text, struct proc_status *ret);
TM_MUST_CHECK int proc_status_read(pid_t tid, struct proc_status *ret);

/* A mapping. */
struct proc_map {
	uint64_t start, end, offset;
	uint64_t device, inode; /* 0: no file */
	bool readable, writable, executable, shared;
	const char *path; /* borrowed from the list; "" none */
};
struct proc_maps {
	struct proc_map *maps; /* by rising address */
	size_t count;
	char *text; /* private */
};
/* text: taken over (from tm_alloc), also on failure. */
TM_MUST_CHECK int proc_maps_parse(char *text, struct proc_maps *ret);
TM_MUST_CHECK int proc_maps_read(pid_t pid, pid_t tid, struct proc_maps *ret);
void proc_maps_done(struct proc_maps *maps);
/* Borrowed, or NULL. O(log n). */
const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t address);

/* Thread ids, rising; released with tm_free(). -ESRCH: the process is gone. */
TM_MUST_CHECK int proc_threads(pid_t pid, pid_t **ret_tids, size_t *ret_count);
/* State of a thread as in status; 0: it is gone. */
char proc_thread_state(pid_t pid, pid_t tid);
/* A thread that has not ended: the first, or one that sleeps; 0: none. */
pid_t proc_live_thread(pid_t pid);
/* When the process was started, in ticks since boot; 0 unknown. */
uint64_t proc_start_ticks(pid_t pid);

/* The auxiliary vector: at most `words` of it, in pairs; returns how many, or -errno. */
int proc_auxv(pid_t pid, pid_t tid, uint64_t *ret, size_t words);
/* The value of one entry; 0: none. */
uint64_t proc_auxv_find(const uint64_t *words, size_t count, uint64_t type);

/* A file in /proc of a live thread of the process. */
void proc_path(char *ret, size_t room, pid_t pid, pid_t tid, const char *name);

/* Its name, or the last part of its program's path, is `name`. */
bool proc_is_named(pid_t pid, const char *name);
/* Processes that are. As proc_threads(). */
TM_MUST_CHECK int proc_named(const char *name, pid_t **ret_pids, size_t *ret_count);
