/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which registers a function changes for certain.
 *
 * Compilers keep values in registers that a call may change where they see that
 * the function leaves them alone. A register that the function's own code writes,
 * or that of a function it calls, is none of them: whoever hooks the function need
 * not keep it. Only writes that are plain to see are counted, so the answer errs
 * on the side of "not changed".
 */
#pragma once

#include "inject/plan_elf.h"
#include "inject/reloc.h"

/* Bits of registers, by their numbers. */
enum {
	CLOBBER_RAX = 1u << 0,
	CLOBBER_OTHERS = 1u << 1 | 1u << 2 | 1u << 6 | 1u << 7 | 0xfu << 8, /* rcx ... r11 */
};

/*
 * Those of CLOBBER_* that it changes. The code is the function's; elf is its
 * module, bias how far that is from its addresses. What it calls is looked at,
 * too; a call whose target the code does not tell changes all. What it pushes it
 * may restore: such a register does not count. Bounded.
 */
uint32_t clobber_find(const struct reloc_code *code, const struct plan_elf *elf, uint64_t bias);
