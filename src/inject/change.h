/* SPDX-License-Identifier: Apache-2.0 */
/* The moment in which all threads stand still and code is changed. Internal to inject. */
#pragma once

#include "base/error.h"

struct inject;

/*
 * Puts the patches of all objects in place that are not. The threads still stand
 * when it returns 0: stop_release() lets them go. Places to come back to are moved
 * before the bytes are written, so that dying in between does no harm.
 */
TM_MUST_CHECK int change_do(struct inject *inject, struct tm_error *err);
/* Restores what the block says was patched, and lets the threads go. */
TM_MUST_CHECK int change_undo(struct inject *inject, struct tm_error *err);
