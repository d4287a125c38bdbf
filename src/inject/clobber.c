/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/clobber.h"

enum {
	CALLEES_MAX = 24,
	CALLEE_BYTES_MAX = 8 << 10,
	REX_R = 4,
	REX_B = 1,
	ESCAPE = 0x0f,
	REGISTER_FORM = 3, /* ModRM.mod: the operand is a register */
};

struct survey {
	uint32_t written, pushed;
	uint64_t callees[CALLEES_MAX];
	size_t callee_count;
};

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x66:
	case 0x67:
	case 0xf0:
	case 0xf2:
	case 0xf3:
		return true;
	default:
		return false;
	}
}

/* Opcodes of one byte whose ModRM.reg is the register that they write. */
static bool writes_reg(uint8_t opcode)
{
	switch (opcode) {
	case 0x03: /* add */
	case 0x0b: /* or */
	case 0x23: /* and */
	case 0x2b: /* sub */
	case 0x33: /* xor */
	case 0x63: /* movsxd */
	case 0x8b: /* mov */
	case 0x8d: /* lea */
		return true;
	default:
		return false;
	}
}

/* Those whose ModRM.rm is, if that is a register. `reg` is a part of some opcodes. */
static bool writes_rm(uint8_t opcode, uint8_t reg)
{
	enum { COMPARE = 7 };
	switch (opcode) {
	case 0x01: /* add */
	case 0x09: /* or */
	case 0x21: /* and */
	case 0x29: /* sub */
	case 0x31: /* xor */
	case 0x89: /* mov */
	case 0xc1: /* shifts */
	case 0xc7: /* mov */
	case 0xd1:
		return true;
	case 0x81: /* add, or, ... */
	case 0x83:
		return reg != COMPARE;
	default:
		return false;
	}
}

/* Opcodes after 0f whose ModRM.reg is the register that they write: movzx, movsx, imul. */
static bool escaped_writes_reg(uint8_t opcode)
{
	return opcode == 0xb6 || opcode == 0xb7 || opcode == 0xbe || opcode == 0xbf ||
	       opcode == 0xaf;
}

static uint32_t bit_of(uint8_t number, uint8_t rex, uint8_t extension)
{
	return 1u << (number & 7) << (rex & extension ? 8 : 0);
}

/* What an instruction plainly does, as far as it is plain. */
static void note_instruction(struct survey *survey, const uint8_t *bytes, size_t count)
{
	size_t at = 0;
	uint8_t rex = 0;
	while (at < count && is_prefix(bytes[at]))
		at++;
	if (at < count && (bytes[at] & 0xf0) == 0x40)
		rex = bytes[at++];
	if (at < count && bytes[at] >= 0xb8 && bytes[at] <= 0xbf) /* mov of a constant */
		survey->written |= bit_of(bytes[at], rex, REX_B);
	if (at < count && bytes[at] >= 0x50 && bytes[at] <= 0x57)
		survey->pushed |= bit_of(bytes[at], rex, REX_B);
	bool escaped = at < count && bytes[at] == ESCAPE;
	at += escaped;
	if (at + 2 > count)
		return;
	uint8_t opcode = bytes[at], modrm = bytes[at + 1], reg = modrm >> 3 & 7;
	if (escaped ? escaped_writes_reg(opcode) : writes_reg(opcode))
		survey->written |= bit_of(reg, rex, REX_R);
	else if (!escaped && modrm >> 6 == REGISTER_FORM && writes_rm(opcode, reg))
		survey->written |= bit_of(modrm, rex, REX_B);
}

static void note_callee(struct survey *survey, uint64_t target)
{
	if (survey->callee_count < CALLEES_MAX)
		survey->callees[survey->callee_count++] = target;
}

static void look_through(struct survey *survey, const struct reloc_code *code)
{
	size_t end = code->function_bytes < code->count ? code->function_bytes : code->count;
	struct reloc_seen seen;
	for (size_t at = 0; at < end; at += seen.bytes) {
		if (!reloc_see(code, at, &seen))
			return; /* what follows cannot be told from data */
		note_instruction(survey, code->bytes + at, seen.bytes);
		if (seen.target &&
		    (seen.target < code->address || seen.target >= code->address + end))
			note_callee(survey, seen.target);
	}
}

/* The function that begins at the ELF address; its size, 0: none is known. */
static uint64_t size_of(const struct plan_elf *elf, uint64_t address)
{
	for (size_t k = 0; k < elf->table_count; k++)
		for (size_t i = 0; i < elf->tables[k].count; i++) {
			const Elf64_Sym *symbol = &elf->tables[k].symbols[i];
			if (symbol->st_value == address && symbol->st_size &&
			    ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
			    symbol->st_shndx != SHN_UNDEF)
				return symbol->st_size;
		}
	return 0;
}

/* Of a function that is called, or jumped to. */
static uint32_t written_at(const struct plan_elf *elf, uint64_t address, uint64_t bias)
{
	uint8_t bytes[CALLEE_BYTES_MAX];
	uint64_t size = size_of(elf, address - bias);
	size_t wanted = size < sizeof bytes ? (size_t)size : sizeof bytes;
	struct survey survey = {0};
	const struct reloc_code code = {
		.bytes = bytes,
		.count = wanted ? plan_elf_code(elf, address - bias, bytes, wanted) : 0,
		.function_bytes = (size_t)size,
		.address = address,
	};
	look_through(&survey, &code);
	return survey.written & ~survey.pushed;
}

uint32_t clobber_find(const struct reloc_code *code, const struct plan_elf *elf, uint64_t bias)
{
	const uint32_t all = CLOBBER_RAX | CLOBBER_OTHERS;
	struct survey survey = {0};
	look_through(&survey, code);
	for (size_t i = 0; i < survey.callee_count && (survey.written & all) != all; i++)
		survey.written |= written_at(elf, survey.callees[i], bias);
	return survey.written & ~survey.pushed & all;
}
