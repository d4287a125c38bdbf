/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"
#include "harness/tap.h"

#include <string.h>

static void check_code(const char *bytes, uint32_t want)
{
	uint32_t code = 0;
	CHECK_EQ_U64(utf8_get(bytes, strlen(bytes), &code), strlen(bytes));
	CHECK_EQ_U64(code, want);
}

static void characters_are_read(void)
{
	check_code("a", 'a');
	check_code("\xc2\x80", 0x80);
	check_code("\xdf\xbf", 0x7ff);
	check_code("\xe0\xa0\x80", 0x800);
	check_code("\xef\xbf\xbf", 0xffff);
	check_code("\xf0\x90\x80\x80", 0x10000);
	check_code("\xf4\x8f\xbf\xbf", 0x10ffff);
}

static void invalid_ones_are_refused(void)
{
	static const char *const invalid[] = {
		"\x80",             /* continuation first */
		"\xc0\xaf",         /* overlong '/' */
		"\xc1\xbf",         /* overlong */
		"\xe0\x9f\xbf",     /* overlong */
		"\xf0\x8f\xbf\xbf", /* overlong */
		"\xed\xa0\x80",     /* surrogate */
		"\xf4\x90\x80\x80", /* beyond U+10FFFF */
		"\xf5\x80\x80\x80",
		"\xff",
		"\xc3\x28",
		"\xe2\x82",
		"\xf0\x9f\x98",
	};
	for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++) {
		uint32_t code = 42;
		if (!CHECK_EQ_U64(utf8_get(invalid[i], strlen(invalid[i]), &code), 0))
			tap_note("number %zu", i);
		CHECK_EQ_U64(code, 42);
	}
	uint32_t code = 42;
	CHECK_EQ_U64(utf8_get("", 0, &code), 0);
}

static void columns_are_counted(void)
{
	CHECK_EQ_U64(utf8_count("", 0), 0);
	CHECK_EQ_U64(utf8_count("h\xc3\xa9t\xc3\xa9", 6), 4);
	CHECK_EQ_U64(utf8_count("a\xff\xe2\x82", 4), 4);
}

static const struct tap_case cases[] = {
	{.name = "names in any script are shown", .run = characters_are_read},
	{.name = "damaged names are noticed", .run = invalid_ones_are_refused},
	{.name = "columns line up", .run = columns_are_counted},
};
TAP_MAIN(cases)
