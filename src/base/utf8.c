/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* Length that the first byte announces, 0 if no character begins with it. */
static size_t announced_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	if (first >= 0xf0 && first <= 0xf4)
		return 4;
	return 0;
}

size_t utf8_get(const void *in, size_t bytes, uint32_t *ret_code)
{
	static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *byte = in;
	size_t length = bytes ? announced_length(byte[0]) : 0;
	if (length == 0 || length > bytes)
		return 0;
	uint32_t code = byte[0] & first_bits[length];
	for (size_t i = 1; i < length; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (byte[i] & 0x3f);
	}
	if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return length;
}

size_t utf8_count(const void *in, size_t bytes)
{
	const unsigned char *byte = in;
	size_t count = 0;
	uint32_t code;
	for (size_t at = 0; at < bytes; count++) {
		size_t length = utf8_get(byte + at, bytes - at, &code);
		at += length ? length : 1;
	}
	return count;
}
