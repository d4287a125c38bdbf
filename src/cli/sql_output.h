/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a query on standard output: an aligned table, CSV or JSON. */
#pragma once

#include "base/json.h"
#include "cli/out.h"
#include "sql/sql.h"

enum sql_format { SQL_FORMAT_TABLE, SQL_FORMAT_CSV, SQL_FORMAT_JSON };

struct sql_cell { /* a piece of cells */
	size_t offset, bytes;
	unsigned columns; /* that it takes on a screen */
};

struct sql_output {
	enum sql_format format;
	struct out out;         /* what is not yet written */
	void (*before)(void *); /* called before anything is written; may be NULL */
	void *before_ctx;
	struct json json;
	uint64_t rows;
	size_t count; /* columns */
	char **names;
	/* The first rows of a table wait here until the widths are known. */
	struct text cells;
	struct sql_cell *waiting;
	size_t waiting_count, waiting_room;
	unsigned *widths;
	bool *is_text; /* by column: aligned to the left */
	bool has_widths;
};

/* Standard output as it is now. */
void sql_output_init(struct sql_output *output, enum sql_format format, enum out_color color);
void sql_output_done(struct sql_output *output);
/* To be given to sql_run(). */
struct sql_sink sql_output_sink(struct sql_output *output);
/* After a statement, also one that failed: writes what is left. -EPIPE if nobody reads. */
TM_MUST_CHECK int sql_output_end(struct sql_output *output);
/* Writes output->out. */
TM_MUST_CHECK int sql_output_flush(struct sql_output *output);
