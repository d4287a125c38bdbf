/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder know of a struct symbols beyond its front door. */
#pragma once

#include "symbols/strpool.h"
#include "symbols/symbols.h"

/* Lines are wanted, but not in this process. */
bool set_wants_lines(const struct symbols *s);
/* This process may crash: read debug information here, and tell there what happens. */
void set_become_worker(struct symbols *s, symbols_warn_fn warn, symbols_progress_fn progress,
		       void *ctx);
uint64_t set_lines_budget_ns(const struct symbols *s);
struct strpool *set_strings(struct symbols *s);
void set_warn(struct symbols *s, const char *sentence);
void set_progress(struct symbols *s, const char *what, uint64_t done, uint64_t total);
/* Processes that may read debug information at once. */
uint32_t set_workers(const struct symbols *s);
