/* SPDX-License-Identifier: Apache-2.0 */
/* What inject.h promises, done by the process that traces. Internal to inject. */
#pragma once

#include "inject/inject.h"

TM_MUST_CHECK int work_enter(struct inject *inject, inject_fill_fn fill, void *ctx,
			     struct tm_error *err);
TM_MUST_CHECK int work_patch(struct inject *inject, struct tm_error *err);
TM_MUST_CHECK int work_look(struct inject *inject, struct tm_error *err);
TM_MUST_CHECK int work_leave(struct inject *inject, struct tm_error *err);
/* The recorder is dead: nothing is recorded any more, and nobody waits for it. */
void work_switch_off(struct inject *inject);
