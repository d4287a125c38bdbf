/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded process, for people and for machines. */
#pragma once

#include "base/json.h"
#include "cli/out.h"
#include "collector/control.h"

/* As an object, an element of the open array. docs/control.md has the keys. */
void sessions_put_json(struct json *json, const struct control_process *process);
/* Some lines. */
void sessions_put_status(struct out *out, const struct control_process *process);
