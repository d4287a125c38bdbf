/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that looks at a recorded process from outside: resident memory,
 * cgroup, thread names, threads that are gone, seccomp. All of /proc is read
 * here, because /proc may block (a process in uninterruptible sleep holds its
 * locks) and the drain thread must not.
 */
#pragma once

#include "base/error.h"
#include "collector/giveway.h"
#include "collector/lookout.h"
#include "trace/records.h"
#include "wire/pool.h"

#include <sys/types.h>

struct watch;

struct watch_options {
	pid_t pid;                         /* as this process sees it */
	const struct wire_map *map;        /* outlives the watch */
	const struct lookout_start *start; /* outlives the watch */
	_Atomic uint32_t *dead;            /* per stream slot: tid that is gone */
	uint64_t origin_ns;                /* CLOCK_MONOTONIC at time 0 of the section */
	pid_t helper;                      /* the process that looks up names; 0 none */
	uint64_t max_memory_bytes;         /* of the recorder; 0 no limit */
	_Atomic bool *urgent;              /* set when a note cannot wait for the next tick */
	struct giveway *giveway;           /* of the drain thread, which then must not wait */
	struct giveway_pair *pair;
};

TM_MUST_CHECK int watch_start(const struct watch_options *options, struct watch **ret_watch,
			      struct tm_error *err);
/* Joins the thread. Accepts NULL, returns NULL. */
struct watch *watch_stop(struct watch *watch);

/* Look at the threads now: chunks are short. Never blocks. */
void watch_hurry(struct watch *watch);

/* What it has seen since; false when there is nothing (or the other side is just at it). Never
 * blocks. */
struct watch_note {
	enum watch_kind { WATCH_SAMPLE, WATCH_THREAD_NAME, WATCH_MEMORY } kind;
	struct trace_sample sample;
	struct pressure_look look;       /* WATCH_MEMORY: what was seen ... */
	struct pressure_verdict verdict; /* ... and what is to be done */
	uint32_t tid;
	char name[16];
};
bool watch_take(struct watch *watch, struct watch_note *ret_note);

/* Kills by the kernel for lack of memory in the process's cgroup so far. */
uint64_t watch_oom_kills(struct watch *watch);
