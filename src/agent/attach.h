/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that a tracer has mapped into a running process: wire/attach.h has the way they speak.
 */
#pragma once

#include "wire/attach.h"

#include <stdbool.h>

/* Is this the code of an allocator whose functions were patched? */
bool attach_is_allocator(uintptr_t pc);
