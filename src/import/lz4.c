/* SPDX-License-Identifier: Apache-2.0 */
#include "import/lz4.h"

#include <string.h>

enum { MATCH_MIN = 4, NIBBLE_MORE = 15, WILD_BYTES = 16 };

struct lz4 {
	const uint8_t *in, *in_end;
	uint8_t *out, *out_end, *out_first;
};

/* A length of 15 goes on in bytes of 255 and one that is less. False: the input ended. */
static int take_length(struct lz4 *z, size_t *length)
{
	uint8_t byte;
	if (*length != NIBBLE_MORE)
		return 1;
	do {
		if (z->in == z->in_end)
			return 0;
		byte = *z->in++;
		*length += byte;
	} while (byte == 255);
	return 1;
}

static enum lz4_end copy_literals(struct lz4 *z, size_t length)
{
	size_t left = (size_t)(z->in_end - z->in), room = (size_t)(z->out_end - z->out);
	/* Short ones are copied as if they were long, where there is room for that. */
	if (length <= WILD_BYTES && left >= WILD_BYTES && room >= WILD_BYTES) {
		memcpy(z->out, z->in, WILD_BYTES);
	} else {
		if (length > left)
			return LZ4_CUT;
		if (length > room)
			return LZ4_FULL;
		memcpy(z->out, z->in, length);
	}
	z->in += length;
	z->out += length;
	return LZ4_WHOLE;
}

static enum lz4_end copy_match(struct lz4 *z, size_t distance, size_t length)
{
	size_t room = (size_t)(z->out_end - z->out);
	if (distance == 0 || distance > (size_t)(z->out - z->out_first))
		return LZ4_BAD;
	if (length > room)
		return LZ4_FULL;
	const uint8_t *from = z->out - distance;
	if (distance >= WILD_BYTES && room >= length + WILD_BYTES) {
		for (size_t done = 0; done < length; done += WILD_BYTES)
			memcpy(z->out + done, from + done, WILD_BYTES);
	} else {
		/* It may overlap what it makes. */
		for (size_t i = 0; i < length; i++)
			z->out[i] = from[i];
	}
	z->out += length;
	return LZ4_WHOLE;
}

static enum lz4_end unpack(struct lz4 *z)
{
	while (z->in < z->in_end) {
		uint8_t token = *z->in++;
		size_t literals = token >> 4, match = token & 15;
		if (!take_length(z, &literals))
			return LZ4_CUT;
		enum lz4_end end = copy_literals(z, literals);
		if (end != LZ4_WHOLE || z->in == z->in_end)
			return end;
		if (z->in_end - z->in < 2)
			return LZ4_CUT;
		size_t distance = (size_t)z->in[0] | (size_t)z->in[1] << 8;
		z->in += 2;
		if (!take_length(z, &match))
			return LZ4_CUT;
		end = copy_match(z, distance, match + MATCH_MIN);
		if (end != LZ4_WHOLE)
			return end;
	}
	return LZ4_WHOLE;
}

enum lz4_end lz4_unpack(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes,
			size_t *ret_bytes)
{
	struct lz4 z = {
		.in = in,
		.in_end = in + in_bytes,
		.out = out,
		.out_end = out + out_bytes,
		.out_first = out,
	};
	enum lz4_end end = unpack(&z);
	*ret_bytes = (size_t)(z.out - out);
	return end;
}
