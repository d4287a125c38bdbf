/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several columns as one payload: how many, how long each, then one behind the
 * other. Each is packed on its own, because their bytes have little in common.
 */
#pragma once

#include "trace/bytes.h"

#include <stdbool.h>
#include <stddef.h>

enum { CONTAINER_COLUMNS_MAX = 64 };

void container_put(struct bytes *out, const struct span *columns, size_t count);
/* Columns beyond `count` are skipped, missing ones are empty. false if they do not fit. */
bool container_get(struct span payload, struct span *columns, size_t count);
/*
 * Where to cut a payload for packing: ends[] of at most CONTAINER_COLUMNS_MAX
 * parts; short columns stay together. The number of parts, at least 1.
 */
size_t container_cut(struct span payload, size_t ends[CONTAINER_COLUMNS_MAX]);
