/* SPDX-License-Identifier: Apache-2.0 */
/* Where a program's own code begins. */
#pragma once

#include <stdbool.h>

/* main, _start, start_thread: what is outside of it is start-up code. */
bool roots_is_root(const char *function);
