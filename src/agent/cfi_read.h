/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cursor over hostile bytes in memory: it never reads at or beyond `end`, and
 * remembers in `bad` that it was asked to; then all further answers are 0.
 * Internal to cfi_*.c. Freestanding.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cfi_cursor {
	uintptr_t at;
	uintptr_t end;
	bool bad;
};

/* DW_EH_PE_*: how a pointer is written. */
enum {
	CFI_PE_ULEB = 0x01,
	CFI_PE_DATA2 = 0x02,
	CFI_PE_DATA4 = 0x03,
	CFI_PE_DATA8 = 0x04,
	CFI_PE_SLEB = 0x09,
	CFI_PE_SDATA2 = 0x0a,
	CFI_PE_SDATA4 = 0x0b,
	CFI_PE_SDATA8 = 0x0c,
	CFI_PE_FORMAT = 0x0f,
	CFI_PE_PCREL = 0x10,
	CFI_PE_DATAREL = 0x30,
	CFI_PE_BASE = 0x70,
	CFI_PE_INDIRECT = 0x80,
	CFI_PE_OMIT = 0xff,
};

static inline bool cfi_read(struct cfi_cursor *cursor, void *ret, size_t bytes)
{
	if (cursor->bad || cursor->at > cursor->end || cursor->end - cursor->at < bytes) {
		cursor->bad = true;
		return false;
	}
	__builtin_memcpy(ret, (const void *)cursor->at, bytes);
	cursor->at += bytes;
	return true;
}

static inline void cfi_skip(struct cfi_cursor *cursor, uint64_t bytes)
{
	if (cursor->bad || cursor->at > cursor->end || cursor->end - cursor->at < bytes)
		cursor->bad = true;
	else
		cursor->at += bytes;
}

static inline uint8_t cfi_u8(struct cfi_cursor *cursor)
{
	uint8_t value = 0;
	cfi_read(cursor, &value, sizeof value);
	return value;
}

static inline uint16_t cfi_u16(struct cfi_cursor *cursor)
{
	uint16_t value = 0;
	cfi_read(cursor, &value, sizeof value);
	return value;
}

static inline uint32_t cfi_u32(struct cfi_cursor *cursor)
{
	uint32_t value = 0;
	cfi_read(cursor, &value, sizeof value);
	return value;
}

static inline uint64_t cfi_u64(struct cfi_cursor *cursor)
{
	uint64_t value = 0;
	cfi_read(cursor, &value, sizeof value);
	return value;
}

static inline uint64_t cfi_uleb(struct cfi_cursor *cursor)
{
	uint64_t value = 0;
	uint8_t byte;
	unsigned shift = 0;
	do {
		byte = cfi_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static inline int64_t cfi_sleb(struct cfi_cursor *cursor)
{
	uint64_t value = 0;
	uint8_t byte;
	unsigned shift = 0;
	do {
		byte = cfi_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		value |= ~0ull << shift;
	return (int64_t)value;
}

/*
 * A pointer in the given encoding. data_base: what "datarel" counts from, 0 if
 * nothing. An indirect pointer is consumed, and bad: nothing we need is.
 */
static inline uint64_t cfi_pointer(struct cfi_cursor *cursor, uint8_t encoding, uintptr_t data_base)
{
	uintptr_t here = cursor->at;
	uint64_t value = 0;

	switch (encoding & CFI_PE_FORMAT) {
	case 0:
	case CFI_PE_DATA8:
	case CFI_PE_SDATA8:
		value = cfi_u64(cursor);
		break;
	case CFI_PE_ULEB:
		value = cfi_uleb(cursor);
		break;
	case CFI_PE_SLEB:
		value = (uint64_t)cfi_sleb(cursor);
		break;
	case CFI_PE_DATA2:
		value = cfi_u16(cursor);
		break;
	case CFI_PE_SDATA2:
		value = (uint64_t)(int64_t)(int16_t)cfi_u16(cursor);
		break;
	case CFI_PE_DATA4:
		value = cfi_u32(cursor);
		break;
	case CFI_PE_SDATA4:
		value = (uint64_t)(int64_t)(int32_t)cfi_u32(cursor);
		break;
	default:
		cursor->bad = true;
	}
	if ((encoding & CFI_PE_BASE) == CFI_PE_PCREL)
		value += here;
	else if ((encoding & CFI_PE_BASE) == CFI_PE_DATAREL && data_base)
		value += data_base;
	else if (encoding & CFI_PE_BASE)
		cursor->bad = true;
	if (encoding & CFI_PE_INDIRECT)
		cursor->bad = true;
	return value;
}
