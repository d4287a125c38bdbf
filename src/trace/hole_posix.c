/* SPDX-License-Identifier: Apache-2.0 */
/* Where files cannot have holes made into them, zeros are written. */
#include "trace/hole.h"

#include <sys/types.h>
#include <unistd.h>

void hole_make(int fd, uint64_t start, uint64_t bytes)
{
	static const char zeros[4096];
	while (bytes > 0) {
		size_t part = bytes < sizeof zeros ? (size_t)bytes : sizeof zeros;
		ssize_t done = pwrite(fd, zeros, part, (off_t)start);
		if (done <= 0)
			return;
		start += (uint64_t)done;
		bytes -= (uint64_t)done;
	}
}
