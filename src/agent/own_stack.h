/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread's own stack: memory that is there for as long as the thread is.
 * Whatever else a frame pointer may point into can be unmapped at any time.
 */
#pragma once

#include "agent/lane.h"

/*
 * Where the lane's own thread runs on its own stack at sp: [sp, end) is part of
 * it, and stays mapped. 0: it runs on another one, or its own is not known.
 * Mostly a few comparisons.
 */
uintptr_t own_stack_end(struct lane *lane, uintptr_t sp);
