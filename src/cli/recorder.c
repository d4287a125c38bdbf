/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/recorder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool recorder_usage(uint64_t pid, uint64_t *ret_cpu_ns, uint64_t *ret_bytes)
{
	char path[64], line[1024];
	uint64_t user_ticks, system_ticks, pages;
	long hertz = sysconf(_SC_CLK_TCK), page_bytes = sysconf(_SC_PAGESIZE);
	snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	bool got = fgets(line, sizeof line, file) != NULL;
	fclose(file);
	/* The name of the program, in brackets, may hold anything. */
	const char *rest = got ? strrchr(line, ')') : NULL;
	if (!rest || hertz <= 0 || page_bytes <= 0 ||
	    sscanf(rest + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
		   " %*d %*d %*d %*d %*d %*d %*u %*u %" SCNu64,
		   &user_ticks, &system_ticks, &pages) != 3)
		return false;
	*ret_cpu_ns = (user_ticks + system_ticks) * (1000000000u / (uint64_t)hertz);
	*ret_bytes = pages * (uint64_t)page_bytes;
	return true;
}
