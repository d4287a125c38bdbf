/* SPDX-License-Identifier: Apache-2.0 */
/* How much the writing thread may take: of memory, time, and the processor. */
#include "trace/writer_state.h"

void trace_writer_shrink(struct trace_writer *w)
{
	sink_shrink(w->sink);
}

void trace_writer_hurry(struct trace_writer *w, bool hurried)
{
	sink_hurry(w->sink, hurried);
}

pthread_t trace_writer_worker(const struct trace_writer *w)
{
	return sink_thread(w->sink);
}
