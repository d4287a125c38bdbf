/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQL layer: hostile queries on a small sound trace, and fixed queries on
 * hostile traces. An input that begins as a trace is one; any other is a query.
 * Whatever it does must end soon after it is told to stop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/seal.h"
#include "golden/scenario.h"
#include "sql/sql.h"
#include "trace/format.h"

enum { QUERY_NS = 50000000, ROWS = 100000, SMALL_MEMORY = 1 };

/* So that no value is optimised away. */
static volatile uint64_t seen;

static int stop_in_time(void *ctx, const struct sql_progress *progress)
{
	const uint64_t *end_ns = ctx;
	(void)progress;
	return clock_steady_ns() > *end_ns;
}

static int take_row(void *ctx, size_t count, const struct sql_value *values)
{
	unsigned *rows = ctx;
	for (size_t i = 0; i < count; i++) {
		seen += values[i].type == SQL_INTEGER ? (uint64_t)values[i].integer
						      : values[i].bytes;
		for (size_t k = 0; k < values[i].bytes; k++)
			seen += (unsigned char)values[i].text[k];
	}
	return ++*rows < ROWS ? 0 : -1;
}

static void run_query(struct sql *sql, const char *text, uint64_t *end_ns)
{
	unsigned rows = 0;
	const struct sql_sink sink = {.row = take_row, .ctx = &rows};
	*end_ns = clock_steady_ns() + QUERY_NS;
	while (*text && clock_steady_ns() < *end_ns) {
		struct tm_error err = {0};
		if (sql_run(sql, text, &text, &sink, &err) && !err.text[0])
			abort(); /* a failure without a sentence */
	}
}

static struct sql *open_path(const char *path, uint64_t *end_ns)
{
	struct sql_options options = {.no_lookup = true,
				      .memory_bytes = SMALL_MEMORY,
				      .progress = stop_in_time,
				      .progress_ctx = end_ns};
	struct trace_reader *reader = NULL;
	struct sql *sql = NULL;
	if (trace_reader_open(path, &reader, NULL) || sql_open(reader, &options, &sql, NULL))
		return NULL;
	return sql;
}

static void ask_trace(const uint8_t *data, size_t size)
{
	static const char questions[] =
		"SELECT *, stack_text(stack_id) FROM blocks;"
		"SELECT * FROM events;"
		"SELECT sum(size) FROM blocks WHERE stack_id IN (1, 7) AND free_ns < 1000000;"
		"SELECT count(*) FROM events WHERE op = 'alloc' AND size > 100 AND stack_id = 7;"
		"SELECT * FROM stacks; SELECT * FROM frames; SELECT * FROM threads;"
		"SELECT * FROM modules; SELECT * FROM timeline; SELECT * FROM stack_timeline;"
		"SELECT * FROM samples; SELECT * FROM maps; SELECT * FROM info;"
		"SELECT * FROM blocks WHERE block_id = 500; SELECT * FROM events WHERE event_id = "
		"900";
	uint64_t end_ns = UINT64_MAX;
	int fd = memfd_create("trace", MFD_CLOEXEC);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	struct sql *sql = fd >= 0 && !io_write(fd, data, size) ? open_path(path, &end_ns) : NULL;
	if (sql) {
		run_query(sql, questions, &end_ns);
		seen += sql_warning(sql) != NULL;
	}
	sql_close(sql);
	close(fd);
}

static void ask_query(const uint8_t *data, size_t size)
{
	static struct sql *sql; /* one for all: a query must leave it as it was */
	static uint64_t end_ns = UINT64_MAX;
	if (!sql) {
		struct trace_writer *writer = NULL;
		char path[] = "/tmp/tidemark-fuzz-XXXXXX";
		int fd = mkstemp(path);
		if (fd < 0 ||
		    trace_writer_open(fd, &(struct trace_writer_options){0}, &writer, NULL))
			abort();
		scenario_write(writer);
		if (trace_writer_close(writer, NULL))
			abort();
		sql = open_path(path, &end_ns);
		unlink(path);
	}
	char *text = tm_alloc(size + 1);
	if (!sql || !text)
		abort();
	memcpy(text, data, size);
	run_query(sql, text, &end_ns);
	tm_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t magic_bytes = strlen(FORMAT_FILE_MAGIC);
	if (size < magic_bytes || memcmp(data, FORMAT_FILE_MAGIC, magic_bytes)) {
		ask_query(data, size);
		return 0;
	}
	ask_trace(data, size);
	uint8_t *copy = seal_copy(data, size);
	if (copy)
		ask_trace(copy, size);
	tm_free(copy);
	return 0;
}
