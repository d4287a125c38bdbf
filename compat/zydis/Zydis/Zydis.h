/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of the interface of the Zydis library as src/inject uses, for the
 * static build: there is no archive of the library to link.
 */
#pragma once

#include "decode.h"

#define ZYAN_SUCCESS(status) ((status) == 0)

#define ZYDIS_OPCODE_MAP_DEFAULT DECODE_MAP_PLAIN
#define ZYDIS_OPCODE_MAP_0F38    DECODE_MAP_0F38
#define ZYDIS_OPCODE_MAP_0F3A    DECODE_MAP_0F3A
#define ZYDIS_OPCODE_MAP_0F      DECODE_MAP_0F
#define ZYDIS_MNEMONIC_NOP       DECODE_NOP
#define ZYDIS_MNEMONIC_INT3      DECODE_INT3
#define ZYDIS_MNEMONIC_UD2       DECODE_UD2
#define ZYDIS_MNEMONIC_HLT       DECODE_HLT
#define ZYDIS_MNEMONIC_JMP       DECODE_JMP
#define ZYDIS_CATEGORY_UNCOND_BR DECODE_JUMP
#define ZYDIS_CATEGORY_COND_BR   DECODE_BRANCH
#define ZYDIS_CATEGORY_CALL      DECODE_CALL
#define ZYDIS_CATEGORY_RET       DECODE_RETURN
#define ZYDIS_ATTRIB_HAS_MODRM   DECODE_HAS_MODRM

enum { ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64 };

typedef struct decode_instruction ZydisDecodedInstruction;
typedef struct {
	int machine_mode;
} ZydisDecoder;

#define ZydisDecoderInit(decoder, mode, width) ((decoder)->machine_mode = (mode), (void)(width), 0)
#define ZydisDecoderDecodeInstruction(decoder, context, buffer, length, ret) \
	decode_instruction(buffer, length, ret)
#define ZydisMnemonicGetString(mnemonic) ((mnemonic) == DECODE_JMP ? "jmp" : "branch")
