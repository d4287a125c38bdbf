/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF expressions of unwind tables. Internal to cfi_*.c. */
#pragma once

#include "agent/cfi_table.h"

/* What an expression may look at. */
struct cfi_expr_input {
	const struct cfi_image *image;
	const struct cfi_regs *regs;
	cfi_peek_fn peek;
	void *ctx;
};

/*
 * Evaluate the expression whose length field is `place` bytes after
 * image->start. cfa: pushed first if not NULL. False: damaged, endless, or it
 * needs an unknown register or unreadable memory.
 */
bool cfi_expr_eval(const struct cfi_expr_input *input, uint32_t place, const uint64_t *cfa,
		   uint64_t *ret);

/*
 * The expression that linkers write for lazy PLT entries:
 *   rsp + a + (((rip + b & 15) >= k) << s)
 * For a given pc it is rsp plus a constant, *ret_offset. False: another expression.
 */
bool cfi_expr_plt(const struct cfi_image *image, uint32_t place, uintptr_t pc, int32_t *ret_offset);

/* Is it rbp + *ret_offset, or with deref what lies there? */
bool cfi_expr_rbp(const struct cfi_image *image, uint32_t place, bool deref, int32_t *ret_offset);
