/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol buffers, as much as writing needs: fields appended to a text. A
 * message within a message is made in a text of its own first. Values of 0 and
 * empty strings are left out, as the format has it; repeated ones are not.
 */
#pragma once

#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/* A number on its own, seven bits per byte. */
void proto_varint(struct text *out, uint64_t value);
void proto_u64(struct text *out, uint32_t field, uint64_t value);
/* Strings, bytes, messages, packed numbers: also when empty. */
void proto_bytes(struct text *out, uint32_t field, const void *data, size_t bytes);
void proto_message(struct text *out, uint32_t field, const struct text *message);
