/* SPDX-License-Identifier: Apache-2.0 */
/* Where only traces are shown nothing is recorded: copies come from elsewhere, whole. */
#include "cli/unused.h"

int unused_check(const char *path, struct tm_error *err)
{
	(void)path;
	(void)err;
	return 0;
}
