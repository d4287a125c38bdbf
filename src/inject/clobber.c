/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/clobber.h"

#include <string.h>

#include "inject/plan_extent.h"

enum {
	CALLEES_MAX = 24,
	CALLEE_BYTES_MAX = 8 << 10,
	REX_R = 4,
	REX_B = 1,
	STUB_BYTES = 16,
	ESCAPE = 0x0f,
	REGISTER_FORM = 3, /* ModRM.mod: the operand is a register */
};

/* A function that is called, or jumped to. */
struct callee {
	uint64_t address;
	uint32_t kept; /* what those on the way to it push */
};

struct survey {
	uint32_t written, pushed;
	struct callee callees[CALLEES_MAX];
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

/*
 * A call of whatever a pointer says, or a jump through a pointer at a fixed place:
 * no compiler can know what that function leaves alone.
 */
static bool goes_anywhere(const uint8_t *bytes)
{
	enum { GROUP = 0xff, CALL = 2, JUMP_BY_RIP = 0x25 };
	return bytes[0] == GROUP && ((bytes[1] >> 3 & 7) == CALL || bytes[1] == JUMP_BY_RIP);
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
	if (at + 2 <= count && goes_anywhere(bytes + at))
		survey->written |= CLOBBER_RAX | CLOBBER_OTHERS;
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
	for (size_t i = 0; i < survey->callee_count; i++)
		if (survey->callees[i].address == target)
			return;
	if (survey->callee_count < CALLEES_MAX)
		survey->callees[survey->callee_count++] = (struct callee){.address = target};
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
	return plan_extent(elf, address);
}

/* Is it a stub of the linker's for a function of another module? */
static bool is_stub(const uint8_t *bytes, size_t count)
{
	static const uint8_t landing[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
	size_t at = 0;
	if (count >= sizeof landing && memcmp(bytes, landing, sizeof landing) == 0)
		at += sizeof landing;
	while (at < count && is_prefix(bytes[at])) /* bnd */
		at++;
	return at + 2 <= count && goes_anywhere(bytes + at);
}

/* Adds what a function that is called changes, and whom it calls. */
static void look_into(struct survey *survey, const struct callee *callee,
		      const struct plan_elf *elf, uint64_t bias)
{
	uint8_t bytes[CALLEE_BYTES_MAX];
	uint64_t address = callee->address - bias, size = size_of(elf, address);
	size_t wanted = !size ? STUB_BYTES : size < sizeof bytes ? (size_t)size : sizeof bytes;
	struct survey own = {0};
	const struct reloc_code code = {
		.bytes = bytes,
		.count = plan_elf_code(elf, address, bytes, wanted),
		.function_bytes = (size_t)size,
		.address = callee->address,
	};
	if (size)
		look_through(&own, &code);
	else if (is_stub(bytes, code.count))
		own.written = CLOBBER_RAX | CLOBBER_OTHERS;
	uint32_t kept = callee->kept | own.pushed;
	survey->written |= own.written & ~kept;
	for (size_t i = 0; i < own.callee_count; i++) {
		size_t before = survey->callee_count;
		note_callee(survey, own.callees[i].address);
		if (survey->callee_count > before)
			survey->callees[before].kept = kept;
	}
}

uint32_t clobber_find(const struct reloc_code *code, const struct plan_elf *elf, uint64_t bias)
{
	const uint32_t all = CLOBBER_RAX | CLOBBER_OTHERS;
	struct survey survey = {0};
	look_through(&survey, code);
	for (size_t i = 0; i < survey.callee_count && (survey.written & all) != all; i++) {
		struct callee callee = survey.callees[i];
		look_into(&survey, &callee, elf, bias);
	}
	return survey.written & ~survey.pushed & all;
}
