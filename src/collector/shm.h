/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory of one recorded process image: a memfd laid out as
 * wire/wire.h says, mapped here and handed to the agent by the rendezvous.
 */
#pragma once

#include "base/error.h"
#include "wire/pool.h"

struct shm_options {
	uint32_t depth;       /* frames kept; 0 = WIRE_DEPTH_MAX */
	uint32_t options;     /* WIRE_OPT_* */
	uint32_t state;       /* enum wire_state to begin with */
	uint32_t sampling;    /* control.sampling, in the states that have one */
	uint64_t sample_seed; /* 0: of the agent's choice */
	uint32_t chunk_count, stream_count, node_count; /* 0 = defaults */
	const void *patches; /* struct wire_patches and what follows, copied; NULL none */
	uint64_t patches_bytes;
};

struct shm {
	int fd; /* -1 when closed */
	void *base;
	uint64_t bytes;
	struct wire_map map; /* counts copied: what the target writes there later is not believed */
	uint64_t ahead_bytes; /* of the nodes: so much has pages */
};

/*
 * Makes and maps it: control page filled in, all chunks free. Where the address
 * space or the size of files is limited (RLIMIT_AS, RLIMIT_FSIZE: the target
 * inherits ours) there is room for fewer stack nodes; -ENOMEM or -EFBIG with a
 * sentence when even the least does not fit.
 */
TM_MUST_CHECK int shm_open_new(struct shm *shm, const struct shm_options *options,
			       struct tm_error *err);
/* The same in a file that is there: the memory that an agent has made in its process. */
TM_MUST_CHECK int shm_open_at(struct shm *shm, const struct shm_options *options, const char *path,
			      struct tm_error *err);
/* The descriptor is needed until the agent has it. */
void shm_close_fd(struct shm *shm);
/*
 * Gives pages to the stack nodes that come next: it costs less here, where a processor may be idle,
 * than in the target's malloc. At most as much as is used, and a MiB.
 */
void shm_make_ahead(struct shm *shm);
/* Gives the pages of events and stacks back: the process keeps the memory mapped after the session.
 */
void shm_empty(struct shm *shm);
/* Accepts a zeroed struct whose fd is -1. */
void shm_close(struct shm *shm);
