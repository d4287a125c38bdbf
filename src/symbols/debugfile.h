/* SPDX-License-Identifier: Apache-2.0 */
/* Separate debug files: where distributions put what they strip. */
#pragma once

#include "symbols/elffile.h"

/*
 * Looks for the debug file of a module: by build-id under /usr/lib/debug, then
 * by .gnu_debuglink beside the module, in .debug, and under /usr/lib/debug.
 * Each place is tried below root, then without it. A file of another build is
 * passed over. -ENOENT if there is none.
 */
TM_MUST_CHECK int debugfile_open(struct elffile *ret_file, const struct elffile *module,
				 const char *root, const char *module_path);
