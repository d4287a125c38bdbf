/* SPDX-License-Identifier: Apache-2.0 */
/* The text of kinds.rules, put into the program by the build. */
#pragma once

#include <stddef.h>

extern const char kinds_builtin[];
extern const size_t kinds_builtin_bytes;
