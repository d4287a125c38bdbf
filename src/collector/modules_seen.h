/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of a section. A stack may name a module before its record has
 * been merged (another thread emitted it), so an id is given at first sight
 * and the facts follow. Every change is remembered until it is written.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"

#include <stddef.h>

/* Instances of labels (the names of heaps and tags) follow those of modules. */
enum { MODULES_INSTANCE_MAX = 1 << 17 };

struct modules_seen {
	struct trace_module *rows; /* rows[module_id]; [0] unused; paths owned */
	uint8_t *dirty;            /* dirty[module_id]: to be written */
	uint32_t count;            /* ids [1, count) exist */
	uint32_t room;
	uint32_t dirty_count;
	uint32_t changes;      /* rises with each change of any row */
	uint32_t *by_instance; /* the agent's instance -> module_id; 0 not yet seen */
	uint32_t by_instance_count;
	uint32_t adopted; /* ids [1, adopted] came from the parent process */
	bool no_memory;   /* sticky: some module could not be kept */
};

void modules_seen_init(struct modules_seen *modules);
void modules_seen_done(struct modules_seen *modules);

/* module_id of the agent's instance, given now if need be; 0 for none or senseless. */
uint32_t modules_seen_id(struct modules_seen *modules, uint32_t instance);
/* A module record: facts are copied. path need not be terminated. */
void modules_seen_add(struct modules_seen *modules, uint32_t instance,
		      const struct trace_module *facts, const char *path, size_t path_bytes);
/* A module that the parent process had when it forked, under the next id. Before all others. */
void modules_seen_adopt(struct modules_seen *modules, const struct trace_module *facts);
void modules_seen_gone(struct modules_seen *modules, uint32_t instance, uint64_t time_ns);
