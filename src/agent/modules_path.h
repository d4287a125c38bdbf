/* SPDX-License-Identifier: Apache-2.0 */
/* Paths from /proc, for the objects whose path the loader does not know. Make system calls. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What /proc/self/exe points to, NUL-terminated; its length, 0: unknown. */
uint32_t module_path_of_program(char *ret, size_t bytes);

/* The file mapped at address, from /proc/self/maps; its length, 0: none. */
uint32_t module_path_at(uintptr_t address, char *ret, size_t bytes);
