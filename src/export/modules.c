/* SPDX-License-Identifier: Apache-2.0 */
#include "export/modules.h"

#include <errno.h>

#include "base/memory.h"

int modules_init(struct export_modules *modules, const struct view_input *facts)
{
	*modules = (struct export_modules){.facts = facts};
	modules->module_of = tm_alloc_array(facts->module_count + 1, sizeof *modules->module_of);
	int code = modules->module_of ? 0 : -ENOMEM;
	for (size_t i = 1; !code && i < facts->module_count; i++) {
		const char *path = facts->modules[i].path;
		size_t before = modules->paths.count;
		uint32_t number;
		if (!path || !path[0])
			continue;
		code = strings_number(&modules->paths, path, &number);
		if (!code && number == before)
			modules->module_of[number] = (uint32_t)i;
	}
	if (code)
		modules_done(modules);
	return code;
}

void modules_done(struct export_modules *modules)
{
	strings_done(&modules->paths);
	tm_free(modules->module_of);
	*modules = (struct export_modules){0};
}

const struct trace_module *modules_find(const struct export_modules *modules,
					const struct view_frame *frame)
{
	uint32_t number;
	if (!strings_find(&modules->paths, frame->module, &number))
		return NULL;
	return &modules->facts->modules[modules->module_of[number]];
}

uint64_t modules_address(const struct export_modules *modules, const struct view_frame *frame)
{
	const struct trace_module *module = modules_find(modules, frame);
	return module ? module->bias + frame->address : frame->address;
}
