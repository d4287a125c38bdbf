/* SPDX-License-Identifier: Apache-2.0 */
/* Which process a word on the command line means: a number, or a program's name. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* False after a message: there is none, or there are several, which are listed. */
bool attach_name_find(const char *command, const char *word, pid_t *ret_pid);
