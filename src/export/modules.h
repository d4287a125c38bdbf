/* SPDX-License-Identifier: Apache-2.0 */
/* From a frame's module, which is a path, to the module's record. */
#pragma once

#include "export/export.h"
#include "export/strings.h"

struct export_modules {
	const struct view_input *facts;
	struct strings paths;
	uint32_t *module_of; /* by number of the path */
};
TM_MUST_CHECK int modules_init(struct export_modules *modules, const struct view_input *facts);
void modules_done(struct export_modules *modules);
/* NULL: it belongs to none. */
const struct trace_module *modules_find(const struct export_modules *modules,
					const struct view_frame *frame);
/* The address at run time. */
uint64_t modules_address(const struct export_modules *modules, const struct view_frame *frame);
