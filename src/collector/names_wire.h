/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the drain thread and the process that looks up names say to each other,
 * over a socket that keeps messages whole. Both are of one build, so structs are
 * sent as they are; but who answers has read hostile files, and is believed
 * nothing about sizes.
 *
 *   collector -> namer   MODULE, REQUESTS, END; STREAM on the control socket
 *   namer -> collector   SYMBOLS, SOURCES, WARNING; END when all is answered
 */
#pragma once

#include <stdint.h>

enum names_kind {
	NAMES_MODULE = 1,
	NAMES_REQUESTS,
	NAMES_END,
	NAMES_SYMBOLS,
	NAMES_SOURCES,
	NAMES_WARNING, /* a sentence, terminated */
	NAMES_STREAM,  /* with a descriptor: the other end of a new stream */
};

enum {
	NAMES_MESSAGE_MAX = 56 * 1024, /* a default socket buffer holds three */
	NAMES_REQUESTS_MAX = 2000,
	NAMES_TEXT_MAX = 16 * 1024, /* of a function's or file's name, with its end; cut beyond */
};

struct names_head {
	uint32_t kind;
	uint32_t count; /* records that follow */
};

struct names_stream {
	struct names_head head;
	int32_t pid;
	uint32_t embed_source;
	/* Facts of the process while it lives: it may be gone when the namer gets to it. */
	uint64_t start_ns; /* wall clock; UINT64_MAX unknown */
	uint32_t user;
	int32_t inner_pid; /* as it sees itself; 0 unknown */
};

/* Followed by the path, terminated. */
struct names_module {
	struct names_head head;
	uint32_t module_id, build_id_bytes;
	uint64_t bias, start, end;
	uint8_t build_id[64];
};

struct names_request {
	uint64_t address;
	uint64_t time_ns; /* CLOCK_MONOTONIC when it was first seen */
	uint32_t module_id;
	uint32_t reserved;
};

/* Followed by its texts, each with its end; 0 bytes = there is none. */
struct names_symbol {
	uint64_t address;
	uint32_t module_id, line, column;
	uint32_t function_bytes, file_bytes;
	uint8_t inlined, source, reserved[2];
};

struct names_line {
	uint32_t line, file_bytes, text_bytes;
};
