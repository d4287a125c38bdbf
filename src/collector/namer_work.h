/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: looks up a batch and sends the answers. */
#pragma once

#include "collector/namer_stream.h"

/*
 * Runs in a process of its own, forked with the stream's job ready. A byte to link_fd says that it
 * is done. While the program runs it then stays for a while with all that it has opened, if that is
 * not much: a byte from link_fd says that there is another batch.
 */
_Noreturn void namer_work(struct namer_stream *stream, int link_fd);

/* A file below root_fd (-1: ours), for reading; never blocks, follows no link out of it. -errno. */
int namer_open(int root_fd, const char *path);
