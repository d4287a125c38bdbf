/* SPDX-License-Identifier: Apache-2.0 */
/* Programs built with AddressSanitizer, whose run-time library wants to be loaded first. */
#pragma once

#include <stddef.h>

/*
 * The name of AddressSanitizer's run-time library if the (open) file needs it and
 * it will insist on being loaded first, or "". The agent tells it not to, but by
 * a function (__asan_default_options) that a program may define itself. Bounded.
 */
void sanitizer_find(int fd, char *ret_name, size_t name_bytes);
