/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"
#include "harness/tap.h"

#include <errno.h>

static void bytes_are_readable(void)
{
	CHECK_STR(units_bytes(0).text, "0 B");
	CHECK_STR(units_bytes(999).text, "999 B");
	CHECK_STR(units_bytes(1000).text, "1.00 kB");
	CHECK_STR(units_bytes(1234).text, "1.23 kB");
	CHECK_STR(units_bytes(12345).text, "12.3 kB");
	CHECK_STR(units_bytes(123456).text, "123 kB");
	CHECK_STR(units_bytes(999499).text, "999 kB");
	CHECK_STR(units_bytes(999500).text, "1.00 MB");
	CHECK_STR(units_bytes(9994999).text, "9.99 MB");
	CHECK_STR(units_bytes(9995000).text, "10.0 MB");
	CHECK_STR(units_bytes(99949999).text, "99.9 MB");
	CHECK_STR(units_bytes(99950000).text, "100 MB");
	CHECK_STR(units_bytes(1200000000).text, "1.20 GB");
	CHECK_STR(units_bytes(UINT64_MAX).text, "18.4 EB");
}

static void counts_are_readable(void)
{
	CHECK_STR(units_count(999).text, "999");
	CHECK_STR(units_count(3400000).text, "3.40 M");
	CHECK_STR(units_grouped(0).text, "0");
	CHECK_STR(units_grouped(999).text, "999");
	CHECK_STR(units_grouped(1000).text, "1,000");
	CHECK_STR(units_grouped(12345678).text, "12,345,678");
	CHECK_STR(units_grouped(12345678901234567).text, "12,345,678,901,234,567");
	CHECK_STR(units_grouped(UINT64_MAX).text, "18446744073709551615");
}

static void durations_are_readable(void)
{
	const uint64_t second = 1000000000;
	CHECK_STR(units_duration(12).text, "12 ns");
	CHECK_STR(units_duration(1500).text, "1.50 us");
	CHECK_STR(units_duration(12000000).text, "12.0 ms");
	CHECK_STR(units_duration(5 * second).text, "5.00 s");
	CHECK_STR(units_duration(60 * second - 51000000).text, "59.9 s");
	CHECK_STR(units_duration(60 * second - 1).text, "1 min 00 s");
	CHECK_STR(units_duration(185 * second).text, "3 min 05 s");
	CHECK_STR(units_duration(3600 * second - 1).text, "1 h 00 min");
	CHECK_STR(units_duration(7380 * second).text, "2 h 03 min");
	CHECK_STR(units_duration(86400 * second - 1).text, "1 d 00 h");
	CHECK_STR(units_duration((86400 * 2 + 4 * 3600) * second).text, "2 d 04 h");
	CHECK_STR(units_duration(UINT64_MAX).text, "213504 d 00 h");
}

static void check_bytes(const char *text, uint64_t want)
{
	uint64_t bytes = 0;
	struct tm_error err = {0};
	CHECK_EQ_I64(units_parse_bytes(text, &bytes, &err), 0);
	if (!CHECK_EQ_U64(bytes, want))
		tap_note("'%s': %s", text, err.text);
}

static void sizes_are_understood(void)
{
	check_bytes("0", 0);
	check_bytes("4096", 4096);
	check_bytes("64K", 65536);
	check_bytes("64KiB", 65536);
	check_bytes("64kB", 64000);
	check_bytes("1.5G", 1610612736);
	check_bytes("1.5 GiB", 1610612736);
	check_bytes("100MB", 100000000);
	check_bytes("18446744073709551614", UINT64_MAX - 1);
	uint64_t bytes = 42;
	struct tm_error err = {0};
	static const char *const wrong[] = {"", "x", "K", "-1", "1Q", "1 K x", ".5", "0x10", "1KK"};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		CHECK_EQ_I64(units_parse_bytes(wrong[i], &bytes, &err), -EINVAL);
	CHECK_HAS(err.text, "'1KK' is not a size");
	CHECK_EQ_I64(units_parse_bytes("99999999999999999999", &bytes, &err), -ERANGE);
	CHECK_EQ_I64(units_parse_bytes("99999999T", &bytes, &err), -ERANGE);
	CHECK_EQ_U64(bytes, 42);
}

static void check_duration(const char *text, uint64_t want)
{
	uint64_t ns = 0;
	struct tm_error err = {0};
	CHECK_EQ_I64(units_parse_duration(text, &ns, &err), 0);
	if (!CHECK_EQ_U64(ns, want))
		tap_note("'%s': %s", text, err.text);
}

static void durations_are_understood(void)
{
	check_duration("5", 5000000000);
	check_duration("5s", 5000000000);
	check_duration("0.5s", 500000000);
	check_duration("250ms", 250000000);
	check_duration("2m", 120000000000);
	check_duration("1.5h", 5400000000000);
	check_duration("1d", 86400000000000);
	uint64_t ns = 42;
	CHECK_EQ_I64(units_parse_duration("soon", &ns, NULL), -EINVAL);
	CHECK_EQ_I64(units_parse_duration("999999999d", &ns, NULL), -ERANGE);
	CHECK_EQ_U64(ns, 42);
}

static const struct tap_case cases[] = {
	{.name = "sizes in the report read well and round right", .run = bytes_are_readable},
	{.name = "counts in the report read well", .run = counts_are_readable},
	{.name = "durations in the report read well", .run = durations_are_readable},
	{.name = "sizes on the command line mean what people mean", .run = sizes_are_understood},
	{.name = "durations on the command line likewise", .run = durations_are_understood},
};
TAP_MAIN(cases)
