/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the namer knows of one process image: its modules with their files, the
 * addresses that have no answer yet, and the worker that looks some of them up.
 */
#pragma once

#include "collector/namer_hold.h"
#include "collector/namer_jit.h"
#include "collector/names_wire.h"
#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct namer_module {
	struct trace_module facts; /* module_id 0: not known yet; path owned */
	int fd;                    /* its file, open since it was mapped; -1 */
	unsigned crashes;          /* of workers that were at it */
	bool in_worker;            /* the worker knows of it */
};

struct namer_list {
	struct names_request *items;
	size_t count, room;
};

/*
 * A batch, in memory that is shared with the worker: `room` requests, modules first, then the
 * jit's, and behind them a byte for each that becomes 1 when it is answered.
 */
struct namer_job {
	size_t room, count;
	size_t jit; /* first of the jit's */
	bool final; /* the program has ended */
	struct names_request items[];
};

static inline uint8_t *namer_job_answered(struct namer_job *job)
{
	return (uint8_t *)(job->items + job->room);
}

struct namer_stream {
	int fd;
	pid_t pid;
	bool embed_source;
	int root_fd;               /* its root folder, if it is another than ours; -1 */
	struct namer_early *early; /* files that no module has claimed yet */
	size_t early_count;
	struct namer_module *modules; /* by id */
	uint32_t module_count;
	struct namer_list pending, jit; /* without an answer; jit: outside of all modules */
	uint64_t *seen;                 /* hashes of requests, open addressing; 0 = empty */
	size_t seen_count, seen_room;
	struct namer_jit code;
	bool jit_seen; /* some address was outside of all modules */
	bool ended;    /* nothing more will be asked */
	bool closed;   /* the collector is gone, or all is answered */
	/* the worker */
	pid_t worker;          /* 0: none; it stays for a while when it has nothing to do */
	bool is_busy;          /* it has a batch */
	int worker_fd;         /* a byte from it: it is done; a byte to it: another batch; -1 */
	struct namer_job *job; /* shared with it; NULL */
	size_t job_room;
	struct namer_list batch; /* what it has: our own copy, which it cannot spoil */
	size_t batch_jit;        /* first of the jit's */
	bool final;              /* of the batch */
	unsigned crashes;
	uint64_t first_ns, started_ns, next_ns; /* when it may start again */
};

TM_MUST_CHECK int namer_stream_init(struct namer_stream *stream, int fd,
				    const struct names_stream *begin);
void namer_stream_done(struct namer_stream *stream);
/* Takes what the collector has sent. */
void namer_stream_read(struct namer_stream *stream);
/* Starts a worker if there is enough to do; *next_ns falls to when it should be called again. */
void namer_stream_work(struct namer_stream *stream, uint64_t now_ns, uint64_t *next_ns);
/*
 * The worker is done, or has ended: what it left is asked again, without debug information if it
 * crashed.
 */
void namer_stream_reap(struct namer_stream *stream, uint64_t now_ns);
