/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dynamic loader that is executed itself ("ld-linux-x86-64.so.2 PROGRAM") has
 * no loader, as a static program has none; but it brings the agent in.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

/* Is this 64-bit file, without PT_INTERP, a loader (or another library) rather than a program? */
bool loader_is(int fd, const Elf64_Phdr *headers, size_t count);
/* The same of any file. */
bool loader_is_file(const char *path);
