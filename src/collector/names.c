/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/names.h"

#include <stdio.h>

#include "base/memory.h"
#include "symbols/symbols.h"

void names_write(struct feed *feed, pid_t pid)
{
	char root[64];
	struct symbols *symbols = NULL;
	struct symbols_request *requests = NULL;
	struct symbols_result result = {0};
	size_t count = 0;
	snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
	struct symbols_options options = {.root = root};
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
