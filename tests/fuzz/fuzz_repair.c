/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile traces under verify, repair and trim: as they are, and with checksums
 * made right. What repair makes of one must be sound, whatever it was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/seal.h"
#include "model/repair.h"
#include "model/trim.h"
#include "model/verify.h"
#include "trace/trace.h"

enum { SECTIONS_MAX = 4, EVENTS_MAX = 1 << 18 };

struct file {
	int fd;
	char path[64];
};

static struct file make_file(void)
{
	struct file file = {.fd = memfd_create("trace", MFD_CLOEXEC)};
	snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
	return file;
}

static int on_problem(void *ctx, const struct trace_problem *problem)
{
	struct trace_problem *first = ctx;
	if (first && !first->text[0])
		*first = *problem;
	return 0;
}

/* Headers may promise any number of events; those of the corpus are few. */
static bool is_small(struct trace_reader *r)
{
	uint64_t events = 0;
	for (size_t i = 0; i < trace_reader_event_block_count(r); i++) {
		struct trace_event_block block;
		if (!trace_reader_event_block(r, i, &block))
			events += block.event_count;
	}
	return events < EVENTS_MAX;
}

static void verify(struct trace_reader *r, struct trace_problem *first)
{
	struct trace_check check = {.problem = on_problem, .ctx = first};
	struct model_verified done;
	struct tm_error err;
	(void)!trace_verify(r, &check, &err);
	for (size_t i = 0; i < trace_reader_section_count(r) && i < SECTIONS_MAX; i++)
		if (!trace_reader_select(r, i, &err) && is_small(r))
			(void)!model_verify(r, i, &check, &done, &err);
}

/* The first problem of a file that was written here. */
static void check_written(const char *path)
{
	struct trace_reader *r = NULL;
	struct trace_problem first = {.text = ""};
	struct tm_error err = {0};
	if (trace_reader_open(path, &r, &err)) {
		fprintf(stderr, "cannot be opened: %s\n", err.text);
		__builtin_trap();
	}
	verify(r, &first);
	if (first.text[0]) {
		fprintf(stderr, "not sound: %s\n", first.text);
		__builtin_trap();
	}
	trace_reader_close(r);
}

static void repair(struct trace_reader *r)
{
	struct file file = make_file();
	struct trace_writer_options options = {.addresses = true};
	struct trace_writer *w;
	struct repair_result result;
	struct tm_error err = {0};
	int code = trace_writer_open(dup(file.fd), &options, &w, &err);
	size_t written = 0;
	if (code)
		return;
	for (size_t i = 0; i < trace_reader_section_count(r) && i < SECTIONS_MAX && !code; i++) {
		code = trace_reader_select(r, i, &err);
		if (code || !is_small(r))
			continue;
		code = repair_section(r, w, &(struct repair_options){0}, &result, &err);
		written++;
	}
	if (!trace_writer_close(w, &err) && !code && written)
		check_written(file.path);
	close(file.fd);
}

static void trim(struct trace_reader *r)
{
	struct file file = make_file();
	struct trace_writer_options options = {.addresses = true};
	struct trim_options part = {.from_ns = 300000, .to_ns = 900000};
	struct trim_result result;
	struct trace_writer *w;
	struct tm_error err = {0};
	if (!is_small(r) || trace_writer_open(dup(file.fd), &options, &w, &err)) {
		close(file.fd);
		return;
	}
	int code = trim_section(r, w, &part, &result, &err);
	if (!trace_writer_close(w, &err) && !code)
		check_written(file.path);
	close(file.fd);
}

static void try(const uint8_t *data, size_t size)
{
	struct file file = make_file();
	struct trace_reader *r = NULL;
	struct tm_error err;
	if (!io_write(file.fd, data, size) && !trace_reader_open(file.path, &r, &err)) {
		verify(r, NULL);
		repair(r);
		if (!trace_reader_select(r, trace_reader_section_count(r) - 1, &err))
			trim(r);
		trace_reader_close(r);
	}
	close(file.fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try(data, size);
	uint8_t *copy = seal_copy(data, size);
	if (copy)
		try(copy, size);
	tm_free(copy);
	return 0;
}
