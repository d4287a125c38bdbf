/* SPDX-License-Identifier: Apache-2.0 */
/* An ELF file laid out in memory as the loader would, without running it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/cfi.h"

struct cfi_loaded {
	uint8_t *memory;
	size_t bytes;
	uintptr_t bias; /* run-time address = bias + ELF address */
	struct cfi_image image;
};

/* False: not an ELF file with an unwind table. */
bool cfi_load(const char *path, struct cfi_loaded *ret);
void cfi_unload(struct cfi_loaded *loaded);
