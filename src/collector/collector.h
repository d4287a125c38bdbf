/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of recording: run a program, write a trace of each process that is
 * to be recorded, come back when it has ended and all is on disk.
 *
 *   preflight   can it be recorded?          rendezvous  the agent asks for its memory
 *   launch      fork, hold, execute          admit       who gets a trace
 *   section     drain, merge, model, write   recording   a file and its thread
 *   watch       /proc, in a thread apart     signals     passed on, mirrored
 *
 * Prints nothing: cli/cmd_run.c does. One run per process at a time.
 */
#pragma once

#include "base/error.h"
#include "collector/unnamed.h"
#include "model/model.h"
#include "trace/records.h"

#include <stddef.h>
#include <sys/types.h>

/* Called once, when the trace file is open and before the program runs. */
struct plan_hooks; /* inject/plan_hook.h */

typedef void (*collector_started_fn)(void *ctx, const char *path);

/* Called once, when the program executes. */
typedef void (*collector_running_fn)(void *ctx, pid_t pid);

struct inject;

/* Called once where or_run lets the program run unrecorded, just before it does. */
typedef void (*collector_unrecorded_fn)(void *ctx, const struct tm_error *why);

/* Called once if the end has to wait for names; from another thread. */
typedef void (*collector_naming_fn)(void *ctx);

/* What SIGUSR1 to the program does, where it would end it. */
enum collector_usr1 {
	COLLECTOR_USR1_NONE = 0,
	COLLECTOR_USR1_TOGGLE, /* off: the file is complete; on: a new one begins */
	COLLECTOR_USR1_ROTATE, /* the recording goes on in a new file */
};

/* What keeps a recording of days small; 0: not asked for. */
struct collector_bounds {
	uint64_t rotate_ns, rotate_bytes; /* a new file after so long, or from that size on */
	uint32_t keep;                    /* so many of its files stay */
	uint64_t max_memory_bytes;        /* of the recorder: near it, it gives things up */
	uint64_t retain_ns, retain_bytes; /* older events are folded: see trace_writer_options */
	uint64_t cull_ns; /* blocks that live shorter are counted, not stored one by one */
};

struct collector_options {
	char *const *argv;      /* program and arguments, NULL at the end; unless it runs already */
	pid_t pid;              /* collector_attach(): the process */
	const char *agent_path; /* absolute */
	const struct tm_error *no_agent; /* why there is none; NULL: there is one */
	const char *output;              /* pattern (output.h); NULL = default */
	bool force;                      /* overwrite an existing file */
	bool or_run;                     /* what cannot be recorded runs unrecorded */
	bool children;                   /* every descendant gets a trace */
	bool free_stacks, no_addresses, no_symbols;
	bool tell_unnamed;      /* find out which module lacks names */
	bool embed_source;      /* keep the text of the source lines that names lead to */
	uint32_t depth;         /* 0 = all */
	uint64_t time_limit_ns; /* 0 = none */
	uint64_t delay_ns;
	uint64_t max_file_bytes; /* 0 = no limit */
	struct collector_bounds bounds;
	enum collector_usr1 on_usr1;
	unsigned sample_log2;  /* of the interval to sample blocks by; 0: all are recorded */
	uint64_t sample_seed;  /* for tests: the same blocks each time; 0: by chance */
	double max_overhead;   /* share of the program's CPU time; more raises the interval. 0: none
				*/
	bool drop;             /* lose events, and count them, rather than have the program wait */
	double overload_share; /* sample when it waits for longer than this share; 0: never */
	const struct plan_hooks *hooks; /* the user's own entry points; NULL none */
	pid_t follow_pid;             /* collector_follow(): the program that started us; else 0 */
	const char *session;          /* collector_follow(): where it will knock */
	collector_started_fn started; /* may be NULL */
	collector_running_fn running; /* collector_run() only; may be NULL */
	collector_unrecorded_fn unrecorded; /* may be NULL */
	collector_naming_fn naming;         /* may be NULL */
	void *ctx;
};

/* How fast a trace grows. */
struct collector_rate {
	uint64_t bytes_per_hour;
	uint64_t disk_free_bytes;
	uint64_t left_ns; /* until disk or limit are full; 0: not known, or never */
};

/* One trace that was written. */
struct collector_trace {
	char *path;
	char *program;
	pid_t pid;
	uint32_t piece; /* which file of this process, from 1 */
	uint64_t file_bytes;
	struct collector_rate rate;
	uint64_t file_device, file_inode; /* so that no other file is taken for it */
	struct model_totals totals;       /* of the last image */
	uint64_t earlier_events;          /* of the images before it in the file */
	struct trace_end end;
	uint64_t sample_bytes; /* blocks were sampled, by this interval at most; 0: none was */
	uint64_t bad_events;
	unsigned name_warnings;        /* files that could not be used for names */
	char name_warning[512];        /* about the first of them */
	bool names_cut;                /* not all names were looked up */
	struct unnamed_answer unnamed; /* if it was asked for; of the last image */
	bool agent_began;              /* it got the memory to record into */
	bool never_on;                 /* it was over before recording was switched on */
	bool sanitizer;                /* it is built with AddressSanitizer or one of its kin */
	struct tm_error problem;       /* code 0: none */
};

struct collector_result {
	bool ran;          /* the program was started */
	bool plain;        /* unrecorded, which options->unrecorded() was told */
	bool unrecordable; /* it was not started for what it is: or_run would */
	bool recorded;     /* and at least one image of it was recorded */
	int wait_status;   /* as waitpid gives it, when it ran */
	int exit_status;   /* when it did not run: 125, 126 or 127 */
	uint64_t duration_ns;
	struct collector_trace *traces; /* largest first */
	size_t trace_count;
	uint64_t pieces_deleted; /* as --keep wants it */
	struct tm_error warning; /* code 0: none; something the user should know */
};

/*
 * Runs the program. 0 when it ran (recorded or not, see result); negative with a
 * sentence in err when it was not started: result->exit_status then says how a
 * shell would have put it. Blocks all signals in the calling thread for good.
 */
TM_MUST_CHECK int collector_run(const struct collector_options *options,
				struct collector_result *ret_result, struct tm_error *err);

/*
 * Has the program take our place, with an agent that sleeps: nothing is recorded
 * until 'tidemark attach' wakes it. Comes back only on failure, with the exit
 * status and a sentence.
 */
TM_MUST_CHECK int collector_sleep(const struct collector_options *options, struct tm_error *err);

/*
 * Records the program that started us, which waits until started() is called,
 * and what it starts. Comes back when it has ended.
 */
TM_MUST_CHECK int collector_follow(const struct collector_options *options,
				   struct collector_result *ret_result, struct tm_error *err);

/*
 * Records a process that runs already and has an agent that sleeps, without any
 * right but to its user's files; ends as collector_attach() does. -ENOENT: it has
 * none.
 */
TM_MUST_CHECK int collector_wake(const struct collector_options *options,
				 struct collector_result *ret_result, struct tm_error *err);

/*
 * Records a process that runs already, until it is told to stop (SIGINT, SIGTERM,
 * SIGHUP), the time is over, or the process ends or executes another program;
 * leaves it as it was. inject: opened for the process, and closed by the caller.
 * Blocks all signals in the calling thread for good. result->ran stays false
 * where it could not be entered.
 */
TM_MUST_CHECK int collector_attach(const struct collector_options *options, struct inject *inject,
				   struct collector_result *ret_result, struct tm_error *err);
void collector_result_done(struct collector_result *result);

/* Ends this process as the program ended: by the same signal, or with its status. */
_Noreturn void collector_exit_like(int wait_status);
