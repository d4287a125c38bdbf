/* SPDX-License-Identifier: Apache-2.0 */
/* A lease for writing is given only where nobody else has the file open. */
#include "cli/unused.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int unused_check(const char *path, struct tm_error *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return tm_fail(err, -errno, "'%s' cannot be changed: %s", path, strerror(errno));
	int code = 0;
	/* What cannot be asked (a file system without leases) is no reason to refuse. */
	if (fcntl(fd, F_SETLEASE, F_WRLCK) && (errno == EAGAIN || errno == EBUSY))
		code = tm_fail(err, -EBUSY,
			       "'%s' is still being written, or read by another program: wait "
			       "until the recording has ended",
			       path);
	close(fd);
	return code;
}
