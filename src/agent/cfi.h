/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind rules of x86-64 code from .eh_frame, one pc at a time, found through
 * .eh_frame_hdr. Freestanding: no libc, no allocation, no state; any number of
 * threads and signal handlers at once. Stack use below 1.5 KiB.
 *
 * Words:
 *   CFA   canonical frame address: the stack pointer in the caller right before
 *         the call instruction pushed the return address
 *   FDE   the entry of the table that covers one function
 *   row   the rules that hold at one pc
 *
 * Tables are hostile: every read is checked against [start, end), every loop is
 * bounded. What must hold: [start, end) is mapped and readable during the call.
 *
 * Known limits: remember_state nests 8 deep; rules of vector registers are
 * parsed and ignored.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CFI_RIP = 16, CFI_RSP = 7, CFI_RBP = 6, CFI_RBX = 3, CFI_REGISTERS = 17 };

/* Where one module's tables are. All addresses are run-time addresses. */
struct cfi_image {
	uintptr_t start;        /* readable range that holds the tables: the PT_LOAD segment of */
	uintptr_t end;          /* PT_GNU_EH_FRAME; nothing outside is read as a table */
	uintptr_t eh_frame_hdr; /* 0: the module has none */
	uintptr_t hdr_bytes;
	uintptr_t eh_frame;   /* used without a header, then searched from its start */
	uintptr_t code_start; /* readable code; only signal trampolines are recognised in it */
	uintptr_t code_end;   /* (0, 0: no reading of code) */
};

enum cfi_kind {
	CFI_NONE = 0, /* no FDE covers the pc */
	CFI_SP,       /* cfa = rsp + cfa_offset */
	CFI_BP,       /* cfa = rbp + cfa_offset */
	CFI_END,      /* return address undefined: the outermost frame */
	CFI_BP_DEREF, /* realigned frame: cfa is the word at rbp + cfa_offset */
	CFI_SIGNAL,   /* frame of a signal: a ucontext at rsp, see CFI_UCONTEXT_* */
	CFI_SLOW,     /* only cfi_step() can tell, or nobody */
};

/* Offsets from rsp in a CFI_SIGNAL frame. After it the caller's pc is exact. */
enum { CFI_UCONTEXT_RBP = 120, CFI_UCONTEXT_RSP = 160, CFI_UCONTEXT_RIP = 168 };

/*
 * For CFI_SP, CFI_BP, CFI_BP_DEREF: the return address is at cfa - 8, the
 * caller's rsp is cfa, the caller's rbp is at cfa + bp_offset if bp_saved, else
 * unchanged (CFI_BP_DEREF: always saved, at rbp + bp_offset).
 */
struct cfi_rule {
	uint8_t kind; /* enum cfi_kind */
	bool bp_saved;
	int32_t cfa_offset;
	int32_t bp_offset;
};

/*
 * The rule at pc: a return address minus 1, or an exact pc. Always fills *ret.
 * A signal trampoline without an FDE (musl) is recognised by its instructions
 * at pc, or at pc + 1 (the return address). O(log FDEs) + one FDE.
 */
void cfi_find(const struct cfi_image *image, uintptr_t pc, struct cfi_rule *ret);

/* Is there an FDE for pc? O(log FDEs). */
bool cfi_covers(const struct cfi_image *image, uintptr_t pc);

/* Registers by DWARF number: rax rdx rcx rbx rsi rdi rbp rsp r8..r15 rip. */
struct cfi_regs {
	uint64_t reg[CFI_REGISTERS];
	uint32_t known; /* bit per register */
};

/* Read 8 bytes of the target's memory; false: not readable. */
typedef bool (*cfi_peek_fn)(void *ctx, uintptr_t address, uint64_t *ret);

/*
 * One step with the full machine. pc as for cfi_find(); regs in: rsp, rip and
 * whatever else is known; out: the caller's. Registers that a call may clobber
 * are unknown after an ordinary frame. *ret_signal_frame: the frame left was a
 * signal's, so the new rip is exact. False, with regs unchanged: the outermost
 * frame, no FDE, a register needed is unknown, or memory is not readable.
 */
bool cfi_step(const struct cfi_image *image, uintptr_t pc, cfi_peek_fn peek, void *ctx,
	      struct cfi_regs *regs, bool *ret_signal_frame);
