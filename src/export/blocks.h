/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single blocks in one pass, each when its fate is known: in the order in which
 * they end, then those that never do. query_blocks() gives them in the order of
 * their allocation, and holds all of them for that.
 */
#pragma once

#include "export/export.h"

/* Memory: 64 bytes per live block that may be chosen. -ECANCELED, -ENOMEM, what fn returned. */
TM_MUST_CHECK int blocks_run(const struct export_input *input, enum query_blocks_mode mode,
			     query_block_fn fn, void *ctx, struct tm_error *err);
