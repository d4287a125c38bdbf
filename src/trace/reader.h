/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the reader share: see trace.h for what they do. */
#pragma once

#include "trace/decode.h"
#include "trace/reader_slices.h"
#include "trace/rows.h"
#include "trace/scan.h"
#include "trace/section.h"
#include "trace/source.h"
#include "trace/texts.h"
#include "trace/trace.h"

#include <stdatomic.h>

/* Records of one kind, loaded on first use. */
struct reader_table {
	void *rows;
	size_t count, room;
	bool loaded;
};

enum { READER_MEMORIES = 8 };

struct trace_reader {
	struct source source;
	/* Of decoders that are not at work: taken and given back by any thread. */
	_Atomic(struct decode_memory *) memories[READER_MEMORIES];
	struct scan scan;
	uint32_t section_number, section_count;
	struct section section;
	struct reader_slices slices;
	/* Facts of the selected section. */
	uint32_t stack_count, thread_count; /* ids below these are in the file */
	struct trace_meta meta;
	bool meta_loaded;
	struct trace_end end;
	struct texts texts;
	struct reader_table stacks, modules, threads, samples, maps, moments, symbols, sources,
		refs;
};

/* Load what the end and the journal's references say; called when a section is selected. */
TM_MUST_CHECK int reader_load_end(struct trace_reader *r, struct tm_error *err);
TM_MUST_CHECK int reader_load_refs(struct trace_reader *r, struct tm_error *err);
/* Slice number `index`, as readers count them. -EBADMSG, -ENOMEM, -ENOENT. */
TM_MUST_CHECK int reader_slice_load(struct trace_reader *r, size_t index, struct bytes *raw,
				    struct slices_reader *slices, struct tm_error *err);
/* Forget all that was loaded. */
void reader_forget(struct trace_reader *r);
