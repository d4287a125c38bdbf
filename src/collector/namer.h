/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that looks up names while recording goes on. It is forked before
 * there are threads, keeps the files of each module open from when it was
 * mapped, and forks a worker with a memory limit of its own for each batch of
 * addresses. A worker that crashes on a hostile file costs that file its lines.
 *
 *   drain thread <── stream ──> namer ──fork──> worker ── answers ──> stream
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct namer {
	pid_t pid; /* 0: there is none */
	int fd;    /* control */
};

/* Forks it. Call before any thread is started, with all signals blocked. */
TM_MUST_CHECK int namer_start(struct namer *namer, struct tm_error *err);

/* A stream for one process image; its end, which does not block, or -errno. */
int namer_stream(const struct namer *namer, pid_t pid, bool embed_source);

/* Ends it, whatever it is doing. */
void namer_stop(struct namer *namer);
