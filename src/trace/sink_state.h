/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the writing thread share: see sink.h for what they do. */
#pragma once

#include "trace/ages.h"
#include "trace/journal.h"
#include "trace/old_rows.h"
#include "trace/room.h"
#include "trace/sink.h"
#include "trace/space.h"
#include "trace/syncer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zstd.h>

enum { SINK_SPARE_KINDS = 4, SINK_SPARES = 2 };

struct sink {
	int fd;
	uint64_t file_id, max_bytes;
	/* Queue; under lock. */
	pthread_mutex_t lock;
	pthread_cond_t filled, drained;
	struct sink_batch *first, *last;
	uint32_t queued, queue_blocks;
	bool stopping;
	struct bytes spares[SINK_SPARE_KINDS][SINK_SPARES]; /* of large blocks, for the next */
	bool no_spares;
	/* The thread's own. */
	pthread_t thread;
	ZSTD_CCtx *zstd;
	struct bytes packed;
	uint64_t sealed_end;
	uint32_t sequence, journal_sequence;
	struct journal journal;
	bool journal_off;
	struct syncer syncer;
	struct space space;
	bool space_low;
	struct room room;    /* active: blocks of events are given back, and written over */
	struct ages ages;    /* and slices merged */
	struct old_rows old; /* and other rows */
	/* Shared. */
	_Atomic int error; /* first error, negative errno */
	atomic_bool events_stopped;
	_Atomic uint64_t bytes, unstored, folded, since_ns, covered;
	atomic_bool wants_slice, disk_low, hurried;
	atomic_bool late; /* the disk took nothing for long: no more events */
};

/* Gives the spare memory back to the system. Called with the lock held, or alone. */
void sink_drop_spares(struct sink *s);
