/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of frames to leave out, as they stand on a command line. */
#pragma once

#include "base/error.h"

/* "allocator,runtime", or "noise" for the usual ones; bits 1u << enum frame_kind. -EINVAL. */
TM_MUST_CHECK int fold_parse(const char *text, unsigned *ret_kinds, struct tm_error *err);
