/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile traces under merge and anonymize: as they are, and with checksums made
 * right. What comes out of either must be sound, whatever went in.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/seal.h"
#include "model/anonymize.h"
#include "model/merge.h"
#include "model/verify.h"

enum { EVENTS_MAX = 1 << 17 };

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

static int on_problem(void *ctx, const struct trace_problem *problem)
{
	(void)ctx;
	fprintf(stderr, "not sound: %s\n", problem->text);
	__builtin_trap();
}

static void check_merged(const char *path)
{
	struct trace_check check = {.problem = on_problem};
	struct model_verified done;
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	if (trace_reader_open(path, &r, &err))
		__builtin_trap();
	(void)!trace_verify(r, &check, &err);
	(void)!model_verify(r, 0, &check, &done, &err);
	trace_reader_close(r);
}

/* Twice the same trace: two processes, or one piece that is given twice. */
static void merge(const char *path)
{
	struct file file = make_file();
	struct trace_reader *readers[2] = {NULL, NULL};
	struct trace_writer *w;
	struct merge_result result;
	struct tm_error err = {0};
	int code = trace_reader_open(path, &readers[0], &err);
	if (!code)
		code = trace_reader_open(path, &readers[1], &err);
	if (!code && trace_reader_section_count(readers[1]) > 1)
		code = trace_reader_select(readers[1], 0, &err);
	bool small = !code && is_small(readers[0]) && is_small(readers[1]);
	if (small &&
	    !trace_writer_open(dup(file.fd), &(struct trace_writer_options){0}, &w, &err)) {
		code = merge_sections(readers, 2, w, &(struct merge_options){0}, &result, &err);
		if (!trace_writer_close(w, &err) && !code)
			check_merged(file.path);
	}
	trace_reader_close(readers[0]);
	trace_reader_close(readers[1]);
	close(file.fd);
}

static void rename_words(const char *path)
{
	struct file file = make_file();
	struct words *words = NULL;
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	if (!words_new((struct words_key){1, 2}, &words, &err)) {
		const struct anonymize_options how = {.words = words};
		if (!anonymize(path, file.fd, &how, &err) && trace_reader_open(file.path, &r, &err))
			__builtin_trap();
	}
	trace_reader_close(r);
	words_free(words);
	close(file.fd);
}

static void try(const uint8_t *data, size_t size)
{
	struct file file = make_file();
	if (!io_write(file.fd, data, size)) {
		merge(file.path);
		rename_words(file.path);
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
