/* SPDX-License-Identifier: Apache-2.0 */
/* The distinct addresses of a trace's stacks, and the symbols of each. */
#pragma once

#include "base/idmap.h"
#include "symbols/symbols.h"
#include "views/views.h"

struct chain {
	uint32_t module_id;
	uint64_t address;                   /* as looked up; of a mark: its number */
	const struct trace_symbol *symbols; /* innermost first; NULL = unnamed */
	uint32_t count;
	const struct trace_symbol *callee; /* called there, if it may have tail-called; or NULL */
};

struct chains {
	struct chain *list;
	size_t count, room;
	uint32_t *chain_of; /* by stack_id */
	struct idmap map;
};

/*
 * Finds the symbols in the trace, and for those it lacks, unless the input
 * forbids it, in this machine's files where the build-id is the recorded one.
 * What was found so is given to the caller: *ret_found points into *ret_symbols,
 * which may be NULL. -ENOMEM.
 */
TM_MUST_CHECK int chains_init(struct chains *chains, const struct view_input *input,
			      struct symbols **ret_symbols, struct trace_symbol **ret_found,
			      struct tm_error *err);
void chains_done(struct chains *chains);
