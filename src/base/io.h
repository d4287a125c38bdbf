/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole reads and writes: interrupted and partial calls are continued. All
 * return a negative errno on failure. Thread-safe.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/* All bytes or -errno. A descriptor that does not block is waited for. */
int io_write(int fd, const void *data, size_t bytes) TM_MUST_CHECK;
int io_pwrite(int fd, const void *data, size_t bytes, uint64_t offset) TM_MUST_CHECK;

/*
 * Up to bytes; fewer only at the end of the file. The number of bytes read goes
 * to *ret_bytes.
 */
int io_read(int fd, void *data, size_t bytes, size_t *ret_bytes) TM_MUST_CHECK;
int io_pread(int fd, void *data, size_t bytes, uint64_t offset, size_t *ret_bytes) TM_MUST_CHECK;

/*
 * Append the whole file (also one of /proc, whose size is not known before) to
 * *text; -EFBIG if it has more than limit bytes.
 */
int io_read_file(const char *path, size_t limit, struct text *text) TM_MUST_CHECK;

/* Create the folder and those above it that are missing, mode 0777 less the umask. */
int io_make_folders(const char *path) TM_MUST_CHECK;

struct stat;
/* What a file takes on the disk: its size, less what is a hole in it. */
uint64_t io_held_bytes(const struct stat *status);

/* Bytes that nobody can foresee, from the system. -errno. */
int io_random(void *data, size_t bytes) TM_MUST_CHECK;
