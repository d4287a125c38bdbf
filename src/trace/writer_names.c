/* SPDX-License-Identifier: Apache-2.0 */
/* Writing names and source lines, which may come when their section has ended. */
#include "trace/writer_state.h"

#include "trace/rows.h"

#include <errno.h>

enum { WRITER_SYMBOL_BYTES = 4 << 20 }; /* a block of symbols ends here */

/* All that was put into the stream so far, as a block. */
static int seal_stream(struct trace_writer *w, struct stream *s, uint32_t section)
{
	struct sink_batch *batch = sink_batch_new(w->sink);
	uint32_t from[STREAM_COLUMNS] = {0};
	if (batch)
		writer_add_stream(batch, section, s, from);
	stream_restart(s);
	return sink_put(w->sink, batch);
}

/* 0 if records of that section may come, now or late. */
static int check_section(struct trace_writer *w, uint32_t section)
{
	if (w->error == 0 && section >= w->section + w->open)
		w->error = -EINVAL;
	return writer_error(w);
}

uint32_t trace_writer_section(const struct trace_writer *w)
{
	return w->section;
}

int trace_writer_late_symbols(struct trace_writer *w, uint32_t section,
			      const struct trace_symbol *symbols, size_t count)
{
	int rc = check_section(w, section);
	for (size_t i = 0; i < count && rc == 0; i++) {
		rows_put_symbol(&w->symbols, &symbols[i]);
		if (i + 1 == count || stream_bytes(&w->symbols) > WRITER_SYMBOL_BYTES)
			rc = seal_stream(w, &w->symbols, section);
	}
	return rc;
}

int trace_writer_late_sources(struct trace_writer *w, uint32_t section,
			      const struct trace_source_line *lines, size_t count)
{
	int rc = check_section(w, section);
	for (size_t i = 0; i < count && rc == 0; i++) {
		rows_put_source(&w->sources, &lines[i]);
		if (i + 1 == count || stream_bytes(&w->sources) > WRITER_SYMBOL_BYTES)
			rc = seal_stream(w, &w->sources, section);
	}
	return rc;
}

int trace_writer_symbols(struct trace_writer *w, const struct trace_symbol *symbols, size_t count)
{
	int rc = writer_check_open(w);
	return rc < 0 ? rc : trace_writer_late_symbols(w, w->section, symbols, count);
}

int trace_writer_sources(struct trace_writer *w, const struct trace_source_line *lines,
			 size_t count)
{
	int rc = writer_check_open(w);
	return rc < 0 ? rc : trace_writer_late_sources(w, w->section, lines, count);
}
