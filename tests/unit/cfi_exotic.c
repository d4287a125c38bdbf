/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are never called, with unwind rules that compilers seldom or
 * never write. test_cfi compares them with libdw like all others of this
 * program, and some with rules written down in the test.
 */
#include "cfi_exotic.h"

__asm__(".text\n"
	".globl exotic_rbx, exotic_register, exotic_val_offset, exotic_end, exotic_nested\n"
	".globl exotic_plt, exotic_args, exotic_huge, exotic_signal, exotic_ra16, exotic_far\n"
	".globl exotic_expressions, exotic_after_expr, exotic_deep, exotic_before_wide\n"
	".globl exotic_wide, exotic_narrow, exotic_last, exotic_rbp_gone, exotic_loop\n"
	".globl exotic_realigned\n"

	"exotic_rbx:\n"
	".cfi_startproc\n nop\n .cfi_def_cfa rbx, 24\n nop\n .cfi_offset rbx, -16\n nop\n"
	".cfi_def_cfa r15, -8\n nop\n .cfi_endproc\n"

	"exotic_register:\n"
	".cfi_startproc\n nop\n .cfi_register rip, r11\n nop\n .cfi_register rbx, r12\n nop\n"
	".cfi_restore rbx\n nop\n .cfi_register rbp, rax\n nop\n .cfi_endproc\n"

	"exotic_val_offset:\n" /* clang's assembler has no directive for it */
	".cfi_startproc\n nop\n"
	".cfi_escape 0x15, 7, 0x7e\n nop\n"  /* val_offset_sf rsp, -2 * -8 */
	".cfi_escape 0x14, 7, 0\n nop\n"     /* val_offset rsp, 0 */
	".cfi_escape 0x14, 6, 4\n nop\n"     /* val_offset rbp, 4 * -8 */
	".cfi_escape 0x15, 13, 0x7f\n nop\n" /* val_offset_sf r13, -1 * -8 */
	".cfi_endproc\n"

	"exotic_end:\n"
	".cfi_startproc\n nop\n .cfi_undefined rip\n nop\n .cfi_endproc\n"

	"exotic_rbp_gone:\n"
	".cfi_startproc\n nop\n .cfi_undefined rbp\n nop\n .cfi_same_value rbp\n nop\n"
	".cfi_endproc\n"

	"exotic_nested:\n"
	".cfi_startproc\n nop\n .cfi_remember_state\n .cfi_def_cfa_offset 16\n nop\n"
	".cfi_remember_state\n .cfi_offset rbp, -16\n nop\n"
	".cfi_remember_state\n .cfi_def_cfa_register rbp\n nop\n"
	".cfi_remember_state\n .cfi_offset rbx, -24\n nop\n"
	".cfi_restore_state\n nop\n .cfi_restore_state\n nop\n .cfi_restore_state\n nop\n"
	".cfi_restore_state\n nop\n .cfi_endproc\n"

	"exotic_deep:\n"
	".cfi_startproc\n nop\n"
	".rept 8\n .cfi_remember_state\n .endr\n nop\n .rept 8\n .cfi_restore_state\n .endr\n nop\n"
	".cfi_endproc\n"

	".balign 16\n" /* rsp + 8 + ((rip & 15) >= 11) << 3 */
	"exotic_plt:\n"
	".cfi_startproc\n"
	".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
	".skip 16, 0x90\n .cfi_endproc\n"

	"exotic_args:\n"
	".cfi_startproc\n nop\n .cfi_escape 0x2e, 0x20\n .cfi_def_cfa_offset 48\n nop\n"
	".cfi_escape 0x2f, 6, 2\n nop\n"    /* GNU_negative_offset_extended rbp */
	".cfi_escape 0x05, 6, 3\n nop\n"    /* offset_extended rbp, 3 * -8 */
	".cfi_escape 0x11, 6, 0x7c\n nop\n" /* offset_extended_sf rbp, -4 * -8 */
	".cfi_escape 0x12, 7, 0x7d\n nop\n" /* def_cfa_sf rsp, -3 * -8 */
	".cfi_escape 0x13, 0x7b\n nop\n"    /* def_cfa_offset_sf -5 * -8 */
	".cfi_escape 0x05, 17, 3\n nop\n"   /* a vector register */
	".cfi_escape 0x06, 6\n nop\n"       /* restore_extended rbp */
	".cfi_endproc\n"

	"exotic_huge:\n"
	".cfi_startproc\n nop\n .cfi_escape 0x0e, 0x80, 0x80, 0x80, 0x80, 0x10\n nop\n"
	".cfi_endproc\n"

	"exotic_signal:\n"
	".cfi_startproc\n .cfi_signal_frame\n nop\n .cfi_def_cfa_offset 160\n nop\n .cfi_endproc\n"

	"exotic_ra16:\n"
	".cfi_startproc\n nop\n .cfi_offset rip, -16\n nop\n .cfi_endproc\n"

	"exotic_far:\n"
	".cfi_startproc\n .skip 300\n .cfi_def_cfa_offset 16\n .skip 70000\n"
	".cfi_def_cfa_offset 24\n nop\n .cfi_endproc\n"

	"exotic_expressions:\n"
	".cfi_startproc\n"
	/* cfa = *(rbp - 16) */
	"nop\n .cfi_escape 0x0f, 3, 0x76, 0x70, 0x06\n"
	/* rbx at *(cfa - 8 & -32) - 96 */
	"nop\n .cfi_escape 0x10, 3, 15, 0x38, 0x1c, 0x0d, 0xe0, 0xff, 0xff, 0xff, 0x1a, 0x0d, "
	"0xa0, "
	"0xff, 0xff, 0xff, 0x22\n"
	/* rbp is rsp + 1000 */
	"nop\n .cfi_escape 0x16, 6, 4, 0x77, 0xe8, 0x07, 0x96\n"
	/* r12 at rsp + 16, dropping the cfa */
	"nop\n .cfi_escape 0x10, 12, 3, 0x13, 0x77, 0x10\n"
	"nop\n .cfi_endproc\n"

	"exotic_realigned:\n" /* cfa = *(rbp - 8), rbp at rbp + 0; then rbp elsewhere */
	".cfi_startproc\n nop\n .cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n"
	".cfi_escape 0x10, 6, 2, 0x76, 0\n nop\n"
	".cfi_escape 0x10, 6, 2, 0x77, 0\n nop\n .cfi_endproc\n"

	"exotic_after_expr:\n" /* as in hand-written cryptographic code */
	".cfi_startproc\n nop\n .cfi_def_cfa_offset 56\n nop\n"
	".cfi_escape 0x0f, 6, 0x77, 0x98, 0x04, 0x06, 0x23, 0x38\n nop\n"
	".cfi_def_cfa_register rsp\n nop\n .cfi_endproc\n"

	"exotic_loop:\n" /* an expression that jumps to itself */
	".cfi_startproc\n nop\n .cfi_escape 0x0f, 4, 0x38, 0x2f, 0xfc, 0xff\n nop\n"
	".cfi_endproc\n"

	/* A signal trampoline without FDE right behind a function that has one. */
	"exotic_before_wide:\n"
	".cfi_startproc\n nop\n nop\n .cfi_endproc\n"
	"exotic_wide:\n"
	"mov $15, %rax\n syscall\n .skip 16, 0xcc\n"
	"exotic_narrow:\n"
	"mov $15, %eax\n syscall\n .skip 16, 0xcc\n"
	"exotic_last:\n"
	"nop\n");
