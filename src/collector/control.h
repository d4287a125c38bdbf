/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How 'tidemark list' and 'tidemark ctl' reach a session: each collector listens
 * on an abstract unix socket whose name the kernel lists in /proc/net/unix. So
 * there is no file that could be left behind, and a session that died is not
 * found. Abstract sockets are of a network namespace: the tool must run in the
 * container that the session runs in.
 *
 * One request, then replies: any number of CONTROL_PROCESS, and one of the
 * others at the end. Only the session's own user and root are listened to.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	CONTROL_MAGIC = 0x6c746374, /* "tctl" */
	CONTROL_VERSION = 2,
	CONTROL_TEXT_MAX = 1000,
};

enum control_verb {
	CONTROL_STATUS = 0,
	CONTROL_PAUSE = 1,
	CONTROL_RESUME = 2,
	CONTROL_ROTATE = 3,
	CONTROL_MARK = 4,
	CONTROL_STOP = 5,
	CONTROL_STOP_PROGRAM = 6,
	CONTROL_SAMPLE = 7, /* text: the interval in bytes; "0": every block */
	CONTROL_VERBS = 8,
};

struct control_request {
	uint32_t magic, version;
	uint32_t verb;                   /* enum control_verb */
	int32_t pid;                     /* of a recorded process; 0: all of the session */
	char text[CONTROL_TEXT_MAX + 8]; /* NUL-terminated */
};

enum control_state {
	CONTROL_WAITING = 0, /* for the end of the delay */
	CONTROL_RECORDING = 1,
	CONTROL_PAUSED = 2,
	CONTROL_OFF = 3,
};

/* One recorded process of a session. */
struct control_process {
	int32_t tool_pid, pid;
	uint32_t state; /* enum control_state */
	uint32_t piece; /* from 1 */
	uint64_t events, live_bytes, peak_bytes, lost_events;
	uint64_t file_bytes, age_ns;
	uint64_t sample_bytes;         /* 0: every block is recorded */
	uint64_t bytes_per_hour;       /* by which the file grows, on average */
	uint64_t left_ns;              /* until disk or limit are full at that rate; 0 unknown */
	uint64_t disk_free_bytes;      /* where the file is */
	uint64_t cpu_ns, memory_bytes; /* of tidemark itself, all sessions of its process */
	uint64_t waited_ns, folded_events; /* how long the program waited for it; given up */
	char source[16];                   /* "run", "attach", "self" */
	char program[512];                 /* path; cut at its begin when longer */
	char file[4096];                   /* absolute where that can be told */
};

enum control_kind { CONTROL_PROCESS = 0, CONTROL_DONE = 1, CONTROL_REFUSED = 2 };

struct control_reply {
	uint32_t magic, version;
	uint32_t kind; /* enum control_kind */
	uint32_t reserved;
	char text[400]; /* why not, or what was done */
	struct control_process process;
};

/* ---- the session's side ---- */

struct control {
	int fd; /* for poll; -1 closed */
};

/* What a session can tell and do. */
struct control_ops {
	/* Process number `index`; false: there is none. */
	bool (*process)(void *ctx, size_t index, struct control_process *ret);
	/* 0, or -errno; the sentence in err is the answer in both cases. */
	int (*obey)(void *ctx, const struct control_request *request, struct tm_error *err);
	void *ctx;
};

TM_MUST_CHECK int control_open(struct control *control, struct tm_error *err);
void control_close(struct control *control);
/* Hears all who knock. Waits at most some tenths of a second for each. */
void control_serve(struct control *control, const struct control_ops *ops);

/* ---- the asking side ---- */

struct control_peer {
	char name[100]; /* of the socket, without its leading NUL */
	pid_t pid;      /* as the kernel says; 0: not visible from here */
	uid_t uid;
	bool is_ours; /* may be asked */
};

/* All sessions of this network namespace. The caller frees *ret (tm_free). */
TM_MUST_CHECK int control_peers(struct control_peer **ret, size_t *ret_count, struct tm_error *err);

typedef void (*control_process_fn)(void *ctx, const struct control_process *process);
/*
 * Asks, and gives what the session says of its processes to fn (may be NULL).
 * 0 with the answer in err->text, or -errno with a sentence. -ECONNREFUSED: it has
 * ended meanwhile.
 */
TM_MUST_CHECK int control_ask(const struct control_peer *peer,
			      const struct control_request *request, control_process_fn fn,
			      void *ctx, struct tm_error *err);
