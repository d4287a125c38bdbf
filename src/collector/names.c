/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/names.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "symbols/symbols.h"

int names_hold_root(pid_t pid)
{
	char path[64];
	struct stat ours, theirs;
	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* The same as ours: plain paths will do. */
	if (fd >= 0 && stat("/", &ours) == 0 && fstat(fd, &theirs) == 0 &&
	    ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino) {
		close(fd);
		return -1;
	}
	return fd;
}

void names_write(struct feed *feed, int root_fd)
{
	char root[64];
	struct symbols *symbols = NULL;
	struct symbols_request *requests = NULL;
	struct symbols_result result = {0};
	size_t count = 0;
	snprintf(root, sizeof root, "/proc/self/fd/%d", root_fd);
	struct symbols_options options = {.root = root_fd >= 0 ? root : NULL};
	const struct modules_seen *modules = &feed->modules;
	if (modules->count < 2 || symbols_new(&options, &symbols, NULL))
		return;
	if (!symbols_requests(feed->stacks.rows, 1, feed->stacks.count, &requests, &count, NULL) &&
	    !symbols_resolve(symbols, modules->rows + 1, modules->count - 1, requests, count,
			     &result, NULL))
		trace_writer_symbols(feed->writer, result.symbols, result.count);
	tm_free(result.symbols);
	tm_free(requests);
	symbols_free(symbols);
}
