/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that runs call frame instructions up to a pc. It is bounded by
 * construction: every instruction takes at least one byte of a program whose
 * end is fixed, and nothing jumps back.
 */
#include "agent/cfi_program.h"

enum {
	STATES_MAX = 8, /* nesting of remember_state; compilers use 1 or 2 */
	HIGH_TWO = 0xc0,
	LOW_SIX = 0x3f,
};

/* Instructions; the first three carry an operand in their low six bits. */
enum {
	OP_ADVANCE = 0x40,
	OP_OFFSET = 0x80,
	OP_RESTORE = 0xc0,
	OP_NOP = 0x00,
	OP_SET_LOC = 0x01,
	OP_ADVANCE1 = 0x02,
	OP_ADVANCE2 = 0x03,
	OP_ADVANCE4 = 0x04,
	OP_OFFSET_EXTENDED = 0x05,
	OP_RESTORE_EXTENDED = 0x06,
	OP_UNDEFINED = 0x07,
	OP_SAME_VALUE = 0x08,
	OP_REGISTER = 0x09,
	OP_REMEMBER_STATE = 0x0a,
	OP_RESTORE_STATE = 0x0b,
	OP_DEF_CFA = 0x0c,
	OP_DEF_CFA_REGISTER = 0x0d,
	OP_DEF_CFA_OFFSET = 0x0e,
	OP_DEF_CFA_EXPRESSION = 0x0f,
	OP_EXPRESSION = 0x10,
	OP_OFFSET_EXTENDED_SF = 0x11,
	OP_DEF_CFA_SF = 0x12,
	OP_DEF_CFA_OFFSET_SF = 0x13,
	OP_VAL_OFFSET = 0x14,
	OP_VAL_OFFSET_SF = 0x15,
	OP_VAL_EXPRESSION = 0x16,
	OP_GNU_ARGS_SIZE = 0x2e,
	OP_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

struct machine {
	const struct cfi_image *image;
	const struct cfi_entry *entry;
	struct cfi_cursor cursor;
	uintptr_t pc;       /* the row wanted */
	uintptr_t location; /* the row being built */
	unsigned depth;
	bool done;
	struct cfi_row row;
	struct cfi_row initial; /* after the CIE's program */
	struct cfi_row states[STATES_MAX];
};

static void advance(struct machine *machine, uint64_t delta)
{
	uint64_t step;
	uintptr_t next;

	if (__builtin_mul_overflow(delta, machine->entry->code_align, &step) ||
	    __builtin_add_overflow(machine->location, step, &next) || next > machine->pc)
		machine->done = true;
	else
		machine->location = next;
}

static void set_location(struct machine *machine, uint64_t location)
{
	if (location > machine->pc)
		machine->done = true;
	else
		machine->location = location;
}

/* Registers beyond ours (vector registers) are parsed and ignored. */
static void set_rule(struct machine *machine, uint64_t number, enum cfi_how how, int64_t value)
{
	if (number >= CFI_REGISTERS)
		return;
	if (value != (int32_t)value) {
		machine->cursor.bad = true;
		return;
	}
	machine->row.how[number] = (uint8_t)how;
	machine->row.value[number] = (int32_t)value;
}

static int64_t factored(const struct machine *machine, uint64_t value)
{
	return (int64_t)(value * (uint64_t)machine->entry->data_align);
}

static void restore_rule(struct machine *machine, uint64_t number)
{
	if (number >= CFI_REGISTERS)
		return;
	machine->row.how[number] = machine->initial.how[number];
	machine->row.value[number] = machine->initial.value[number];
}

static void set_cfa(struct machine *machine, uint64_t number, int64_t offset)
{
	if (number >= CFI_REGISTERS) {
		machine->cursor.bad = true;
		return;
	}
	machine->row.cfa_is_expr = false;
	machine->row.cfa_register = (uint8_t)number;
	machine->row.cfa_offset = offset;
}

/* Step over an expression; *ret: where its length field is. */
static bool take_expression(struct machine *machine, uint32_t *ret)
{
	uint64_t place = machine->cursor.at - machine->image->start;
	uint64_t bytes = cfi_uleb(&machine->cursor);

	cfi_skip(&machine->cursor, bytes);
	if (place > INT32_MAX)
		machine->cursor.bad = true;
	*ret = (uint32_t)place;
	return !machine->cursor.bad;
}

static void set_expression(struct machine *machine, enum cfi_how how)
{
	uint32_t place;
	uint64_t number = cfi_uleb(&machine->cursor);

	if (take_expression(machine, &place))
		set_rule(machine, number, how, place);
}

static void remember(struct machine *machine)
{
	if (machine->depth == STATES_MAX)
		machine->cursor.bad = true;
	else
		machine->states[machine->depth++] = machine->row;
}

static void restore(struct machine *machine)
{
	if (machine->depth == 0)
		machine->cursor.bad = true;
	else
		machine->row = machine->states[--machine->depth];
}

/* Instructions that say where the CFA is. False: not one of them. */
static bool run_cfa(struct machine *machine, uint8_t op)
{
	struct cfi_cursor *cursor = &machine->cursor;
	struct cfi_row *row = &machine->row;
	uint64_t number;

	switch (op) {
	case OP_DEF_CFA:
		number = cfi_uleb(cursor);
		set_cfa(machine, number, (int64_t)cfi_uleb(cursor));
		return true;
	case OP_DEF_CFA_SF:
		number = cfi_uleb(cursor);
		set_cfa(machine, number, factored(machine, (uint64_t)cfi_sleb(cursor)));
		return true;
	case OP_DEF_CFA_REGISTER: /* after an expression: the offset of before it, as in libgcc */
		set_cfa(machine, cfi_uleb(cursor), row->cfa_offset);
		return true;
	case OP_DEF_CFA_OFFSET: /* an expression stays the CFA */
		row->cfa_offset = (int64_t)cfi_uleb(cursor);
		return true;
	case OP_DEF_CFA_OFFSET_SF:
		row->cfa_offset = factored(machine, (uint64_t)cfi_sleb(cursor));
		return true;
	case OP_DEF_CFA_EXPRESSION:
		row->cfa_is_expr = take_expression(machine, &row->cfa_expr);
		return true;
	default:
		return false;
	}
}

/* Instructions that say where a register is. False: not one of them. */
static bool run_rule(struct machine *machine, uint8_t op)
{
	struct cfi_cursor *cursor = &machine->cursor;
	uint64_t number;

	if (op == OP_EXPRESSION || op == OP_VAL_EXPRESSION) {
		set_expression(machine, op == OP_EXPRESSION ? CFI_HOW_EXPR : CFI_HOW_VAL_EXPR);
		return true;
	}
	if (op < OP_OFFSET_EXTENDED || (op > OP_REGISTER && op < OP_OFFSET_EXTENDED_SF))
		return false;
	number = cfi_uleb(cursor);
	switch (op) {
	case OP_OFFSET_EXTENDED:
		set_rule(machine, number, CFI_HOW_OFFSET, factored(machine, cfi_uleb(cursor)));
		break;
	case OP_OFFSET_EXTENDED_SF:
		set_rule(machine, number, CFI_HOW_OFFSET,
			 factored(machine, (uint64_t)cfi_sleb(cursor)));
		break;
	case OP_GNU_NEGATIVE_OFFSET_EXTENDED:
		set_rule(machine, number, CFI_HOW_OFFSET, factored(machine, -cfi_uleb(cursor)));
		break;
	case OP_VAL_OFFSET:
		set_rule(machine, number, CFI_HOW_VAL_OFFSET, factored(machine, cfi_uleb(cursor)));
		break;
	case OP_VAL_OFFSET_SF:
		set_rule(machine, number, CFI_HOW_VAL_OFFSET,
			 factored(machine, (uint64_t)cfi_sleb(cursor)));
		break;
	case OP_RESTORE_EXTENDED:
		restore_rule(machine, number);
		break;
	case OP_UNDEFINED:
		set_rule(machine, number, CFI_HOW_UNDEFINED, 0);
		break;
	case OP_SAME_VALUE:
		set_rule(machine, number, CFI_HOW_SAME, 0);
		break;
	case OP_REGISTER:
		set_rule(machine, number, CFI_HOW_REGISTER, (int64_t)cfi_uleb(cursor));
		break;
	default:
		return false;
	}
	return true;
}

static void run_one(struct machine *machine)
{
	struct cfi_cursor *cursor = &machine->cursor;
	uint8_t op = cfi_u8(cursor);

	switch (op & HIGH_TWO) {
	case OP_ADVANCE:
		advance(machine, op & LOW_SIX);
		return;
	case OP_OFFSET:
		set_rule(machine, op & LOW_SIX, CFI_HOW_OFFSET,
			 factored(machine, cfi_uleb(cursor)));
		return;
	case OP_RESTORE:
		restore_rule(machine, op & LOW_SIX);
		return;
	}
	switch (op) {
	case OP_NOP:
		return;
	case OP_SET_LOC:
		set_location(machine, cfi_pointer(cursor, machine->entry->pointer_encoding, 0));
		return;
	case OP_ADVANCE1:
		advance(machine, cfi_u8(cursor));
		return;
	case OP_ADVANCE2:
		advance(machine, cfi_u16(cursor));
		return;
	case OP_ADVANCE4:
		advance(machine, cfi_u32(cursor));
		return;
	case OP_REMEMBER_STATE:
		remember(machine);
		return;
	case OP_RESTORE_STATE:
		restore(machine);
		return;
	case OP_GNU_ARGS_SIZE:
		cfi_uleb(cursor);
		return;
	default:
		if (!run_cfa(machine, op) && !run_rule(machine, op))
			cursor->bad = true;
	}
}

static bool run(struct machine *machine, const struct cfi_cursor *program)
{
	machine->cursor = *program;
	while (!machine->done && !machine->cursor.bad && machine->cursor.at < machine->cursor.end)
		run_one(machine);
	return !machine->cursor.bad;
}

bool cfi_program_row(const struct cfi_image *image, const struct cfi_entry *entry, uintptr_t pc,
		     struct cfi_row *ret)
{
	struct machine machine;

	machine.image = image;
	machine.entry = entry;
	machine.pc = pc;
	machine.location = entry->pc_start;
	machine.depth = 0;
	machine.done = false;
	__builtin_memset(&machine.row, 0, sizeof machine.row);
	machine.row.cfa_register = CFI_REGISTERS;
	/* So that a restore in the CIE's own program, which makes no sense, is defined. */
	machine.initial = machine.row;

	if (entry->return_register != CFI_RIP || !run(&machine, &entry->cie_program))
		return false;
	machine.initial = machine.row;
	if (!run(&machine, &entry->fde_program))
		return false;
	if (!machine.row.cfa_is_expr && machine.row.cfa_register == CFI_REGISTERS)
		return false;
	*ret = machine.row;
	return true;
}
