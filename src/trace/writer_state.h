/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the writer share: see trace.h for what they do. */
#pragma once

#include "trace/encode.h"
#include "trace/sink.h"
#include "trace/stream.h"
#include "trace/sums.h"
#include "trace/trace.h"

/* In the order in which they are written: what events refer to comes before them. */
enum writer_stream {
	WRITER_MODULES,
	WRITER_STACKS,
	WRITER_THREADS,
	WRITER_MAPS,
	WRITER_SAMPLES,
	WRITER_MOMENTS,
	WRITER_STREAM_COUNT,
};

struct trace_writer {
	struct sink *sink;
	struct encode *encode;
	struct stream streams[WRITER_STREAM_COUNT];
	struct stream symbols, sources; /* empty between calls */
	struct stream refs;             /* journal only; since the last slice */
	struct sums sums;               /* over all slices so far */
	struct bytes curve;             /* facts of the slices since the last sums */
	uint64_t slice_end;             /* events up to the end of the last slice */
	uint64_t culled;                /* events of the section, as the last slice says */
	uint64_t unstored_before;       /* events of the sections before */
	struct trace_end ended;         /* the last end, as it was written */
	uint32_t sums_slices;           /* that the last sums had */
	uint64_t sums_rows;             /* of slices since the last sums */
	bool sums_off;                  /* no memory for them: readers do without */
	bool addresses, lean, open;
	bool gathers;          /* the file is bounded: rows that come one by one wait for others */
	uint64_t stream_bytes; /* a stream that grows beyond this is sealed */
	uint32_t section;      /* number of the open one, or of the next */
	int error;             /* of the producer's half; sticky */
	/* What the journal has of the open block of events. */
	uint32_t journal_events;
	uint32_t journal_from[COLUMN_COUNT];
	bool journal_stale; /* most of it is of no use: begin anew */
	uint64_t journal_bytes;
};

/* The first error of either half. */
int writer_error(const struct trace_writer *w);
/* May records be written now? 0, or why not. */
int writer_check_open(struct trace_writer *w);
/* What a stream has from `from` on, as a block. */
void writer_add_stream(struct sink_batch *batch, uint32_t section, const struct stream *s,
		       uint32_t from[STREAM_COLUMNS]);
