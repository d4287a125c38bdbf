/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: looks up a batch and sends the answers. */
#pragma once

#include "collector/namer_stream.h"

/*
 * Runs in a process of its own, forked with the stream's job ready. While the program runs it stays
 * for a while with all that it has opened, if that is not much: it says so by a byte to done_fd,
 * and a byte from wake_fd says that there is another batch.
 */
_Noreturn void namer_work(struct namer_stream *stream, int done_fd, int wake_fd);

/* A file below root_fd (-1: ours), for reading; never blocks, follows no link out of it. -errno. */
int namer_open(int root_fd, const char *path);
