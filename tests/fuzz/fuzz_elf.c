/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile ELF files: symbol tables, build-ids, debug links and DWARF through our code. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "symbols/symbols.h"

enum { ADDRESSES = 128 };

/* Through the symbol tables, then through DWARF: in this process, so that a crash is seen. */
static void resolve(const char *path, bool lines)
{
	struct trace_module known[2] = {{0}, {.module_id = 1, .path = path}};
	struct symbols_request requests[ADDRESSES];
	struct symbols_result result;
	struct symbols *symbols = NULL;
	/* What is taken for a size or a time must not be believed beyond these limits. */
	struct symbols_options options = {.max_bytes = 64 << 20,
					  .lines_budget_ns = 100000000,
					  .no_lines = !lines,
					  .lines_here = lines};
	if (symbols_new(&options, &symbols, NULL))
		return;
	for (uint64_t i = 0; i < ADDRESSES; i++)
		requests[i] = (struct symbols_request){.module_id = 1, .address = 0x200 + i * 7};
	requests[ADDRESSES - 1].address = UINT64_MAX;
	if (!symbols_resolve(symbols, known, 2, requests, ADDRESSES, &result, NULL))
		tm_free(result.symbols);
	symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0 && !io_write(fd, data, size)) {
		resolve(path, false);
		resolve(path, true);
	}
	close(fd);
	return 0;
}
