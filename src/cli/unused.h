/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/*
 * Before a trace is replaced: one that is still being written would lose what
 * comes. -EBUSY with a sentence if another process has the file open, or this one; other errors
 * if it cannot be changed. Where the system cannot tell it is 0.
 */
TM_MUST_CHECK int unused_check(const char *path, struct tm_error *err);
