/* SPDX-License-Identifier: Apache-2.0 */
/* Perf maps and jitdumps from unknown hands: the same bytes taken for both. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "fuzz/fuzz.h"
#include "symbols/jit.h"

enum { REQUESTS = 64 };

static int found(void *ctx, size_t request, const struct jit_name *name)
{
	(void)request;
	unsigned *sum = ctx;
	for (const char *at = name->function; *at; at++)
		*sum += (unsigned char)*at;
	for (const char *at = name->file; *at; at++)
		*sum += (unsigned char)*at;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_request requests[REQUESTS];
	unsigned sum = 0;
	int fd = memfd_create("jit", MFD_CLOEXEC);
	for (uint64_t i = 0; i < REQUESTS; i++)
		requests[i] = (struct jit_request){.address = 0x1000 + i * 4, .time_ns = i * 3};
	requests[REQUESTS - 1].address = UINT64_MAX;
	if (fd >= 0 && !io_write(fd, data, size)) {
		int code = jit_read_map(fd, requests, REQUESTS, found, &sum);
		code |= jit_read_dump(fd, requests, REQUESTS, found, &sum);
		(void)code;
	}
	close(fd);
	return 0;
}
