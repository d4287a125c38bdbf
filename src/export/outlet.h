/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an export goes: text is gathered, packed if asked for, and handed on in
 * pieces. Append to outlet->text, call outlet_flush() after each row, test the error
 * there or at the end.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

enum outlet_packing { OUTLET_PLAIN, OUTLET_GZIP, OUTLET_ZSTD };

/* 0 or -errno. */
typedef int (*outlet_write_fn)(void *ctx, const void *data, size_t bytes);

struct outlet {
	struct text text;
	outlet_write_fn write;
	void *ctx;
	struct outlet_packer *packer; /* NULL: plain */
	int error;                    /* the first; then nothing is written any more */
};

/* -ENOMEM. */
TM_MUST_CHECK int outlet_open(struct outlet *outlet, enum outlet_packing packing,
			      outlet_write_fn write, void *ctx);
/* Hands on what was gathered if it is much. 0, or the first error. */
int outlet_flush(struct outlet *outlet);
/* Hands on the rest, releases all. 0, or the first error. */
TM_MUST_CHECK int outlet_close(struct outlet *outlet);

/* By the end of a file's name: .gz, .zst, else plain. */
enum outlet_packing outlet_packing_of(const char *path);
