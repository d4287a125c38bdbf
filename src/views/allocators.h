/* SPDX-License-Identifier: Apache-2.0 */
/* What some function names stand for. */
#pragma once

#include <stdbool.h>

/* malloc, operator new, g_malloc, alloc::alloc::...: it allocates for its caller. */
bool allocators_is_entry(const char *function);
/* main, _start, start_thread: who called it is start-up code. */
bool allocators_is_root(const char *function);
