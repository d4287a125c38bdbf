/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines as a shell would take them, for people to read and to paste. */
#pragma once

#include "base/text.h"

/*
 * Append the argument, quoted only where a shell needs it; control characters
 * and invalid UTF-8 as $'\xNN', so that a terminal only shows them.
 */
void quote_argument(struct text *text, const char *argument);

/* Append the arguments up to the NULL, separated by blanks. */
void quote_command(struct text *text, const char *const *arguments);
