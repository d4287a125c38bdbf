/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "harness/tap.h"

#include <math.h>

static void nests(void)
{
	struct text text = {0};
	struct json json = {.out = &text};
	json_begin_object(&json, NULL);
	json_string(&json, "program", "sqlite3");
	json_u64(&json, "bytes", UINT64_MAX);
	json_i64(&json, "change", INT64_MIN);
	json_begin_array(&json, "sites");
	json_begin_object(&json, NULL);
	json_end(&json);
	json_begin_array(&json, NULL);
	json_end(&json);
	json_u64(&json, NULL, 1);
	json_end(&json);
	json_bool(&json, "exact", true);
	json_null(&json, "end");
	json_string(&json, "name", NULL);
	json_end(&json);
	CHECK_STR(text_string(&text), "{\"program\":\"sqlite3\",\"bytes\":18446744073709551615,"
				      "\"change\":-9223372036854775808,\"sites\":[{},[],1],"
				      "\"exact\":true,\"end\":null,\"name\":null}");
	text_done(&text);
}

static void writes_addresses(void)
{
	struct text text = {0};
	struct json json = {.out = &text};
	json_begin_array(&json, NULL);
	json_hex(&json, NULL, 0);
	json_hex(&json, NULL, UINT64_MAX - 14);
	json_end(&json);
	CHECK_STR(text_string(&text), "[\"0x0\",\"0xfffffffffffffff1\"]");
	text_done(&text);
}

static void indents(void)
{
	struct text text = {0};
	struct json json = {.out = &text, .pretty = true};
	json_begin_object(&json, NULL);
	json_u64(&json, "pid", 1);
	json_begin_array(&json, "sites");
	json_u64(&json, NULL, 2);
	json_u64(&json, NULL, 3);
	json_end(&json);
	json_begin_object(&json, "none");
	json_end(&json);
	json_end(&json);
	CHECK_STR(text_string(&text), "{\n  \"pid\": 1,\n  \"sites\": [\n    2,\n    3\n  ],\n"
				      "  \"none\": {}\n}");
	text_done(&text);
}

static void any_name_is_valid(void)
{
	struct text text = {0};
	struct json json = {.out = &text};
	static const char name[] = "a\"\\\n\t\x01\x7f\xff\xc3\xa9\0z";
	json_bytes(&json, NULL, name, sizeof name - 1);
	CHECK_STR(text_string(&text),
		  "\"a\\\"\\\\\\n\\t\\u0001\\u007f\xef\xbf\xbd\xc3\xa9\\u0000z\"");
	text_done(&text);
}

static void check_double(double value, const char *want)
{
	struct text text = {0};
	struct json json = {.out = &text};
	json_double(&json, NULL, value);
	CHECK_STR(text_string(&text), want);
	text_done(&text);
}

static void fractions_are_short(void)
{
	check_double(0.1, "0.1");
	check_double(2, "2");
	check_double(1.0 / 3, "0.3333333333333333");
	check_double(NAN, "null");
	check_double(INFINITY, "null");
}

static const struct tap_case cases[] = {
	{.name = "scripts can read the report", .run = nests},
	{.name = "addresses are strings that a reader keeps", .run = writes_addresses},
	{.name = "people can read the report's JSON", .run = indents},
	{.name = "no name in a trace makes the JSON invalid", .run = any_name_is_valid},
	{.name = "fractions are exact and short", .run = fractions_are_short},
};
TAP_MAIN(cases)
