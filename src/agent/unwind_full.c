/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind.h"

#include "agent/intern.h"
#include "agent/memory_ops.h"
#include "agent/unwind_step.h"

enum { OWN_FRAMES_MAX = 16, FULL_FRAMES_MAX = 128 };

/* One frame found: what a node needs. */
struct full_frame {
	uint64_t pc;
	uint32_t instance;
};

/* A word of memory; the kernel is asked once per stretch of it, not per word. */
static bool peek_word(void *ctx, uintptr_t address, uint64_t *ret)
{
	struct lane *lane = ctx;
	if (address > UINTPTR_MAX - sizeof *ret ||
	    ((address < lane->safe_low || address + sizeof *ret > lane->safe_high) &&
	     !stack_readable(lane, address, address + sizeof *ret)))
		return false;
	memcpy(ret, (const void *)address, sizeof *ret);
	return true;
}

/* The callee-saved registers here; every caller's follow from them. */
static void own_registers(struct cfi_regs *ret)
{
	*ret = (struct cfi_regs){0};
	__asm__ volatile("lea 0(%%rip), %%rax\n"
			 "mov %%rax, 128(%0)\n"
			 "mov %%rsp, 56(%0)\n"
			 "mov %%rbp, 48(%0)\n"
			 "mov %%rbx, 24(%0)\n"
			 "mov %%r12, 96(%0)\n"
			 "mov %%r13, 104(%0)\n"
			 "mov %%r14, 112(%0)\n"
			 "mov %%r15, 120(%0)\n"
			 :
			 : "r"(ret->reg)
			 : "rax", "memory");
	ret->known = 1u << CFI_RIP | 1u << CFI_RSP | 1u << CFI_RBP | 1u << CFI_RBX | 0xfu << 12;
}

/* One step; fills what was left. exact: rip is an interrupted instruction. */
static bool full_step(struct lane *lane, struct cfi_regs *regs, bool *exact,
		      struct full_frame *left)
{
	uintptr_t rip = regs->reg[CFI_RIP], pc = rip - !*exact;
	struct module_code module;
	left->pc = rip | (*exact ? WIRE_PC_EXACT : 0);
	left->instance = 0;
	if (!rows_module(lane, pc, &module))
		return false;
	left->instance = module.instance;
	return cfi_step(&module.cfi, pc, peek_word, lane, regs, exact);
}

__attribute__((noinline)) uint32_t unwind_full(struct lane *lane, const struct call_site *site)
{
	struct cfi_regs regs;
	struct full_frame frames[FULL_FRAMES_MAX], own;
	own_registers(&regs);
	lane->safe_low = lane->safe_high = 0; /* what was readable once may not be any more */
	bool exact = true;
	for (int i = 0; regs.reg[CFI_RSP] != site->sp || regs.reg[CFI_RIP] != site->pc; i++)
		if (i == OWN_FRAMES_MAX || !full_step(lane, &regs, &exact, &own))
			return 0;
	exact = false;
	uint32_t count = 0;
	bool more = true;
	while (more && count < FULL_FRAMES_MAX)
		more = full_step(lane, &regs, &exact, &frames[count++]);
	uint64_t hash = 0;
	uint32_t node = 0;
	if (more) {
		hash = intern_hash(0, WIRE_MARK_CUT, WIRE_MODULE_MARK);
		node = intern_node(hash, 0, WIRE_MODULE_MARK, WIRE_MARK_CUT);
	}
	while (count--) {
		hash = intern_hash(hash, frames[count].pc, frames[count].instance);
		node = intern_node(hash, node, frames[count].instance, frames[count].pc);
	}
	return node;
}
