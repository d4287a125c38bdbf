/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of exported functions share. */
#pragma once

#include "agent/hook.h"
#include "agent/real.h"
#include "agent/wake.h"

#define EXPORT __attribute__((visibility("default")))
/* Reached by a tail jump from the exported function, so its caller is the program. Has a frame
 * pointer. */
#define HOOKED    __attribute__((noinline, hot))
#define PASSING() agent_passes()
