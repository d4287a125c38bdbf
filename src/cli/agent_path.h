/* SPDX-License-Identifier: Apache-2.0 */
/* Where the agent is: TIDEMARK_AGENT, else beside the tool, else where an installation puts it. */
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>

/* False with a sentence: there is none, or it is of another version than this tool. */
bool agent_path_find(char path[PATH_MAX], struct tm_error *err);
