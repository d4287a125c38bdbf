/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of x86-64, as far as moving them needs: their length, branches,
 * operands relative to the instruction pointer. What is not known is refused.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum decode_map {
	DECODE_MAP_PLAIN,
	DECODE_MAP_0F,
	DECODE_MAP_0F38,
	DECODE_MAP_0F3A,
	DECODE_MAP_5 = 5,
	DECODE_MAP_6 = 6,
};

enum decode_mnemonic {
	DECODE_OTHER,
	DECODE_NOP,
	DECODE_INT3,
	DECODE_UD2,
	DECODE_HLT,
	DECODE_JMP,
};

enum decode_category {
	DECODE_ORDINARY,
	DECODE_JUMP,
	DECODE_BRANCH, /* on a condition */
	DECODE_CALL,
	DECODE_RETURN,
};

enum { DECODE_HAS_MODRM = 1u << 0 };

/* Fields as Zydis has them: see Zydis/Zydis.h. */
struct decode_instruction {
	enum decode_mnemonic mnemonic;
	uint8_t length;
	enum decode_map opcode_map;
	uint8_t opcode;
	uint32_t attributes;
	struct {
		enum decode_category category;
	} meta;
	struct {
		struct {
			uint8_t mod, reg, rm, offset;
		} modrm;
		struct {
			uint8_t base;
		} sib;
		struct {
			int64_t value;
			uint8_t size, offset;
		} disp;
		struct {
			uint8_t is_relative, size;
			struct {
				int64_t s;
			} value;
		} imm[1];
	} raw;
};

/* 0, or -1: no instruction, or none that is known here. */
int decode_instruction(const void *bytes, size_t count, struct decode_instruction *ret);
