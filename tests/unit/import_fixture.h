/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A foreign file in memory, imported and opened: what the tests of the readers
 * have in common.
 */
#pragma once

#include "import/import.h"
#include "model/query.h"
#include "trace/trace.h"
#include "views/views.h"

#include <stddef.h>

struct imported {
	char in_path[64], out_path[64];
	int code; /* of import_run(); not 0: the rest is empty */
	struct tm_error err;
	struct import_result result;
	struct trace_reader *reader;
	struct query_section *query;
	struct view_input input;
	struct view_data *data;
	struct model_totals totals;
};

/* Writes the bytes to a file and imports it; the result must then open and be sound. */
void imported_init(struct imported *made, const void *bytes, size_t length);
void imported_text(struct imported *made, const char *text);
/* As before, packed by gzip or zstd first. */
void imported_gzip(struct imported *made, const void *bytes, size_t length);
void imported_zstd(struct imported *made, const void *bytes, size_t length);
void imported_done(struct imported *made);

/* Figures of the stack that reads "leaf;caller;...;root"; all 0 if there is none. */
struct view_figures imported_figures(const struct imported *made, const char *stack);
/* Has it this fact, or one that contains the text? */
bool imported_says(const struct imported *made, const char *text);
/* Every allocation fails in turn: each time an error in words, never a crash. */
void imported_without_memory(const void *bytes, size_t length);
/* Frees what it holds and checks that it fails cleanly: the sentence is not empty. */
void imported_refused(struct imported *made);
