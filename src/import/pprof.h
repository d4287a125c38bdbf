/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of profile.proto: tables in memory, samples one by one. Nothing is
 * believed: ids that are not there are found missing, texts out of range are empty.
 */
#pragma once

#include "base/idmap.h"
#include "import/frames.h"

enum { PPROF_TYPES_MAX = 64 };
/* Numbers of the fields of a profile. */
enum {
	PPROF_TYPE = 1,
	PPROF_SAMPLE = 2,
	PPROF_MAPPING = 3,
	PPROF_LOCATION = 4,
	PPROF_FUNCTION = 5,
	PPROF_STRING = 6,
	PPROF_TIME = 9,
	PPROF_DURATION = 10,
	PPROF_COMMENT = 13
};

/* Bytes of a message or of packed numbers. */
struct pprof_span {
	const uint8_t *next, *end;
};

struct pprof_type {
	uint64_t type, unit; /* numbers of strings, as below */
};
struct pprof_function {
	uint64_t id, name, file;
};
struct pprof_line {
	uint64_t function_id;
	int64_t line;
};
struct pprof_location {
	uint64_t id, mapping_id, address;
	uint32_t first_line, line_count;
	uint32_t frame_id;
	bool frame_known; /* the reader's own, as frame_id */
};
struct pprof_mapping {
	uint64_t id, start, limit, offset, file, build_id;
	uint32_t module_id; /* the reader's own; 0 = none yet */
};
struct pprof_sample {
	struct pprof_span locations, values;
	uint64_t block_bytes;      /* its label "bytes"; 0 = none */
	uint8_t unpacked[2][8192]; /* numbers that do not come packed */
	size_t unpacked_bytes[2];
};

struct pprof_tables {
	struct pprof_type types[PPROF_TYPES_MAX];
	size_t type_count;
	struct pprof_function *functions;
	struct pprof_location *locations;
	struct pprof_line *lines;
	struct pprof_mapping *mappings;
	size_t function_count, location_count, line_count, mapping_count;
	size_t function_room, location_room, line_room, mapping_room;
	struct idmap function_map, location_map, mapping_map;
	char *bytes; /* of all strings */
	uint64_t *string_ends;
	size_t byte_count, byte_room, string_count, string_room;
	uint64_t comments[8];
	size_t comment_count;
	uint64_t time_ns, duration_ns;
	uint64_t odd; /* messages that made no sense */
	bool cut;     /* the file ends within one */
	bool read;    /* all are here: what comes again is not counted again */
};

bool pprof_recognise(const char *head, size_t bytes, bool whole);
/* All but the samples. -ENOMEM, -EFBIG, -EBADMSG. */
TM_MUST_CHECK int pprof_read_tables(struct pprof_tables *tables, struct import_input *in,
				    struct tm_error *err);
void pprof_tables_done(struct pprof_tables *tables);
/* Calls fn with each message of this field. */
typedef int (*pprof_message_fn)(void *ctx, struct pprof_span message, struct tm_error *err);
TM_MUST_CHECK int pprof_read(struct pprof_tables *tables, struct import_input *in, uint32_t field,
			     pprof_message_fn fn, void *ctx, struct tm_error *err);
/* False: the message is damaged. *ret points into it. */
bool pprof_read_sample(const struct pprof_tables *tables, struct pprof_span message,
		       struct pprof_sample *ret);
/* The next varint of packed ones; false at their end. */
bool pprof_next_number(struct pprof_span *numbers, uint64_t *ret);

/* Empty if there is none. */
struct frames_text pprof_string(const struct pprof_tables *tables, uint64_t number);
/* NULL if there is none. */
const struct pprof_function *pprof_function(const struct pprof_tables *tables, uint64_t id);
struct pprof_location *pprof_location(const struct pprof_tables *tables, uint64_t id);
struct pprof_mapping *pprof_mapping(const struct pprof_tables *tables, uint64_t id);
/* Hexadecimal digits to bytes: how many; 0 if it is something else. */
uint32_t pprof_hex(struct frames_text text, uint8_t *out, size_t room);
