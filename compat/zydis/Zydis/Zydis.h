/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of the interface of the Zydis library as src/inject uses, for the
 * static build: there is no archive of the library to link. Lengths, branches and
 * operands relative to the instruction pointer; what it does not know it refuses.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ZYAN_SUCCESS(status) ((status) == 0)

enum { ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64 };
enum { ZYDIS_ATTRIB_HAS_MODRM = 1u << 0 };

typedef enum {
	ZYDIS_OPCODE_MAP_DEFAULT,
	ZYDIS_OPCODE_MAP_0F,
	ZYDIS_OPCODE_MAP_0F38,
	ZYDIS_OPCODE_MAP_0F3A,
	ZYDIS_OPCODE_MAP_MAP5 = 5,
	ZYDIS_OPCODE_MAP_MAP6 = 6,
} ZydisOpcodeMap;

typedef enum {
	ZYDIS_MNEMONIC_INVALID,
	ZYDIS_MNEMONIC_NOP,
	ZYDIS_MNEMONIC_INT3,
	ZYDIS_MNEMONIC_UD2,
	ZYDIS_MNEMONIC_HLT,
	ZYDIS_MNEMONIC_JMP,
} ZydisMnemonic;

typedef enum {
	ZYDIS_CATEGORY_INVALID,
	ZYDIS_CATEGORY_UNCOND_BR,
	ZYDIS_CATEGORY_COND_BR,
	ZYDIS_CATEGORY_CALL,
	ZYDIS_CATEGORY_RET,
} ZydisInstructionCategory;

typedef struct {
	int machine_mode;
} ZydisDecoder;

typedef struct {
	ZydisMnemonic mnemonic;
	uint8_t length;
	ZydisOpcodeMap opcode_map;
	uint8_t opcode;
	uint32_t attributes;
	struct {
		ZydisInstructionCategory category;
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
} ZydisDecodedInstruction;

int ZydisDecoderInit(ZydisDecoder *decoder, int machine_mode, int stack_width);
/* 0, or not: no instruction, or none that is known here. `context` is not used. */
int ZydisDecoderDecodeInstruction(const ZydisDecoder *decoder, void *context, const void *buffer,
				  size_t length, ZydisDecodedInstruction *ret);
const char *ZydisMnemonicGetString(ZydisMnemonic mnemonic);
