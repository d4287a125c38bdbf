/* SPDX-License-Identifier: Apache-2.0 */
/* Writing to a file or to standard error as if the program had done nothing. */
#pragma once

#include <stddef.h>

/*
 * As sys_write(), without a signal: a file size limit, a pipe that nobody reads
 * and a terminal that wants no output from the background would end or stop the
 * program for what is not its own doing. Where signals may not be blocked nothing
 * is written. Any thread; some system calls.
 */
long quiet_write(int fd, const void *bytes, size_t count);
