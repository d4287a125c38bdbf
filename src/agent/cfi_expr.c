/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack machine for the expressions of unwind tables. An expression may jump
 * back, so the number of operations is bounded.
 */
#include "agent/cfi_expr.h"

enum { STACK_MAX = 32, OPERATIONS_MAX = 512 };

enum {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S = 0x09,
	OP_CONST2U = 0x0a,
	OP_CONST2S = 0x0b,
	OP_CONST4U = 0x0c,
	OP_CONST4S = 0x0d,
	OP_CONST8U = 0x0e,
	OP_CONST8S = 0x0f,
	OP_CONSTU = 0x10,
	OP_CONSTS = 0x11,
	OP_DUP = 0x12,
	OP_DROP = 0x13,
	OP_OVER = 0x14,
	OP_PICK = 0x15,
	OP_SWAP = 0x16,
	OP_ROT = 0x17,
	OP_ABS = 0x19,
	OP_AND = 0x1a,
	OP_DIV = 0x1b,
	OP_MINUS = 0x1c,
	OP_MOD = 0x1d,
	OP_MUL = 0x1e,
	OP_NEG = 0x1f,
	OP_NOT = 0x20,
	OP_OR = 0x21,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_SHR = 0x25,
	OP_SHRA = 0x26,
	OP_XOR = 0x27,
	OP_BRA = 0x28,
	OP_EQ = 0x29,
	OP_GE = 0x2a,
	OP_GT = 0x2b,
	OP_LE = 0x2c,
	OP_LT = 0x2d,
	OP_NE = 0x2e,
	OP_SKIP = 0x2f,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
};

struct machine {
	const struct cfi_expr_input *input;
	struct cfi_cursor cursor;
	uintptr_t start; /* of the expression: branches stay within */
	unsigned count;
	uint64_t stack[STACK_MAX];
};

static void push(struct machine *machine, uint64_t value)
{
	if (machine->count == STACK_MAX)
		machine->cursor.bad = true;
	else
		machine->stack[machine->count++] = value;
}

static uint64_t pop(struct machine *machine)
{
	if (machine->count == 0) {
		machine->cursor.bad = true;
		return 0;
	}
	return machine->stack[--machine->count];
}

static uint64_t pick(struct machine *machine, unsigned depth)
{
	if (depth >= machine->count) {
		machine->cursor.bad = true;
		return 0;
	}
	return machine->stack[machine->count - 1 - depth];
}

static void push_register(struct machine *machine, uint64_t number, int64_t offset)
{
	const struct cfi_regs *regs = machine->input->regs;

	if (number >= CFI_REGISTERS || !(regs->known & 1u << number))
		machine->cursor.bad = true;
	else
		push(machine, regs->reg[number] + (uint64_t)offset);
}

static void deref(struct machine *machine, unsigned bytes)
{
	uint64_t address = pop(machine);
	uint64_t value = 0;

	if (machine->cursor.bad || bytes == 0 || bytes > 8 ||
	    !machine->input->peek(machine->input->ctx, address, &value)) {
		machine->cursor.bad = true;
		return;
	}
	push(machine, bytes == 8 ? value : value & ((1ull << bytes * 8) - 1));
}

static void branch(struct machine *machine, bool taken)
{
	int64_t delta = (int16_t)cfi_u16(&machine->cursor);
	struct cfi_cursor *cursor = &machine->cursor;

	if (!taken || cursor->bad)
		return;
	if (delta < 0 ? (uint64_t)-delta > cursor->at - machine->start
		      : (uint64_t)delta > cursor->end - cursor->at)
		cursor->bad = true;
	else
		cursor->at += (uintptr_t)delta;
}

/* Operations that push a constant. False: not one of them. */
static bool run_constant(struct machine *machine, uint8_t op)
{
	struct cfi_cursor *cursor = &machine->cursor;

	switch (op) {
	case OP_CONST1U:
		push(machine, cfi_u8(cursor));
		return true;
	case OP_CONST1S:
		push(machine, (uint64_t)(int8_t)cfi_u8(cursor));
		return true;
	case OP_CONST2U:
		push(machine, cfi_u16(cursor));
		return true;
	case OP_CONST2S:
		push(machine, (uint64_t)(int16_t)cfi_u16(cursor));
		return true;
	case OP_CONST4U:
		push(machine, cfi_u32(cursor));
		return true;
	case OP_CONST4S:
		push(machine, (uint64_t)(int32_t)cfi_u32(cursor));
		return true;
	case OP_CONST8U:
	case OP_CONST8S:
		push(machine, cfi_u64(cursor));
		return true;
	case OP_CONSTU:
		push(machine, cfi_uleb(cursor));
		return true;
	case OP_CONSTS:
		push(machine, (uint64_t)cfi_sleb(cursor));
		return true;
	default:
		return false;
	}
}

/* Operations that replace the two topmost values. False: not one of them. */
static bool run_binary(struct machine *machine, uint8_t op)
{
	if ((op < OP_AND || op > OP_NE) || op == OP_NEG || op == OP_NOT || op == OP_PLUS_UCONST ||
	    op == OP_BRA)
		return false;
	uint64_t b = pop(machine);
	uint64_t a = pop(machine);
	int64_t sb = (int64_t)b;
	int64_t sa = (int64_t)a;
	uint64_t value = 0;

	switch (op) {
	case OP_AND:
		value = a & b;
		break;
	case OP_DIV: /* the one quotient that overflows is the negation */
		if (b == 0)
			machine->cursor.bad = true;
		else
			value = sb == -1 ? -a : (uint64_t)(sa / sb);
		break;
	case OP_MOD:
		if (b == 0)
			machine->cursor.bad = true;
		else
			value = a % b;
		break;
	case OP_MINUS:
		value = a - b;
		break;
	case OP_MUL:
		value = a * b;
		break;
	case OP_OR:
		value = a | b;
		break;
	case OP_PLUS:
		value = a + b;
		break;
	case OP_SHL:
		value = b < 64 ? a << b : 0;
		break;
	case OP_SHR:
		value = b < 64 ? a >> b : 0;
		break;
	case OP_SHRA:
		value = (uint64_t)(sa >> (b < 64 ? b : 63));
		break;
	case OP_XOR:
		value = a ^ b;
		break;
	case OP_EQ:
		value = a == b;
		break;
	case OP_GE:
		value = sa >= sb;
		break;
	case OP_GT:
		value = sa > sb;
		break;
	case OP_LE:
		value = sa <= sb;
		break;
	case OP_LT:
		value = sa < sb;
		break;
	case OP_NE:
		value = a != b;
		break;
	}
	push(machine, value);
	return true;
}

/* Operations that move values about on the stack. False: not one of them. */
static bool run_stack(struct machine *machine, uint8_t op)
{
	uint64_t a;
	uint64_t b;
	uint64_t c;

	switch (op) {
	case OP_DUP:
		push(machine, pick(machine, 0));
		return true;
	case OP_DROP:
		pop(machine);
		return true;
	case OP_OVER:
		push(machine, pick(machine, 1));
		return true;
	case OP_PICK:
		push(machine, pick(machine, cfi_u8(&machine->cursor)));
		return true;
	case OP_SWAP:
		b = pop(machine);
		a = pop(machine);
		push(machine, b);
		push(machine, a);
		return true;
	case OP_ROT: /* the top goes below the next two */
		c = pop(machine);
		b = pop(machine);
		a = pop(machine);
		push(machine, c);
		push(machine, a);
		push(machine, b);
		return true;
	default:
		return false;
	}
}

static void run_other(struct machine *machine, uint8_t op)
{
	struct cfi_cursor *cursor = &machine->cursor;
	uint64_t value;

	switch (op) {
	case OP_NOP:
		return;
	case OP_DEREF:
		deref(machine, 8);
		return;
	case OP_DEREF_SIZE:
		deref(machine, cfi_u8(cursor));
		return;
	case OP_ABS:
		value = pop(machine);
		push(machine, (int64_t)value < 0 ? -value : value);
		return;
	case OP_NEG:
		push(machine, -pop(machine));
		return;
	case OP_NOT:
		push(machine, ~pop(machine));
		return;
	case OP_PLUS_UCONST:
		value = pop(machine);
		push(machine, value + cfi_uleb(cursor));
		return;
	case OP_SKIP:
		branch(machine, true);
		return;
	case OP_BRA:
		branch(machine, pop(machine) != 0);
		return;
	case OP_BREGX:
		value = cfi_uleb(cursor);
		push_register(machine, value, cfi_sleb(cursor));
		return;
	default:
		cursor->bad = true;
	}
}

static void run_one(struct machine *machine)
{
	uint8_t op = cfi_u8(&machine->cursor);

	if (op >= OP_LIT0 && op <= OP_LIT31)
		push(machine, (uint64_t)(op - OP_LIT0));
	else if (op >= OP_BREG0 && op <= OP_BREG31)
		push_register(machine, (uint64_t)(op - OP_BREG0), cfi_sleb(&machine->cursor));
	else if (!run_constant(machine, op) && !run_binary(machine, op) && !run_stack(machine, op))
		run_other(machine, op);
}

/* The bytes of the expression at place. */
static struct cfi_cursor expression_at(const struct cfi_image *image, uint32_t place)
{
	struct cfi_cursor cursor = {.at = image->start + place, .end = image->end};
	uint64_t bytes = cfi_uleb(&cursor);

	if (cursor.bad || bytes > cursor.end - cursor.at)
		cursor.bad = true;
	else
		cursor.end = cursor.at + bytes;
	return cursor;
}

bool cfi_expr_eval(const struct cfi_expr_input *input, uint32_t place, const uint64_t *cfa,
		   uint64_t *ret)
{
	struct machine machine;

	machine.input = input;
	machine.cursor = expression_at(input->image, place);
	machine.start = machine.cursor.at;
	machine.count = 0;
	if (cfa)
		push(&machine, *cfa);
	for (unsigned i = 0; !machine.cursor.bad && machine.cursor.at < machine.cursor.end; i++) {
		if (i == OPERATIONS_MAX)
			return false;
		run_one(&machine);
	}
	if (machine.cursor.bad || machine.count == 0)
		return false;
	*ret = machine.stack[machine.count - 1];
	return true;
}

bool cfi_expr_plt(const struct cfi_image *image, uint32_t place, uintptr_t pc, int32_t *ret_offset)
{
	struct cfi_cursor cursor = expression_at(image, place);

	if (cfi_u8(&cursor) != OP_BREG0 + CFI_RSP)
		return false;
	int64_t base = cfi_sleb(&cursor);
	if (cfi_u8(&cursor) != OP_BREG0 + CFI_RIP)
		return false;
	uint64_t rip = pc + (uint64_t)cfi_sleb(&cursor);
	if (cfi_u8(&cursor) != OP_LIT0 + 15 || cfi_u8(&cursor) != OP_AND)
		return false;
	unsigned limit = (unsigned)cfi_u8(&cursor) - OP_LIT0;
	if (limit > 15 || cfi_u8(&cursor) != OP_GE)
		return false;
	unsigned shift = (unsigned)cfi_u8(&cursor) - OP_LIT0;
	if (shift > 15 || cfi_u8(&cursor) != OP_SHL || cfi_u8(&cursor) != OP_PLUS)
		return false;
	if (cursor.bad || cursor.at != cursor.end || base < INT16_MIN || base > INT16_MAX)
		return false;
	*ret_offset = (int32_t)base + (int32_t)((unsigned)((rip & 15) >= limit) << shift);
	return true;
}

bool cfi_expr_rbp(const struct cfi_image *image, uint32_t place, bool deref, int32_t *ret_offset)
{
	struct cfi_cursor cursor = expression_at(image, place);

	if (cfi_u8(&cursor) != OP_BREG0 + CFI_RBP)
		return false;
	int64_t offset = cfi_sleb(&cursor);
	if (deref && cfi_u8(&cursor) != OP_DEREF)
		return false;
	*ret_offset = (int32_t)offset;
	return !cursor.bad && cursor.at == cursor.end && offset == (int32_t)offset;
}
