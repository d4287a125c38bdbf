/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/hole.h"

#include <fcntl.h>

void hole_make(int fd, uint64_t start, uint64_t bytes)
{
	(void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
			 (off_t)bytes);
}
