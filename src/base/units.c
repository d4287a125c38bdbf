/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t size;
};

/* value / size in units of 1 / parts, rounded. 128 bits for values near 2^64. */
static unsigned long long divide(uint64_t value, unsigned parts, uint64_t size)
{
	return (unsigned long long)(((unsigned __int128)value * parts + size / 2) / size);
}

/* value / size with three digits that count. */
static void put_scaled(struct units_text *out, uint64_t value, uint64_t size, const char *name)
{
	unsigned long long hundredths = divide(value, 100, size);
	unsigned long long tenths = divide(value, 10, size);
	if (hundredths < 1000)
		snprintf(out->text, sizeof out->text, "%llu.%02llu %s", hundredths / 100,
			 hundredths % 100, name);
	else if (tenths < 1000)
		snprintf(out->text, sizeof out->text, "%llu.%llu %s", tenths / 10, tenths % 10,
			 name);
	else
		snprintf(out->text, sizeof out->text, "%llu %s", divide(value, 1, size), name);
}

/*
 * The largest unit that leaves at least 1 when rounded; so 999,999 is 1.00 M and
 * not 1000 k. Units rise by 1,000 and the first has size 1.
 */
static struct units_text scaled_text(uint64_t value, const struct unit *units, unsigned count)
{
	struct units_text out;
	for (unsigned i = count - 1; i > 0; i--) {
		uint64_t size = units[i].size;
		if (value >= size - size / 2000) {
			put_scaled(&out, value, size, units[i].name);
			return out;
		}
	}
	snprintf(out.text, sizeof out.text, "%llu%s%s", (unsigned long long)value,
		 units[0].name[0] ? " " : "", units[0].name);
	return out;
}

#define COUNT_OF(table) (sizeof(table) / sizeof(table)[0])

struct units_text units_bytes(uint64_t bytes)
{
	static const struct unit units[] = {
		{"B", 1},
		{"kB", 1000},
		{"MB", 1000000},
		{"GB", 1000000000},
		{"TB", 1000000000000},
		{"PB", 1000000000000000},
		{"EB", 1000000000000000000},
	};
	return scaled_text(bytes, units, COUNT_OF(units));
}

struct units_text units_count(uint64_t count)
{
	static const struct unit units[] = {
		{"", 1},
		{"k", 1000},
		{"M", 1000000},
		{"G", 1000000000},
		{"T", 1000000000000},
		{"P", 1000000000000000},
		{"E", 1000000000000000000},
	};
	return scaled_text(count, units, COUNT_OF(units));
}

struct units_text units_grouped(uint64_t count)
{
	char digits[24];
	struct units_text out;
	/* At most 20 digits and 6 commas do not fit: beyond 10^17 leave the commas out. */
	int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
	int commas = length > 17 ? 0 : (length - 1) / 3;
	int at = length + commas;
	out.text[at] = '\0';
	for (int i = 0; i < length; i++) {
		if (commas && i > 0 && i % 3 == 0)
			out.text[--at] = ',';
		out.text[--at] = digits[length - 1 - i];
	}
	return out;
}

struct units_text units_duration(uint64_t nanoseconds)
{
	static const struct unit below_minute[] = {
		{"ns", 1},
		{"us", 1000},
		{"ms", 1000000},
		{"s", 1000000000},
	};
	/* Rounded before the choice, so that 59.9999 s is 1 min 00 s and not 60.0 s. */
	uint64_t seconds = nanoseconds / 1000000000 + (nanoseconds % 1000000000 >= 500000000);
	if (nanoseconds < 59950000000u)
		return scaled_text(nanoseconds, below_minute, COUNT_OF(below_minute));
	uint64_t minutes = (seconds + 30) / 60;
	uint64_t hours = (seconds + 1800) / 3600;
	struct units_text out;
	if (seconds < 3600)
		snprintf(out.text, sizeof out.text, "%u min %02u s", (unsigned)(seconds / 60),
			 (unsigned)(seconds % 60));
	else if (minutes < 24 * 60)
		snprintf(out.text, sizeof out.text, "%u h %02u min", (unsigned)(minutes / 60),
			 (unsigned)(minutes % 60));
	else
		snprintf(out.text, sizeof out.text, "%llu d %02u h",
			 (unsigned long long)(hours / 24), (unsigned)(hours % 24));
	return out;
}

/* Whole part and fraction, the fraction in billionths; the rest of the text after them. */
static const char *parse_number(const char *text, uint64_t *ret_whole, uint64_t *ret_billionths)
{
	const char *start = text;
	uint64_t whole = 0;
	uint64_t billionths = 0;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*text - '0'), &whole))
			whole = UINT64_MAX;
	if (text == start)
		return NULL;
	if (*text == '.') {
		uint64_t place = 100000000;
		for (text++; *text >= '0' && *text <= '9'; text++) {
			billionths += place * (uint64_t)(*text - '0');
			place /= 10;
		}
	}
	*ret_whole = whole;
	*ret_billionths = billionths;
	return text;
}

static const struct unit *find_unit(const char *name, const struct unit *units, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

struct quantity {
	const char *what;    /* for the sentence */
	const char *example; /* likewise */
	const struct unit *units;
	size_t unit_count;
};

static int parse_quantity(const char *text, const struct quantity *quantity, uint64_t *ret_value,
			  struct tm_error *err)
{
	uint64_t whole = 0;
	uint64_t billionths = 0;
	const char *rest = parse_number(text, &whole, &billionths);
	while (rest && *rest == ' ')
		rest++;
	const struct unit *unit =
		rest ? find_unit(rest, quantity->units, quantity->unit_count) : NULL;
	if (!unit)
		return tm_fail(err, -EINVAL, "'%.60s' is not a %s; write it as in %s", text,
			       quantity->what, quantity->example);
	unsigned __int128 value = (unsigned __int128)whole * unit->size +
				  (unsigned __int128)billionths * unit->size / 1000000000;
	if (whole == UINT64_MAX || value > UINT64_MAX)
		return tm_fail(err, -ERANGE, "the %s '%.60s' is too large", quantity->what, text);
	*ret_value = (uint64_t)value;
	return 0;
}

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)

int units_parse_bytes(const char *text, uint64_t *ret_bytes, struct tm_error *err)
{
	static const struct unit units[] = {
		{"", 1},         {"B", 1},           {"K", KIB},
		{"k", KIB},      {"M", MIB},         {"m", MIB},
		{"G", GIB},      {"g", GIB},         {"T", TIB},
		{"KiB", KIB},    {"MiB", MIB},       {"GiB", GIB},
		{"TiB", TIB},    {"kB", 1000},       {"KB", 1000},
		{"MB", 1000000}, {"GB", 1000000000}, {"TB", 1000000000000},
	};
	static const struct quantity size = {"size", "64K, 1.5G or 100MB", units, COUNT_OF(units)};
	return parse_quantity(text, &size, ret_bytes, err);
}

int units_parse_duration(const char *text, uint64_t *ret_ns, struct tm_error *err)
{
	static const struct unit units[] = {
		{"", 1000000000},
		{"s", 1000000000},
		{"ms", 1000000},
		{"us", 1000},
		{"ns", 1},
		{"m", 60 * 1000000000ull},
		{"min", 60 * 1000000000ull},
		{"h", 3600 * 1000000000ull},
		{"d", 24 * 3600 * 1000000000ull},
	};
	static const struct quantity duration = {"duration", "5s, 250ms or 1.5h", units,
						 COUNT_OF(units)};
	return parse_quantity(text, &duration, ret_ns, err);
}
