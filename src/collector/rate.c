/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/rate.h"

#include <fcntl.h>
#include <unistd.h>

#include "trace/space.h"

#define HOUR_NS    3.6e12
#define HOURS_MOST 1e5 /* 11 years: beyond, nobody waits for it */

struct collector_rate rate_of(const struct collector_options *options, const char *path,
			      uint64_t written, uint64_t age_ns)
{
	struct collector_rate rate = {0};
	uint64_t free_bytes = 0, reserve = 0, room = 0;
	/* Closing another kind of descriptor would give up our lock on the file (sink.c). */
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd >= 0 && space_left(fd, &free_bytes, &reserve))
		room = free_bytes > reserve ? free_bytes - reserve : 0;
	if (fd >= 0)
		close(fd);
	uint64_t limit = options->max_file_bytes;
	if (limit && limit < written + room)
		room = limit > written ? limit - written : 0;
	double hours = (double)age_ns / HOUR_NS;
	double per_hour = hours > 0 ? (double)written / hours : 0;
	rate.disk_free_bytes = free_bytes;
	rate.bytes_per_hour = per_hour < 1e18 ? (uint64_t)per_hour : 0;
	const struct collector_bounds *bounds = &options->bounds;
	bool bounded = bounds->retain_ns || bounds->retain_bytes || bounds->keep;
	double left = per_hour > 0 ? (double)room / per_hour : HOURS_MOST;
	if (!bounded && room > 0 && left < HOURS_MOST)
		rate.left_ns = (uint64_t)(left * HOUR_NS);
	return rate;
}
