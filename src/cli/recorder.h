/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that records uses: for /metrics of a server beside it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* False when there is no such process, or no /proc. */
bool recorder_usage(uint64_t pid, uint64_t *ret_cpu_ns, uint64_t *ret_bytes);
