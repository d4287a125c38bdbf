/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of x86-64: prefixes, opcode, ModRM, SIB, displacement, immediate.
 * Tables say, for each opcode of a map, whether ModRM and what immediate follow.
 *
 * Known limits: 3DNow!, XOP, APX and moves of control registers are refused.
 */
#include "decode.h"

#include <stdbool.h>
#include <string.h>

enum { LENGTH_MAX = 15 };

/* What follows an opcode. */
enum {
	M = 1,   /* ModRM */
	I8 = 2,  /* one byte */
	IZ = 4,  /* two bytes with prefix 66, else four */
	I16 = 8, /* two bytes */
	R = 16,  /* the immediate is relative to the next instruction */
	X = 32,  /* no such instruction, or none for us */
	S = 64,  /* special: see special() */
};

/* clang-format off */
#define ARITHMETIC M, M, M, M, I8, IZ
static const uint8_t plain[256] = {
	/* 00 */ ARITHMETIC, X, X, ARITHMETIC, X, X,
	/* 10 */ ARITHMETIC, X, X, ARITHMETIC, X, X,
	/* 20 */ ARITHMETIC, X, X, ARITHMETIC, X, X,
	/* 30 */ ARITHMETIC, X, X, ARITHMETIC, X, X,
	/* 40 */ X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
	/* 50 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	/* 60 */ X, X, X, M, X, X, X, X, IZ, M | IZ, I8, M | I8, 0, 0, 0, 0,
	/* 70 */ I8 | R, I8 | R, I8 | R, I8 | R, I8 | R, I8 | R, I8 | R, I8 | R,
	/* 78 */ I8 | R, I8 | R, I8 | R, I8 | R, I8 | R, I8 | R, I8 | R, I8 | R,
	/* 80 */ M | I8, M | IZ, X, M | I8, M, M, M, M, M, M, M, M, M, M, M, M,
	/* 90 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, X, 0, 0, 0, 0, 0,
	/* a0 */ S, S, S, S, 0, 0, 0, 0, I8, IZ, 0, 0, 0, 0, 0, 0,
	/* b0 */ I8, I8, I8, I8, I8, I8, I8, I8, S, S, S, S, S, S, S, S,
	/* c0 */ M | I8, M | I8, I16, 0, X, X, M | I8, M | IZ, I16 | I8, 0, I16, 0, 0, I8, X, 0,
	/* d0 */ M, M, M, M, X, X, X, 0, M, M, M, M, M, M, M, M,
	/* e0 */ I8 | R, I8 | R, I8 | R, I8 | R, I8, I8, I8, I8, S, S, X, I8 | R, 0, 0, 0, 0,
	/* f0 */ X, 0, X, X, 0, 0, M | S, M | S, 0, 0, 0, 0, 0, 0, M, M,
};

static const uint8_t two_byte[256] = {
	/* 00 */ M, M, M, M, X, 0, 0, 0, 0, 0, X, 0, X, M, 0, X,
	/* 10 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	/* 20 */ X, X, X, X, X, X, X, X, M, M, M, M, M, M, M, M,
	/* 30 */ 0, 0, 0, 0, 0, 0, X, 0, X, X, X, X, X, X, X, X,
	/* 40 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	/* 50 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	/* 60 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	/* 70 */ M | I8, M | I8, M | I8, M | I8, M, M, M, 0, X, X, X, X, M, M, M, M,
	/* 80 */ S, S, S, S, S, S, S, S, S, S, S, S, S, S, S, S,
	/* 90 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	/* a0 */ 0, 0, 0, M, M | I8, M, X, X, 0, 0, 0, M, M | I8, M, M, M,
	/* b0 */ M, M, M, M, M, M, M, M, M, M, M | I8, M, M, M, M, M,
	/* c0 */ M, M, M | I8, M, M | I8, M | I8, M | I8, M, 0, 0, 0, 0, 0, 0, 0, 0,
	/* d0 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	/* e0 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	/* f0 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
};
/* clang-format on */

struct state {
	const uint8_t *bytes;
	size_t count, at;
	bool bad;
	bool wide, half;     /* REX.W, prefix 66 */
	bool short_address;  /* prefix 67 */
	bool repeat, second; /* prefix f3, REX.B */
	bool vector;         /* VEX or EVEX */
	struct decode_instruction *out;
};

static uint8_t next(struct state *s)
{
	if (s->at >= s->count || s->at >= LENGTH_MAX) {
		s->bad = true;
		return 0;
	}
	return s->bytes[s->at++];
}

static int64_t number(struct state *s, unsigned size)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)next(s) << 8 * i;
	if (size && size < 8 && value >> (8 * size - 1))
		value |= ~UINT64_C(0) << 8 * size;
	return (int64_t)value;
}

/* Legacy prefixes, then REX, which counts only as the last. */
static uint8_t take_prefixes(struct state *s)
{
	for (;;) {
		uint8_t byte = next(s);
		switch (byte) {
		case 0x66:
			s->half = true;
			break;
		case 0x67:
			s->short_address = true;
			break;
		case 0xf3:
			s->repeat = true;
			break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0xf0:
		case 0xf2:
			break;
		default:
			if ((byte & 0xf0) != 0x40 || s->bad)
				return byte;
			s->wide = byte & 8;
			s->second = byte & 1;
			return next(s);
		}
	}
}

/* The opcode and its map. What follows of it, or X. */
static uint8_t take_vector_opcode(struct state *s, unsigned map, bool evex)
{
	uint8_t opcode = next(s);
	s->vector = true;
	s->out->opcode_map = (enum decode_map)map;
	s->out->opcode = opcode;
	if (map == DECODE_MAP_0F) {
		if (opcode == 0x77)
			return evex ? X : 0;
		if ((opcode & 0xf0) == 0x80)
			return X;
		uint8_t follows = two_byte[opcode];
		return M | (follows & I8);
	}
	if (map == DECODE_MAP_0F38 || (evex && (map == 5 || map == 6)))
		return M;
	return map == DECODE_MAP_0F3A ? M | I8 : X;
}

static uint8_t take_escape(struct state *s)
{
	uint8_t byte = next(s);
	if (byte == 0x38 || byte == 0x3a) {
		s->out->opcode_map = byte == 0x38 ? DECODE_MAP_0F38 : DECODE_MAP_0F3A;
		s->out->opcode = next(s);
		return byte == 0x38 ? M : M | I8;
	}
	s->out->opcode_map = DECODE_MAP_0F;
	s->out->opcode = byte;
	return two_byte[byte];
}

static uint8_t take_opcode(struct state *s)
{
	uint8_t byte = take_prefixes(s);
	if (byte == 0x0f)
		return take_escape(s);
	if (byte == 0xc5) {
		next(s);
		return take_vector_opcode(s, DECODE_MAP_0F, false);
	}
	if (byte == 0xc4) {
		unsigned map = next(s) & 0x1f;
		next(s);
		return take_vector_opcode(s, map, false);
	}
	if (byte == 0x62) {
		unsigned map = next(s) & 7;
		next(s);
		next(s);
		return take_vector_opcode(s, map, true);
	}
	s->out->opcode = byte;
	return plain[byte];
}

static void take_modrm(struct state *s)
{
	struct decode_instruction *out = s->out;
	out->raw.modrm.offset = (uint8_t)s->at;
	uint8_t byte = next(s);
	unsigned size = 0;
	out->attributes = DECODE_HAS_MODRM;
	out->raw.modrm.mod = byte >> 6;
	out->raw.modrm.reg = byte >> 3 & 7;
	out->raw.modrm.rm = byte & 7;
	if (out->raw.modrm.mod == 3)
		return;
	if (out->raw.modrm.rm == 4) {
		out->raw.sib.base = next(s) & 7;
		if (out->raw.sib.base == 5 && out->raw.modrm.mod == 0)
			size = 4;
	}
	if (out->raw.modrm.mod == 1)
		size = 1;
	else if (out->raw.modrm.mod == 2 || out->raw.modrm.rm == 5)
		size = 4;
	out->raw.disp.offset = (uint8_t)s->at;
	out->raw.disp.size = (uint8_t)(8 * size);
	out->raw.disp.value = number(s, size);
}

/* Immediates that depend on more than the opcode; their size. */
static unsigned special(struct state *s)
{
	struct decode_instruction *out = s->out;
	uint8_t opcode = out->opcode;
	if (out->opcode_map == DECODE_MAP_0F || opcode == 0xe8 || opcode == 0xe9) {
		out->raw.imm[0].is_relative = 1; /* near branches: prefix 66 does not shorten */
		s->bad |= s->half;
		return 4;
	}
	if (opcode >= 0xa0 && opcode <= 0xa3)
		return s->short_address ? 4 : 8;
	if (opcode >= 0xb8 && opcode <= 0xbf)
		return s->wide ? 8 : s->half ? 2 : 4;
	/* f6, f7: only "test" has one. */
	if (out->raw.modrm.reg > 1)
		return 0;
	return opcode == 0xf6 ? 1 : s->half && !s->wide ? 2 : 4;
}

static void take_immediate(struct state *s, uint8_t follows)
{
	struct decode_instruction *out = s->out;
	unsigned size = 0;
	if (follows & S)
		size = special(s);
	else if (follows & IZ)
		size = s->half && !s->wide ? 2 : 4;
	else if (follows & I16)
		size = 2 + (follows & I8 ? 1 : 0);
	else if (follows & I8)
		size = 1;
	if (follows & R)
		out->raw.imm[0].is_relative = 1;
	/* xbegin */
	if (out->opcode_map == DECODE_MAP_PLAIN && out->opcode == 0xc7 && out->raw.modrm.reg == 7)
		out->raw.imm[0].is_relative = 1;
	out->raw.imm[0].size = (uint8_t)(8 * size);
	out->raw.imm[0].value.s = number(s, size);
}

static void name_plain(const struct state *s, struct decode_instruction *out)
{
	uint8_t opcode = out->opcode, reg = out->raw.modrm.reg;
	if (opcode == 0x90 && !s->repeat && !s->second)
		out->mnemonic = DECODE_NOP;
	else if (opcode == 0xcc)
		out->mnemonic = DECODE_INT3;
	else if (opcode == 0xf4)
		out->mnemonic = DECODE_HLT;
	if (opcode == 0xc6 && reg == 7) /* xabort */
		out->meta.category = DECODE_JUMP;
	if (opcode == 0xe9 || opcode == 0xeb || (opcode == 0xff && (reg == 4 || reg == 5))) {
		out->mnemonic = DECODE_JMP;
		out->meta.category = DECODE_JUMP;
	} else if (opcode == 0xe8 || (opcode == 0xff && (reg == 2 || reg == 3))) {
		out->meta.category = DECODE_CALL;
	} else if ((opcode & 0xf0) == 0x70 || (opcode >= 0xe0 && opcode <= 0xe3) ||
		   (opcode == 0xc7 && reg == 7)) {
		out->meta.category = DECODE_BRANCH;
	} else if (opcode == 0xc2 || opcode == 0xc3 || opcode == 0xca || opcode == 0xcb ||
		   opcode == 0xcf) {
		out->meta.category = DECODE_RETURN;
	}
}

static void name_two_byte(struct decode_instruction *out)
{
	if (out->opcode == 0x0b)
		out->mnemonic = DECODE_UD2;
	else if (out->opcode == 0x1f)
		out->mnemonic = DECODE_NOP;
	else if ((out->opcode & 0xf0) == 0x80)
		out->meta.category = DECODE_BRANCH;
}

int decode_instruction(const void *bytes, size_t count, struct decode_instruction *ret)
{
	memset(ret, 0, sizeof *ret);
	struct state s = {.bytes = bytes, .count = count, .out = ret};
	uint8_t follows = take_opcode(&s);
	if (s.bad || (follows & X))
		return -1;
	if (follows & M)
		take_modrm(&s);
	/* 8f is pop; with another reg it is XOP. */
	s.bad |= ret->opcode_map == DECODE_MAP_PLAIN && ret->opcode == 0x8f &&
		 ret->raw.modrm.reg != 0;
	take_immediate(&s, follows);
	ret->length = (uint8_t)s.at;
	if (s.bad)
		return -1;
	if (!s.vector && ret->opcode_map == DECODE_MAP_PLAIN)
		name_plain(&s, ret);
	else if (!s.vector && ret->opcode_map == DECODE_MAP_0F)
		name_two_byte(ret);
	return 0;
}
