/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the agent's unwind rules with those of libdw (elfutils) for every
 * row of a file. Both are evaluated on the same random registers and on memory
 * whose content is a hash of its address, so that equal results mean equal
 * rules, whatever form they are written in.
 */
#pragma once

#include <stdint.h>

struct cfi_compare_stats {
	uint64_t functions;
	uint64_t rows;
	uint64_t mismatches;
	uint64_t unanswered; /* libdw refuses what libgcc accepts: hand-written tables */
	uint64_t kinds[8];   /* rows by enum cfi_kind */
};

/*
 * Compare every `every`-th function of the file; adds to *stats. False: it cannot
 * be read or has no unwind table. Mismatches are written to stdout as comments.
 */
bool cfi_compare_file(const char *path, unsigned every, struct cfi_compare_stats *stats);
