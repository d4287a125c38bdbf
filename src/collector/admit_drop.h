/* SPDX-License-Identifier: Apache-2.0 */
/* Whose trace is thrown away, and who has the name that was asked for. Main thread. */
#pragma once

#include "collector/starter.h"

struct session;
struct session_process;

/* The name is wanted for a program: a starter's trace, which will be thrown away, goes elsewhere.
 */
void admit_make_way(struct session *session, const char *wanted, enum starter_role role);
/* Its trace is finished, and removed. */
void admit_drop(struct session *session, struct session_process *process);
/* After all: the traces of starters go when something else was recorded. */
void admit_drop_starters(struct session *session);
