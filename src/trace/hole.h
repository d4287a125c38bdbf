/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back the space of a part of a file: hole_linux.c, and hole_posix.c elsewhere. */
#pragma once

#include <stdint.h>

/* The bytes read as zeros then. Best effort. */
void hole_make(int fd, uint64_t start, uint64_t bytes);
