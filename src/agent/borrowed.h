/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the program hands to the kernel, read before the kernel does. It
 * may be wrong: then the call is to fail, not we. Where we may not ask the kernel
 * to read it, it is believed. Writes to nothing but what it is given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool borrowed_read(const void *from, void *ret, size_t bytes);
/* False: it is not readable, or longer. */
bool borrowed_string(const char *from, char *ret, size_t room);
