/* SPDX-License-Identifier: Apache-2.0 */
/* Separate debug files: where distributions put what they strip. */
#pragma once

#include "symbols/elffile.h"

enum { DEBUGFILE_ROOTS_MAX = 3 };

struct debugfile_search {
	const char *roots[DEBUGFILE_ROOTS_MAX]; /* in this order; "" = our own files */
	size_t root_count;
	const char *const *dirs; /* like /usr/lib/debug, and tried before it; plain paths */
	size_t dir_count;
};

/*
 * Looks for the debug file of a module: by .gnu_debuglink beside the module, in
 * .debug, and in the debug folders; then by build-id in the debug folders. Each
 * place is tried below each root. A file of another build is passed over: the
 * build-ids must be equal, or, where the module has none, the checksum of the
 * link must be that of the file. -ENOENT if there is none.
 */
TM_MUST_CHECK int debugfile_open(struct elffile *ret_file, const struct elffile *module,
				 const struct debugfile_search *search, const char *module_path);

/* The debug file of a build, found by its build-id alone. -ENOENT if there is none. */
TM_MUST_CHECK int debugfile_open_build(struct elffile *ret_file, const uint8_t *build_id,
				       uint32_t build_id_bytes,
				       const struct debugfile_search *search);

/*
 * The file that .gnu_debugaltlink of a debug file names: what dwz found in
 * several debug files. -ENODATA if it names none, -ENOENT if it is not there.
 */
TM_MUST_CHECK int debugfile_open_alt(struct elffile *ret_file, const struct elffile *file,
				     const struct debugfile_search *search);
