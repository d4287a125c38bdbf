/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/namer_source.h"

#include "symbols/sourceline.h"

#include "collector/namer_work.h"

struct sending {
	struct namer_sender *sender;
	int root_fd;
};

static int open_source(void *ctx, const char *path)
{
	const struct sending *sending = ctx;
	int fd = namer_open(sending->root_fd, path);
	/* A container's program may have been built outside. */
	return fd < 0 && sending->root_fd >= 0 ? namer_open(-1, path) : fd;
}

static int send_line(void *ctx, const struct trace_source_line *line)
{
	const struct sending *sending = ctx;
	return namer_send_line(sending->sender, line);
}

int namer_send_sources(struct namer_sender *sender, int root_fd, const struct trace_symbol *symbols,
		       size_t count)
{
	struct sending sending = {.sender = sender, .root_fd = root_fd};
	return sourceline_read(symbols, count, open_source, send_line, &sending);
}
