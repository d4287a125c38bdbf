/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random runs of a made-up program as the query code and its reference see them:
 * threads, reallocs that fail, pauses, marks, blocks that a fork left.
 */
#pragma once

#include "model/query.h"
#include "model_reference.h"
#include "query_reference.h"

enum { RECORDING_MARKS = 64 };

struct recording {
	char path[64];
	struct ref_model *ref; /* says which block each event is about */
	struct ref_source source;
	struct qref_run *run;
	struct model *model;
	struct trace_writer *writer;
	uint64_t births;
	unsigned cut_each, seal_each;
	uint32_t tick_events; /* of query_open() */
	bool addresses;
	bool no_failures; /* no realloc fails: then scans leave blocks of events out */
	bool pauses;      /* now and then births are not recorded; ends are */
	bool paused;
	uint64_t marks_ns[RECORDING_MARKS], pauses_ns[RECORDING_MARKS][2];
	size_t mark_count, pause_count;
	struct trace_reader *reader;
	struct query_section *section;
};

/* Below `below`, by the recording's own sequence. */
uint64_t recording_random(struct recording *rec, uint64_t below);
/* Whatever goes wrong stops the test. */
void recording_start(struct recording *rec, uint64_t seed);
/* So many events, then the section is open for questions. */
void recording_run(struct recording *rec, uint64_t events);
void recording_finish(struct recording *rec);
