/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "cfi_compare.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cfi_image.h"

enum { STACK_MAX = 64, MISMATCHES_SHOWN = 20 };

/* Memory whose every word is a hash of its address. */
static uint64_t word_at(uint64_t address)
{
	uint64_t hash = (address ^ 0x5bd1e995) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 31;
}

static bool peek(void *ctx, uintptr_t address, uint64_t *ret)
{
	(void)ctx;
	*ret = word_at(address);
	return true;
}

/* libdw's operations, evaluated in the plainest way. */
struct oracle {
	const uint64_t *reg;
	uint64_t cfa;
	uint64_t stack[STACK_MAX];
	unsigned count;
};

static void push(struct oracle *oracle, uint64_t value)
{
	if (oracle->count == STACK_MAX)
		abort();
	oracle->stack[oracle->count++] = value;
}

static uint64_t pop(struct oracle *oracle)
{
	if (oracle->count == 0)
		abort();
	return oracle->stack[--oracle->count];
}

static void run_binary(struct oracle *oracle, uint8_t atom)
{
	uint64_t b = pop(oracle);
	uint64_t a = pop(oracle);

	switch (atom) {
	case DW_OP_plus:
		push(oracle, a + b);
		return;
	case DW_OP_minus:
		push(oracle, a - b);
		return;
	case DW_OP_mul:
		push(oracle, a * b);
		return;
	case DW_OP_and:
		push(oracle, a & b);
		return;
	case DW_OP_or:
		push(oracle, a | b);
		return;
	case DW_OP_xor:
		push(oracle, a ^ b);
		return;
	case DW_OP_shl:
		push(oracle, a << b);
		return;
	case DW_OP_shr:
		push(oracle, a >> b);
		return;
	case DW_OP_ge:
		push(oracle, (int64_t)a >= (int64_t)b);
		return;
	case DW_OP_lt:
		push(oracle, (int64_t)a < (int64_t)b);
		return;
	default:
		printf("# operation 0x%x is unknown to the test\n", atom);
		abort();
	}
}

static void run_one(struct oracle *oracle, const Dwarf_Op *op)
{
	uint8_t atom = op->atom;

	if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
		push(oracle, atom - DW_OP_lit0);
	else if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
		push(oracle, oracle->reg[atom - DW_OP_breg0] + op->number);
	else if (atom == DW_OP_bregx)
		push(oracle, oracle->reg[op->number] + op->number2);
	else if (atom == DW_OP_call_frame_cfa)
		push(oracle, oracle->cfa);
	else if (atom == DW_OP_plus_uconst)
		push(oracle, pop(oracle) + op->number);
	else if (atom == DW_OP_deref)
		push(oracle, word_at(pop(oracle)));
	else if (atom >= DW_OP_const1u && atom <= DW_OP_consts)
		push(oracle, op->number);
	else if (atom == DW_OP_dup)
		push(oracle, oracle->stack[oracle->count - 1]);
	else if (atom == DW_OP_drop)
		pop(oracle);
	else if (atom != DW_OP_nop)
		run_binary(oracle, atom);
}

/* *ret: the value of a register or of the CFA. False: undefined. */
static bool evaluate(struct oracle *oracle, const Dwarf_Op *ops, size_t count, bool is_cfa,
		     uint64_t same, uint64_t *ret)
{
	*ret = same;
	if (count == 0)
		return ops == NULL;
	if (count == 1 && ops[0].atom == DW_OP_regx) {
		*ret = oracle->reg[ops[0].number];
		return true;
	}
	if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31) {
		*ret = oracle->reg[ops[0].atom - DW_OP_reg0];
		return true;
	}
	bool is_value = is_cfa || ops[count - 1].atom == DW_OP_stack_value;
	oracle->count = 0;
	for (size_t i = 0; i < count; i++)
		if (ops[i].atom != DW_OP_stack_value)
			run_one(oracle, &ops[i]);
	*ret = is_value ? pop(oracle) : word_at(pop(oracle));
	return true;
}

/* What libdw says of one pc. */
struct expected {
	bool simple; /* a rule that cfi_find() must be able to express */
	bool signal_frame;
	uint64_t cfa;
	struct cfi_regs regs;
};

/* Register `number` plus an offset that a quick rule can hold. */
static bool is_base(const Dwarf_Op *op, uint64_t number)
{
	int64_t offset = (int64_t)(op->atom == DW_OP_bregx ? op->number2 : op->number);

	if (offset != (int32_t)offset)
		return false;
	return op->atom == DW_OP_bregx ? op->number == number : op->atom == DW_OP_breg0 + number;
}

/* The oracle follows no branches. */
static bool has_branch(const Dwarf_Op *ops, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ops[i].atom == DW_OP_skip || ops[i].atom == DW_OP_bra)
			return true;
	return false;
}

/* Unchanged, or saved at a fixed distance from the CFA. */
static bool is_at_cfa(const Dwarf_Op *ops, size_t count)
{
	if (count == 0)
		return ops == NULL;
	return ops[0].atom == DW_OP_call_frame_cfa &&
	       (count == 1 || (count == 2 && ops[1].atom == DW_OP_plus_uconst));
}

static bool expect_register(Dwarf_Frame *frame, struct oracle *oracle, int number,
			    struct expected *ret)
{
	Dwarf_Op memory[3];
	Dwarf_Op *ops;
	size_t count;
	uint64_t value = 0;

	if (dwarf_frame_register(frame, number, memory, &ops, &count) != 0)
		return false;
	/*
	 * libdw's table of registers that a call preserves has number 0 (rax) where
	 * it means rbx, which is 3: without a rule rbx is preserved and rax is not.
	 */
	bool defined = evaluate(oracle, ops, count, false, oracle->reg[number], &value);
	if (count == 0 && (number == 0 || number == CFI_RBX))
		defined = number == CFI_RBX;
	if (defined) {
		ret->regs.reg[number] = value;
		ret->regs.known |= 1u << number;
	}
	if (number == CFI_RBP && !is_at_cfa(ops, count))
		ret->simple = false;
	return true;
}

static bool expect(Dwarf_Frame *frame, const struct cfi_regs *regs, struct expected *ret)
{
	struct oracle oracle = {.reg = regs->reg};
	Dwarf_Op *ops;
	size_t count;

	*ret = (struct expected){.simple = false};
	if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0 || has_branch(ops, count))
		return false;
	ret->simple = count == 1 && (is_base(&ops[0], CFI_RSP) || is_base(&ops[0], CFI_RBP));
	if (!evaluate(&oracle, ops, count, true, 0, &oracle.cfa))
		return false;
	ret->cfa = oracle.cfa;
	for (int i = 0; i < CFI_REGISTERS; i++)
		if (!expect_register(frame, &oracle, i, ret))
			return false;
	if (ret->regs.reg[CFI_RIP] != word_at(ret->cfa - 8) || ret->regs.reg[CFI_RSP] != ret->cfa)
		ret->simple = false;
	return true;
}

/* Does the simple rule say the same as libdw? */
static bool rule_agrees(const struct cfi_rule *rule, const struct cfi_regs *regs,
			const struct expected *expected)
{
	bool ends = !(expected->regs.known & 1u << CFI_RIP);
	uint64_t cfa;
	uint64_t rbp;

	switch ((enum cfi_kind)rule->kind) {
	case CFI_NONE:
		return false;
	case CFI_END:
		return ends;
	case CFI_SIGNAL:
		return expected->signal_frame;
	case CFI_SLOW:
		return !expected->simple || expected->signal_frame;
	case CFI_SP:
	case CFI_BP:
	case CFI_BP_DEREF:
		break;
	}
	cfa = regs->reg[rule->kind == CFI_SP ? CFI_RSP : CFI_RBP] + (uint64_t)rule->cfa_offset;
	if (rule->kind == CFI_BP_DEREF)
		cfa = word_at(cfa);
	uint64_t base = rule->kind == CFI_BP_DEREF ? regs->reg[CFI_RBP] : cfa;
	rbp = rule->bp_saved ? word_at(base + (uint64_t)rule->bp_offset) : regs->reg[CFI_RBP];
	return !ends && !expected->signal_frame && cfa == expected->cfa &&
	       expected->regs.reg[CFI_RIP] == word_at(cfa - 8) &&
	       expected->regs.reg[CFI_RSP] == cfa && expected->regs.reg[CFI_RBP] == rbp;
}

/* Does the full machine? */
static bool step_agrees(const struct cfi_image *image, uintptr_t pc, const struct cfi_regs *regs,
			const struct expected *expected)
{
	struct cfi_regs caller = *regs;
	bool signal_frame = false;
	bool ends = !(expected->regs.known & 1u << CFI_RIP);

	if (!cfi_step(image, pc, peek, NULL, &caller, &signal_frame))
		return ends;
	if (ends || caller.known != expected->regs.known || signal_frame != expected->signal_frame)
		return false;
	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		if ((caller.known & 1u << i) && caller.reg[i] != expected->regs.reg[i])
			return false;
	return true;
}

static void random_registers(uint64_t seed, uintptr_t pc, struct cfi_regs *ret)
{
	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		ret->reg[i] = word_at(seed * 31 + i) & 0x7fffffffffff;
	ret->reg[CFI_RIP] = pc;
	ret->known = (1u << CFI_REGISTERS) - 1;
}

static void mismatch(const char *path, uint64_t address, const char *what,
		     struct cfi_compare_stats *stats)
{
	if (stats->mismatches++ < MISMATCHES_SHOWN)
		printf("# %s: 0x%llx: %s\n", path, (unsigned long long)address, what);
}

static void compare_pc(const char *path, const struct cfi_loaded *loaded, Dwarf_Frame *frame,
		       uint64_t address, struct cfi_compare_stats *stats)
{
	static const uint8_t trampoline[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	struct expected expected;
	struct cfi_regs regs;
	struct cfi_rule rule;
	uintptr_t pc = loaded->bias + address;

	/* The last byte before a trampoline is how its return address is looked up. */
	if (pc + 1 + sizeof trampoline <= loaded->image.code_end &&
	    memcmp((const void *)(pc + 1), trampoline, sizeof trampoline) == 0)
		return;
	random_registers(address, pc, &regs);
	if (!expect(frame, &regs, &expected)) {
		stats->unanswered++;
		return;
	}
	dwarf_frame_info(frame, NULL, NULL, &expected.signal_frame);
	cfi_find(&loaded->image, pc, &rule);
	stats->kinds[rule.kind]++;
	if (!rule_agrees(&rule, &regs, &expected))
		mismatch(path, address, "cfi_find() differs", stats);
	if (!step_agrees(&loaded->image, pc, &regs, &expected))
		mismatch(path, address, "cfi_step() differs", stats);
	if (!cfi_covers(&loaded->image, pc))
		mismatch(path, address, "cfi_covers() says no", stats);
}

/* All rows from `address` on, which begins a function; ends at `limit`. */
static void compare_function(const char *path, const struct cfi_loaded *loaded, Dwarf_CFI *cfi,
			     uint64_t address, uint64_t limit, struct cfi_compare_stats *stats)
{
	stats->functions++;
	while (address < limit) {
		Dwarf_Frame *frame;
		Dwarf_Addr start;
		Dwarf_Addr end;
		if (dwarf_cfi_addrframe(cfi, address, &frame) != 0) {
			struct cfi_rule rule;
			cfi_find(&loaded->image, loaded->bias + address, &rule);
			if (rule.kind != CFI_NONE && rule.kind != CFI_SIGNAL)
				mismatch(path, address, "a rule where libdw has none", stats);
			return;
		}
		dwarf_frame_info(frame, &start, &end, NULL);
		compare_pc(path, loaded, frame, address, stats);
		if (end - 1 != address)
			compare_pc(path, loaded, frame, end - 1, stats);
		stats->rows++;
		free(frame);
		if (end <= address)
			return;
		address = end;
	}
}

/* The search table, read here independently: 4-byte offsets from its own header. */
static void compare_table(const char *path, const struct cfi_loaded *loaded, Dwarf_CFI *cfi,
			  unsigned every, struct cfi_compare_stats *stats)
{
	const uint8_t *header = (const uint8_t *)loaded->image.eh_frame_hdr;
	uint64_t base = loaded->image.eh_frame_hdr - loaded->bias;
	uint32_t count;

	memcpy(&count, header + 8, sizeof count);
	for (uint32_t i = 0; i < count; i += every) {
		int32_t start;
		int32_t next;
		memcpy(&start, header + 12 + (size_t)i * 8, sizeof start);
		uint64_t limit = UINT64_MAX;
		if (i + 1 < count) {
			memcpy(&next, header + 12 + (size_t)(i + 1) * 8, sizeof next);
			limit = base + (uint64_t)next;
		}
		compare_function(path, loaded, cfi, base + (uint64_t)start, limit, stats);
	}
}

bool cfi_compare_file(const char *path, unsigned every, struct cfi_compare_stats *stats)
{
	static const uint8_t usual[4] = {1, 0x1b, 0x03, 0x3b};
	struct cfi_loaded loaded;

	elf_version(EV_CURRENT);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf_CFI *cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
	bool good = cfi && cfi_load(path, &loaded);
	if (good && memcmp((const void *)loaded.image.eh_frame_hdr, usual, sizeof usual) == 0)
		compare_table(path, &loaded, cfi, every, stats);
	else if (good)
		printf("# %s: the search table has an unusual encoding\n", path);
	if (good)
		cfi_unload(&loaded);
	if (cfi)
		dwarf_cfi_end(cfi);
	if (elf)
		elf_end(elf);
	close(fd);
	return good;
}
