/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records to bytes and back, one pair of functions per kind. Getters check every
 * value; texts they return are copied into *texts, which outlives them.
 */
#pragma once

#include "trace/records.h"
#include "trace/stream.h"
#include "trace/texts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writing: one record more in the stream. */
void rows_put_stack(struct stream *s, const struct trace_stack *stack);
void rows_put_module(struct stream *s, const struct trace_module *module);
void rows_put_thread(struct stream *s, const struct trace_thread *thread);
void rows_put_map(struct stream *s, const struct trace_map_event *event);
void rows_put_sample(struct stream *s, const struct trace_sample *sample);
void rows_put_moment(struct stream *s, const struct trace_moment *moment);
void rows_put_ref(struct stream *s, uint64_t ordinal, uint32_t stack_id, uint64_t size_bytes);
void rows_put_symbol(struct stream *s, const struct trace_symbol *symbol);
void rows_put_source(struct stream *s, const struct trace_source_line *line);
/* Writing: a payload of its own. */
void rows_put_meta(struct bytes *out, const struct trace_meta *meta);
void rows_put_end(struct bytes *out, const struct trace_end *end);

/* Reading. state[] starts as zeros with each block; false if the bytes are bad. */
struct rows_reader {
	struct span columns[STREAM_COLUMNS];
	uint64_t last[STREAM_COLUMNS];
	struct texts *texts;
};
bool rows_get_stack(struct rows_reader *r, uint32_t stack_id, struct trace_stack *ret);
bool rows_get_module(struct rows_reader *r, struct trace_module *ret);
bool rows_get_thread(struct rows_reader *r, struct trace_thread *ret);
bool rows_get_map(struct rows_reader *r, struct trace_map_event *ret);
bool rows_get_sample(struct rows_reader *r, struct trace_sample *ret);
bool rows_get_moment(struct rows_reader *r, struct trace_moment *ret);
struct rows_ref {
	uint64_t ordinal, size_bytes;
	uint32_t stack_id;
};
bool rows_get_ref(struct rows_reader *r, struct rows_ref *ret);
bool rows_get_symbol(struct rows_reader *r, struct trace_symbol *ret);
bool rows_get_source(struct rows_reader *r, struct trace_source_line *ret);
bool rows_get_meta(struct span in, struct texts *texts, struct trace_meta *ret);
bool rows_get_end(struct span in, struct texts *texts, struct trace_end *ret);
