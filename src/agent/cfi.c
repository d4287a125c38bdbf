/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front door of the unwind tables: rows reduced to the simple rules that
 * nearly all code has, and one full step for the rest.
 *
 *   cfi_table.c    pc -> FDE      cfi_program.c  FDE, pc -> row
 *   cfi_expr.c     expressions    cfi_read.h     bounded reading
 */
#include "agent/cfi.h"

#include "agent/cfi_expr.h"
#include "agent/cfi_program.h"

/* Registers that an ordinary call preserves: rbx, rbp, r12 to r15. */
enum { PRESERVED = 1u << CFI_RBX | 1u << CFI_RBP | 0xfu << 12 };

/* Where a ucontext at rsp has the registers, by DWARF number. */
static const uint8_t ucontext_offset[CFI_REGISTERS] = {
	144, 136, 152, 128, 112, 104, CFI_UCONTEXT_RBP, CFI_UCONTEXT_RSP, 40, 48,
	56,  64,  72,  80,  88,  96,  CFI_UCONTEXT_RIP,
};

static bool bytes_at(const struct cfi_image *image, uintptr_t at, const uint8_t *bytes,
		     size_t count)
{
	if (at < image->code_start || at >= image->code_end || image->code_end - at < count)
		return false;
	const uint8_t *code = (const uint8_t *)at;
	for (size_t i = 0; i < count; i++)
		if (code[i] != bytes[i])
			return false;
	return true;
}

/* mov $15, %rax (or %eax); syscall: the end of a signal handler, rt_sigreturn. */
static bool is_trampoline(const struct cfi_image *image, uintptr_t at)
{
	static const uint8_t wide[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t narrow[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

	return bytes_at(image, at, wide, sizeof wide) || bytes_at(image, at, narrow, sizeof narrow);
}

/* pc may be one less than the return address, which is then the trampoline's first byte. */
static bool is_trampoline_near(const struct cfi_image *image, uintptr_t pc)
{
	return is_trampoline(image, pc) || is_trampoline(image, pc + 1);
}

/* Is the frame at pc a signal's, whose registers lie in a ucontext at rsp? */
static bool is_signal(const struct cfi_image *image, uintptr_t pc, const struct cfi_entry *entry)
{
	if (!entry || entry->signal_frame)
		return is_trampoline_near(image, pc);
	/* A trampoline without FDE may follow at once upon a function that has one. */
	return entry->pc_end == pc + 1 && is_trampoline(image, pc + 1);
}

static bool set_cfa(const struct cfi_image *image, uintptr_t pc, const struct cfi_row *row,
		    struct cfi_rule *ret)
{
	if (row->cfa_is_expr) {
		ret->kind = CFI_SP;
		return cfi_expr_plt(image, row->cfa_expr, pc, &ret->cfa_offset);
	}
	if (row->cfa_register != CFI_RSP && row->cfa_register != CFI_RBP)
		return false;
	ret->kind = row->cfa_register == CFI_RSP ? CFI_SP : CFI_BP;
	ret->cfa_offset = (int32_t)row->cfa_offset;
	return row->cfa_offset == (int32_t)row->cfa_offset;
}

/* Reduce a row to a rule. False: too special. */
static bool set_rule(const struct cfi_image *image, uintptr_t pc, const struct cfi_row *row,
		     struct cfi_rule *ret)
{
	uint8_t rbp = row->how[CFI_RBP];

	if (row->how[CFI_RIP] == CFI_HOW_UNDEFINED) {
		ret->kind = CFI_END;
		return true;
	}
	if (row->how[CFI_RIP] != CFI_HOW_OFFSET || row->value[CFI_RIP] != -8)
		return false;
	if (row->how[CFI_RSP] != CFI_HOW_UNSAID &&
	    !(row->how[CFI_RSP] == CFI_HOW_VAL_OFFSET && row->value[CFI_RSP] == 0))
		return false;
	if (row->cfa_is_expr && rbp == CFI_HOW_EXPR &&
	    cfi_expr_rbp(image, row->cfa_expr, true, &ret->cfa_offset) &&
	    cfi_expr_rbp(image, (uint32_t)row->value[CFI_RBP], false, &ret->bp_offset)) {
		ret->kind = CFI_BP_DEREF;
		ret->bp_saved = true;
		return true;
	}
	if (rbp == CFI_HOW_OFFSET) {
		ret->bp_saved = true;
		ret->bp_offset = row->value[CFI_RBP];
	} else if (rbp != CFI_HOW_UNSAID && rbp != CFI_HOW_SAME) {
		return false;
	}
	return set_cfa(image, pc, row, ret);
}

void cfi_find(const struct cfi_image *image, uintptr_t pc, struct cfi_rule *ret)
{
	static const struct cfi_rule none = {.kind = CFI_NONE};
	static const struct cfi_rule signal = {.kind = CFI_SIGNAL};
	static const struct cfi_rule slow = {.kind = CFI_SLOW};
	struct cfi_entry entry;
	struct cfi_row row;
	bool found = cfi_table_find(image, pc, &entry);

	*ret = none;
	if (is_signal(image, pc, found ? &entry : NULL)) {
		*ret = signal;
		return;
	}
	if (!found)
		return;
	if (entry.signal_frame || !cfi_program_row(image, &entry, pc, &row) ||
	    !set_rule(image, pc, &row, ret))
		*ret = slow;
}

bool cfi_covers(const struct cfi_image *image, uintptr_t pc)
{
	struct cfi_entry entry;
	return cfi_table_find(image, pc, &entry);
}

static void set_register(struct cfi_regs *regs, unsigned number, uint64_t value)
{
	regs->reg[number] = value;
	regs->known |= 1u << number;
}

static bool step_signal(cfi_peek_fn peek, void *ctx, struct cfi_regs *regs)
{
	struct cfi_regs caller = {.known = 0};

	if (!(regs->known & 1u << CFI_RSP))
		return false;
	for (unsigned i = 0; i < CFI_REGISTERS; i++) {
		uint64_t value;
		if (!peek(ctx, regs->reg[CFI_RSP] + ucontext_offset[i], &value))
			return false;
		set_register(&caller, i, value);
	}
	*regs = caller;
	return true;
}

static bool find_cfa(const struct cfi_expr_input *input, const struct cfi_row *row, uint64_t *ret)
{
	const struct cfi_regs *regs = input->regs;

	if (row->cfa_is_expr)
		return cfi_expr_eval(input, row->cfa_expr, NULL, ret);
	if (!(regs->known & 1u << row->cfa_register))
		return false;
	*ret = regs->reg[row->cfa_register] + (uint64_t)row->cfa_offset;
	return true;
}

/* The caller's value of one register. False: unknown. */
static bool find_register(const struct cfi_expr_input *input, const struct cfi_row *row,
			  unsigned number, uint64_t cfa, uint64_t *ret)
{
	const struct cfi_regs *regs = input->regs;
	int32_t value = row->value[number];
	uint64_t address;

	switch ((enum cfi_how)row->how[number]) {
	case CFI_HOW_UNSAID:
		*ret = number == CFI_RSP ? cfa : regs->reg[number];
		return number == CFI_RSP || (regs->known & PRESERVED & 1u << number);
	case CFI_HOW_SAME:
		*ret = regs->reg[number];
		return regs->known & 1u << number;
	case CFI_HOW_UNDEFINED:
		return false;
	case CFI_HOW_OFFSET:
		return input->peek(input->ctx, cfa + (uint64_t)(int64_t)value, ret);
	case CFI_HOW_VAL_OFFSET:
		*ret = cfa + (uint64_t)(int64_t)value;
		return true;
	case CFI_HOW_REGISTER:
		if ((uint32_t)value >= CFI_REGISTERS || !(regs->known & 1u << value))
			return false;
		*ret = regs->reg[value];
		return true;
	case CFI_HOW_EXPR:
		return cfi_expr_eval(input, (uint32_t)value, &cfa, &address) &&
		       input->peek(input->ctx, address, ret);
	case CFI_HOW_VAL_EXPR:
		return cfi_expr_eval(input, (uint32_t)value, &cfa, ret);
	}
	return false;
}

bool cfi_step(const struct cfi_image *image, uintptr_t pc, cfi_peek_fn peek, void *ctx,
	      struct cfi_regs *regs, bool *ret_signal_frame)
{
	struct cfi_expr_input input = {.image = image, .regs = regs, .peek = peek, .ctx = ctx};
	struct cfi_regs caller = {.known = 0};
	struct cfi_entry entry;
	struct cfi_row row;
	uint64_t cfa;
	bool found = cfi_table_find(image, pc, &entry);

	if (is_signal(image, pc, found ? &entry : NULL)) {
		if (!step_signal(peek, ctx, regs))
			return false;
		*ret_signal_frame = true;
		return true;
	}
	if (!found || !cfi_program_row(image, &entry, pc, &row) || !find_cfa(&input, &row, &cfa))
		return false;
	for (unsigned i = 0; i < CFI_REGISTERS; i++) {
		uint64_t value;
		if (find_register(&input, &row, i, cfa, &value))
			set_register(&caller, i, value);
	}
	if (!(caller.known & 1u << CFI_RIP) || !(caller.known & 1u << CFI_RSP))
		return false;
	*regs = caller;
	*ret_signal_frame = entry.signal_frame;
	return true;
}
