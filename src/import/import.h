/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of importing: files of other tools become traces.
 *
 * A file is known by its content, never by its name; it may be plain, gzip or
 * zstd. Whatever it has goes through the same model and writer as a recording, so
 * that everything that opens traces opens the result. What it does not have is
 * said in the trace (enum trace_unknown), and facts about it (counts of what was
 * odd, rules that differ from ours) are sentences in it.
 *
 *	file ──> input (unpacks) ──> reader of its format ──┬─> events ──> model ──┬─> writer
 *	                                │                    └─> profile ───────────┘
 *	                                └─> frames (names, stacks, modules) ────────┘
 *
 * import/reader.h is for those who write a reader. docs/import.md says what is
 * made of each format.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_options {
	const char *name;    /* of the file, for messages */
	const char *format;  /* its name, as import_format_at() has it; NULL = by the content */
	const char *sysroot; /* where the files of its modules are looked for; NULL = here */
	const char *const *debug_dirs; /* like /usr/lib/debug, and tried before it */
	size_t debug_dir_count;
	/* Called now and then; total 0 = unknown. Not 0 stops: -ECANCELED. */
	int (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);
	void *ctx;
};

struct import_result {
	const char *format; /* static: "heaptrack" */
	uint64_t events;    /* read one by one */
	uint64_t stacks;
	uint64_t input_bytes; /* unpacked */
	bool cut;             /* the file ends within something: the rest is missing */
};

enum import_kind {
	IMPORT_UNKNOWN,
	IMPORT_TRACE,   /* a trace of our own, plain: no import needed */
	IMPORT_FOREIGN, /* import_run() reads it */
	IMPORT_PACKED,  /* a trace of our own, by gzip or zstd: import_unpack() */
};

/*
 * What the file is. fd must be seekable, and is at its start again after.
 * -errno only if it cannot be read.
 */
TM_MUST_CHECK int import_probe(int fd, enum import_kind *ret_kind, struct tm_error *err);

/*
 * Reads in_fd (seekable; from its start) and writes a trace to out_fd, which is
 * taken over as by trace_writer_open(), also on failure. -EBADMSG: it is no file
 * that is known, or damaged beyond use; -ECANCELED.
 */
TM_MUST_CHECK int import_run(int in_fd, int out_fd, const struct import_options *options,
			     struct import_result *ret_result, struct tm_error *err);

/*
 * Writes what a packed trace holds to out_fd. -EBADMSG: it is damaged, or far larger
 * than a trace, which is packed by itself, could become.
 */
TM_MUST_CHECK int import_unpack(int in_fd, int out_fd, struct tm_error *err);

/* Name and title of format number `index`; false at their end. */
bool import_format_at(size_t index, const char **ret_name, const char **ret_title);
