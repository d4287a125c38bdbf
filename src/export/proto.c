/* SPDX-License-Identifier: Apache-2.0 */
#include "export/proto.h"

#include "base/varint.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, FIELD_SHIFT = 3 };

void proto_varint(struct text *out, uint64_t value)
{
	uint8_t bytes[VARINT_BYTES_MAX];
	text_put_bytes(out, bytes, varint_put(bytes, value));
}

void proto_u64(struct text *out, uint32_t field, uint64_t value)
{
	if (!value)
		return;
	proto_varint(out, (uint64_t)field << FIELD_SHIFT | WIRE_VARINT);
	proto_varint(out, value);
}

void proto_bytes(struct text *out, uint32_t field, const void *data, size_t bytes)
{
	proto_varint(out, (uint64_t)field << FIELD_SHIFT | WIRE_BYTES);
	proto_varint(out, bytes);
	if (bytes)
		text_put_bytes(out, data, bytes);
}

void proto_message(struct text *out, uint32_t field, const struct text *message)
{
	if (message->error && !out->error)
		out->error = message->error;
	proto_bytes(out, field, message->data, message->length);
}
