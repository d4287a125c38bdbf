/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does an executable define malloc itself? The dynamic loader then binds every
 * call to that one, and the agent's is never reached.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Looks at .dynsym and .symtab of an x86-64 ELF file; bounded. False for anything else. */
bool own_malloc_in(const char *path);

/*
 * The name of AddressSanitizer's run-time library if the (open) file needs it and
 * it will insist on being loaded first, or "". The agent tells it not to, but by
 * a function (__asan_default_options) that a program may define itself.
 */
void own_malloc_sanitizer(int fd, char *ret_name, size_t name_bytes);
