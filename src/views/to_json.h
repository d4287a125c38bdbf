/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts as JSON, the same for the command line, the server and exports.
 * docs/report-json.md describes the keys.
 */
#pragma once

#include "base/json.h"
#include "model/query.h"
#include "views/views.h"

/* The keys of the figures into the open object. */
void view_json_figures(struct json *json, const struct view_figures *figures);
/* Objects "self" and "inclusive". */
void view_json_flat(struct json *json, const struct view_figures *self,
		    const struct view_figures *inclusive);
/* A frame as an object: element of an array, or under a key. */
void view_json_frame(struct json *json, const char *key, const struct view_frame *frame);
/* The frames of a stack, innermost first, as an array. */
void view_json_frames(struct json *json, const char *key, const struct view_data *data,
		      uint32_t stack);
/* What was run and how it ended; totals; how the recording went: keys into the open object. */
void view_json_run(struct json *json, const struct view_input *input,
		   const struct model_totals *totals);
void view_json_totals(struct json *json, const struct view_input *input,
		      const struct model_totals *totals);
/* The keys origin, unknown, facts: of imported files. */
void view_json_origin(struct json *json, const struct trace_meta *meta,
		      const struct trace_end *end);
void view_json_recording(struct json *json, const struct view_input *input);
/* "KEY_error" of an estimate, in bytes, where json->sample_bytes says that it is one. */
void view_json_error(struct json *json, const char *key, uint64_t bytes, uint64_t blocks);
/*
 * "marks" and "modes": [{"time_ns", "name"}], and "pauses": [{"start_ns", "end_ns"}] of that range,
 * into the open object.
 */
void view_json_moments(struct json *json, const struct query_section *section, uint64_t from_ns,
		       uint64_t to_ns);
/* As an object, or null. */
void view_json_rss(struct json *json, const char *key, const struct view_rss *rss);

/* "exit", "signal", "killed" ...; never NULL. */
const char *view_end_name(const struct trace_end *end);
/* The signal that ended the program, or 0. */
int view_end_signal(const struct trace_end *end);
/* As a shell would see it; false: it did not end, or nobody knows. */
bool view_end_status(const struct trace_end *end, int *ret_status);
/* "exact" frames have one of "none", "dwarf", "symtab", "dynsym", "jit". */
const char *view_source_name(uint8_t source);
