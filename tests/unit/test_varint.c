/* SPDX-License-Identifier: Apache-2.0 */
#include "base/varint.h"
#include "harness/tap.h"

static const uint64_t samples[] = {
	0,          1,
	127,        128,
	16383,      16384,
	UINT32_MAX, UINT64_MAX >> 1,
	1ull << 63, UINT64_MAX - 1,
	UINT64_MAX,
};
enum { SAMPLE_COUNT = sizeof samples / sizeof samples[0] };

static void numbers_come_back(void)
{
	for (int i = 0; i < SAMPLE_COUNT; i++) {
		uint8_t bytes[VARINT_BYTES_MAX];
		uint64_t value = 0;
		size_t length = varint_put(bytes, samples[i]);
		CHECK_EQ_U64(varint_length(samples[i]), length);
		CHECK_EQ_U64(varint_get(bytes, length, &value), length);
		CHECK_EQ_U64(value, samples[i]);
	}
	/* By hand: 300 = 0b10_0101100. */
	uint8_t bytes[VARINT_BYTES_MAX];
	CHECK_EQ_U64(varint_put(bytes, 300), 2);
	CHECK_EQ_U64(bytes[0], 0xac);
	CHECK_EQ_U64(bytes[1], 0x02);
}

static void cut_numbers_are_refused(void)
{
	for (int i = 0; i < SAMPLE_COUNT; i++) {
		uint8_t bytes[VARINT_BYTES_MAX];
		uint64_t value = 42;
		size_t length = varint_put(bytes, samples[i]);
		for (size_t cut = 0; cut < length; cut++)
			CHECK_EQ_U64(varint_get(bytes, cut, &value), 0);
		CHECK_EQ_U64(value, 42);
	}
}

static void overlong_numbers_are_refused(void)
{
	static const uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0xff, 0xff, 0x02};
	static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
					  0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
	uint64_t value = 42;
	CHECK_EQ_U64(varint_get(too_large, sizeof too_large, &value), 0);
	CHECK_EQ_U64(varint_get(endless, sizeof endless, &value), 0);
	CHECK_EQ_U64(value, 42);
}

static void signs_come_back(void)
{
	static const int64_t values[] = {0, -1, 1, -2, 2, INT64_MAX, INT64_MIN};
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		CHECK_EQ_I64(varint_unzigzag(varint_zigzag(values[i])), values[i]);
	CHECK_EQ_U64(varint_zigzag(-1), 1);
	CHECK_EQ_U64(varint_zigzag(1), 2);
	CHECK_EQ_U64(varint_zigzag(INT64_MIN), UINT64_MAX);
}

static const struct tap_case cases[] = {
	{.name = "stored numbers read back", .run = numbers_come_back},
	{.name = "a number cut off at the end of a block is noticed",
	 .run = cut_numbers_are_refused},
	{.name = "a damaged number is no endless one", .run = overlong_numbers_are_refused},
	{.name = "stored differences keep their sign", .run = signs_come_back},
};
TAP_MAIN(cases)
