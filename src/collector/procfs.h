/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says about a process. Any call may block for as long as the kernel likes. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct procfs_memory {
	uint64_t rss_bytes, pss_bytes, anon_bytes; /* 0 unknown */
};

/* All but pss_bytes, from statm: cheap. False when the process is gone. */
bool procfs_resident(pid_t pid, struct procfs_memory *ret);
/* From smaps_rollup: walks the page tables. */
bool procfs_rollup(pid_t pid, struct procfs_memory *ret);
/* Anonymous and shared memory: what no file is behind. 0 when the process is gone. */
uint64_t procfs_held_bytes(pid_t pid);
/* The most that was ever resident of this program, not of one that was before it in the process. */
uint64_t procfs_peak_bytes(pid_t pid);
/* procfs_held_bytes(), with that of the processes that it started. */
uint64_t procfs_held_with_children(pid_t pid);
/* Has the process seccomp filters that we have not? (In a container both may have the same.) */
bool procfs_seccomp_added(pid_t pid);
pid_t procfs_parent(pid_t pid);
/* Stopped by a signal (not by a debugger). */
bool procfs_is_stopped(pid_t pid);
/* Its number in its own pid namespace; 0 when that cannot be told. */
pid_t procfs_inner_pid(pid_t pid);
/* When it was started, as clock_wall_ns() counts; to a hundredth of a second. */
bool procfs_start_time(pid_t pid, uint64_t *ret_wall_ns);
/* Was the signal sent to the process, and not taken yet? */
bool procfs_signal_waits(pid_t pid, int signal);
/* The name of a thread, NUL-terminated. */
bool procfs_thread_name(pid_t pid, pid_t tid, char ret_name[16]);

/*
 * Thread ids as the process itself sees them (it may be in a pid namespace of
 * its own), sorted; released with tm_free(). -errno when the process is gone.
 */
TM_MUST_CHECK int procfs_threads(pid_t pid, bool own_namespace, uint32_t **ret_tids,
				 size_t *ret_count);
/*
 * How a process ended that is another's child, as waitpid says it: while nobody
 * has waited for it, or (from Linux 6.15 on) also after.
 */
bool procfs_exit_status(pid_t pid, int pidfd, int *ret_wait_status);
/* Is the process in another pid namespace than we are? */
bool procfs_other_namespace(pid_t pid);
/* Its command line, quoted as a shell wants it; "" when that cannot be read. tm_free(). */
char *procfs_command(pid_t pid);
