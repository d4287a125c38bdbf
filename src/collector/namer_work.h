/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: looks up a batch and sends the answers. */
#pragma once

#include "collector/namer_stream.h"

/* Runs in a process of its own, forked with the stream's batch ready. */
_Noreturn void namer_work(struct namer_stream *stream);

/* A file below root_fd (-1: ours), for reading; never blocks, follows no link out of it. -errno. */
int namer_open(int root_fd, const char *path);
