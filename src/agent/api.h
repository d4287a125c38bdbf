/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that speak for themselves: include/tidemark.h, and heaptrack's three functions. */
#pragma once

#include <stdint.h>

/*
 * A loaded object has such a table here: say where to call. The object may be on
 * its way out. Makes system calls.
 */
void api_offer(uintptr_t table);
