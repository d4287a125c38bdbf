/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF: a skeleton in the program names the .dwo file that has its
 * entries; a .dwp beside the program holds those of many units.
 */
#pragma once

#include "symbols/debugfile.h"
#include "symbols/unit.h"

struct split_package;

/* The .dwp of a module or debug file. -ENOENT, -ENOMEM. */
TM_MUST_CHECK int split_package_open(struct split_package **ret_package,
				     const struct elffile *module,
				     const struct debugfile_search *search, uint64_t max_bytes);
struct split_package *split_package_close(struct split_package *package);

struct split;

/*
 * The unit with a skeleton's entries, from the package (may be NULL) or its
 * .dwo. The module's folder is tried for the .dwo as well as the one where it
 * was compiled. Both must outlive the struct. -ENOENT, -EBADMSG, -ENOMEM.
 */
TM_MUST_CHECK int split_open(struct split **ret_split, const struct unit *skeleton,
			     struct split_package *package, const struct elffile *module,
			     const struct debugfile_search *search, uint64_t max_bytes);
struct split *split_close(struct split *split);
struct unit *split_unit(struct split *split);
