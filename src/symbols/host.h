/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between operating systems: host_linux.c, and later others. */
#pragma once

#include <stddef.h>

/*
 * Opens root + path for reading, or returns -errno. root may be ""; symbolic
 * links stay within it where the kernel can do that. Never blocks (a path from a
 * trace may name a FIFO by now).
 */
int host_open(const char *root, const char *path);

/* The kernel's code in this process, an ELF image; NULL if there is none. */
const void *host_vdso(size_t *ret_bytes);
