/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader whose list and objects exist only in the answers of its peek
 * function: so a test decides what is loaded, where, and what changes between
 * two reads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/modules.h"

enum { FAKE_OBJECTS_MAX = 4096, FAKE_EVENTS_MAX = 1024 };

struct fake_object {
	uintptr_t bias;
	uint64_t build_id; /* 0: none */
	const char *path;
};

struct fake_event {
	uint32_t instance;
	uintptr_t start;
	bool mapped;
};

struct fake_loader {
	struct fake_object objects[FAKE_OBJECTS_MAX];
	uint32_t count;
	int32_t state;                                                      /* ELF_RT_* */
	void (*before_peek)(struct fake_loader *loader, uintptr_t address); /* may change things */
	uint64_t peeks;
	size_t mapped_bytes;
	bool refuse_memory;
	struct fake_event events[FAKE_EVENTS_MAX]; /* the latest, from 0 again when full */
	uint32_t event_count;
};

/* Memory that is not freed before the process ends. */
struct fake_loader *fake_loader_new(void);
struct modules *fake_modules_new(struct fake_loader *loader);

/* Append an object; its range is [bias, bias + 0x4000). */
void fake_load(struct fake_loader *loader, uintptr_t bias, uint64_t build_id, const char *path);
/* Remove the object at index, keeping the order of the rest. */
void fake_unload(struct fake_loader *loader, uint32_t index);
