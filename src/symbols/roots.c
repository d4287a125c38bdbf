/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/roots.h"

#include <stddef.h>
#include <string.h>

static const char *const roots[] = {
	"main",
	"_start",
	"start_thread",
	"clone",
	"clone3",
	"__clone3",
	"__start_context",
	"__libc_start_main",
	"__libc_start_call_main",
	"_dl_start_user",
};

bool roots_is_root(const char *function)
{
	for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
		if (!strcmp(roots[i], function))
			return true;
	return false;
}
