/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void put_escaped(struct text *out, const unsigned char *in, size_t bytes)
{
	text_put_char(out, '"');
	while (bytes > 0) {
		uint32_t code = 0xfffd;
		size_t part = utf8_get(in, bytes, &code);
		if (part == 0) {
			text_put(out, "\xef\xbf\xbd");
			part = 1;
		} else if (code == '"' || code == '\\') {
			text_print(out, "\\%c", (char)code);
		} else if (code == '\n') {
			text_put(out, "\\n");
		} else if (code == '\t') {
			text_put(out, "\\t");
		} else if (code < 0x20 || code == 0x7f) {
			text_print(out, "\\u%04x", (unsigned)code);
		} else {
			text_put_bytes(out, in, part);
		}
		in += part;
		bytes -= part;
	}
	text_put_char(out, '"');
}

static void new_line(struct json *json)
{
	if (!json->pretty)
		return;
	text_put_char(json->out, '\n');
	text_put_repeated(json->out, ' ', 2 * (size_t)json->depth);
}

/* What stands before a value: comma, line, key. */
static void before_value(struct json *json, const char *key)
{
	if (json->has_value)
		text_put_char(json->out, ',');
	if (json->depth > 0)
		new_line(json);
	assert(!key == (json->depth == 0 || (json->is_array >> (json->depth - 1) & 1)));
	if (key) {
		put_escaped(json->out, (const unsigned char *)key, strlen(key));
		text_put(json->out, json->pretty ? ": " : ":");
	}
	json->has_value = true;
}

static void begin(struct json *json, const char *key, bool array)
{
	before_value(json, key);
	assert(json->depth < JSON_DEPTH_MAX);
	text_put_char(json->out, array ? '[' : '{');
	uint64_t bit = 1ull << json->depth;
	json->is_array = array ? json->is_array | bit : json->is_array & ~bit;
	json->depth++;
	json->has_value = false;
}

void json_begin_object(struct json *json, const char *key)
{
	begin(json, key, false);
}

void json_begin_array(struct json *json, const char *key)
{
	begin(json, key, true);
}

void json_end(struct json *json)
{
	assert(json->depth > 0);
	json->depth--;
	if (json->has_value)
		new_line(json);
	text_put_char(json->out, json->is_array >> json->depth & 1 ? ']' : '}');
	json->has_value = true;
}

void json_bytes(struct json *json, const char *key, const void *data, size_t bytes)
{
	before_value(json, key);
	put_escaped(json->out, data, bytes);
}

void json_string(struct json *json, const char *key, const char *value)
{
	if (value)
		json_bytes(json, key, value, strlen(value));
	else
		json_null(json, key);
}

void json_u64(struct json *json, const char *key, uint64_t value)
{
	before_value(json, key);
	text_print(json->out, "%" PRIu64, value);
}

void json_i64(struct json *json, const char *key, int64_t value)
{
	before_value(json, key);
	text_print(json->out, "%" PRIi64, value);
}

void json_hex(struct json *json, const char *key, uint64_t value)
{
	before_value(json, key);
	text_print(json->out, "\"0x%" PRIx64 "\"", value);
}

void json_double(struct json *json, const char *key, double value)
{
	char digits[40];
	if (!isfinite(value)) {
		json_null(json, key);
		return;
	}
	for (int precision = 6; precision <= 17; precision++) {
		snprintf(digits, sizeof digits, "%.*g", precision, value);
		if (strtod(digits, NULL) == value)
			break;
	}
	before_value(json, key);
	text_put(json->out, digits);
}

void json_bool(struct json *json, const char *key, bool value)
{
	before_value(json, key);
	text_put(json->out, value ? "true" : "false");
}

void json_null(struct json *json, const char *key)
{
	before_value(json, key);
	text_put(json->out, "null");
}
