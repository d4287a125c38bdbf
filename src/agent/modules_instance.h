/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which instance id an object had before. Internal to modules*.c; used by one
 * rescan at a time.
 */
#pragma once

#include "agent/modules.h"

struct instances;

/* NULL: no memory. */
struct instances *instances_new(module_map_fn map, void *ctx);

/*
 * The id of this (path, build-id, program headers, bias): the old one if it is
 * remembered, else the next; 0 when all are used up. O(1).
 */
uint32_t instances_take(struct instances *instances, const struct module *module);
