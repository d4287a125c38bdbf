/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's file as it must lie in a process's memory: segments in place, relocated. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
	uint8_t *bytes;                  /* for address `base` once image_relocate() was called */
	size_t count;                    /* whole pages */
	uint64_t data_start, data_bytes; /* from the base: what must be writable */
	uint64_t relocations, relocation_count;
	uint64_t symbols, strings;
	size_t symbol_count, string_bytes;
};

/* -ENOEXEC: no agent of this kind. */
TM_MUST_CHECK int image_load(const char *path, struct image *ret, struct tm_error *err);
void image_done(struct image *image);
/* Once. */
void image_relocate(struct image *image, uint64_t base);
/* Offset from the base of an exported symbol; 0: there is none. */
uint64_t image_symbol(const struct image *image, const char *name);

/* Is the agent in that file of this tool's version? -EPROTONOSUPPORT: no; both are named. */
TM_MUST_CHECK int image_check_version(const char *path, struct tm_error *err);
