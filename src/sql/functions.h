/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for queries: figures as people read them, names of stacks, buckets. */
#pragma once

#include "sql/state.h"

/* A SQLite code. */
int functions_register(struct sql *sql);
