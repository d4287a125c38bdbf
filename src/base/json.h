/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON writer that streams into a text. Commas, indentation and escaping are
 * its business; bytes that are not UTF-8 become U+FFFD, so the result is always
 * valid. Errors stay in the text (text_error).
 *
 *	struct json json = {.out = &text, .pretty = true};
 *	json_begin_object(&json, NULL);
 *	json_u64(&json, "pid", 17);
 *	json_begin_array(&json, "sites");
 *	json_string(&json, NULL, "main");
 *	json_end(&json);
 *	json_end(&json);
 *
 * The key is NULL for elements of an array and for the outermost value.
 */
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 64 };

struct json {
	struct text *out;
	bool pretty; /* one value per line, indented by two spaces */
	/* For those who write figures: they are estimates by this interval, 0: exact. */
	uint64_t sample_bytes;
	unsigned depth;    /* the rest is the writer's own */
	uint64_t is_array; /* bit n: the container at depth n + 1 is an array */
	bool has_value;    /* the open container has a value already */
};

void json_begin_object(struct json *json, const char *key);
void json_begin_array(struct json *json, const char *key);
void json_end(struct json *json); /* the innermost object or array */

void json_string(struct json *json, const char *key, const char *value); /* NULL writes null */
void json_bytes(struct json *json, const char *key, const void *data, size_t bytes);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_i64(struct json *json, const char *key, int64_t value);
/* "0x1f", as a string: a number of 64 bits is none that every reader keeps. */
void json_hex(struct json *json, const char *key, uint64_t value);
/* Shortest of up to 17 digits that reads back as the same; null if not finite. */
void json_double(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
