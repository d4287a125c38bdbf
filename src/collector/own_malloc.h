/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does an executable define malloc itself? The dynamic loader then binds every
 * call to that one, and the agent's is never reached.
 */
#pragma once

#include <stdbool.h>

/* An x86-64 ELF file open for reading. Looks at .dynsym and .symtab; bounded. */
bool own_malloc_in_file(int fd);
