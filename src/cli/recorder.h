/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that records uses and writes: for the server beside it. */
#pragma once

#include "server/server.h"

#include <stdbool.h>
#include <stdint.h>

/* False when there is no such process, or no /proc. */
bool recorder_usage(uint64_t pid, uint64_t *ret_cpu_ns, uint64_t *ret_bytes);

/* Asks it what it is writing now; nothing when it does not answer. */
void recorder_recordings(uint64_t pid, server_recording_fn fn, void *ctx);
