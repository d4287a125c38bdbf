/* SPDX-License-Identifier: Apache-2.0 */
/* From an FDE and a pc to the row that holds there. Internal to cfi_*.c. */
#pragma once

#include "agent/cfi_table.h"

/* How the caller's value of a register is found. */
enum cfi_how {
	CFI_HOW_UNSAID = 0, /* no rule: the ABI says whether it is preserved */
	CFI_HOW_UNDEFINED,
	CFI_HOW_SAME,
	CFI_HOW_OFFSET,     /* at cfa + value */
	CFI_HOW_VAL_OFFSET, /* is cfa + value */
	CFI_HOW_REGISTER,   /* in register number value */
	CFI_HOW_EXPR,       /* at the address the expression gives */
	CFI_HOW_VAL_EXPR,   /* is what the expression gives */
};

/* An expression is kept as the offset of its length field from image->start. */
struct cfi_row {
	bool cfa_is_expr;
	uint8_t cfa_register; /* CFI_REGISTERS: none yet */
	uint8_t how[CFI_REGISTERS];
	int32_t value[CFI_REGISTERS];
	uint32_t cfa_expr;
	int64_t cfa_offset;
};

/* False: damaged, unknown instructions, or beyond what a row can hold. */
bool cfi_program_row(const struct cfi_image *image, const struct cfi_entry *entry, uintptr_t pc,
		     struct cfi_row *ret);
