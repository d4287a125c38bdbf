/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stepping where the frame is not found from sp or bp alone, and walks that use
 * no memory: seeking a hook's frame, and the check of test builds.
 */
#include "agent/unwind_step.h"

#include "agent/memory_ops.h"
#include "agent/own_stack.h"
#include "agent/sys.h"
#include "agent/unwind.h"

enum {
	PROBE_PAGES = 16,
	SEEK_STEPS_MAX = 4096,
};

/* One system call per new stretch. */
AGENT_COLD bool stack_readable(struct lane *lane, uintptr_t sp, uintptr_t end)
{
	if (end < sp)
		return false;
	if (sp < lane->safe_low || sp >= lane->safe_high) {
		lane->safe_low = sp & ~(uintptr_t)(AGENT_PAGE - 1);
		lane->safe_high = lane->safe_low;
	}
	while (lane->safe_high < end) {
		struct sys_iovec remote[PROBE_PAGES];
		uint8_t bytes[PROBE_PAGES];
		struct sys_iovec local = {bytes, PROBE_PAGES};
		if (!agent_may_call())
			return false;
		for (int i = 0; i < PROBE_PAGES; i++)
			remote[i] = (struct sys_iovec){
				(void *)(lane->safe_high + (uintptr_t)i * AGENT_PAGE), 1};
		long pages = sys_process_vm_readv((int)lane->tid, &local, 1, remote, PROBE_PAGES);
		if (pages <= 0)
			return false;
		lane->safe_high += (uintptr_t)pages * AGENT_PAGE;
	}
	return true;
}

AGENT_COLD bool readable_elsewhere(struct lane *lane, struct walk *walk, uintptr_t end)
{
	if (!walk->loose)
		lane->safe_low = lane->safe_high = 0; /* may have been unmapped since */
	walk->loose = true;
	return stack_readable(lane, walk->sp, end);
}

/* Leaves a frame by its frame pointer: only where the chain looks sane and is readable. */
static enum step_result step_by_frame_pointer(struct lane *lane, struct walk *walk,
					      struct memo_frame *frame)
{
	uint64_t bp = walk->bp;
	frame->words |= FRESH_USES_BP;
	if (!walk->guessed) /* so far the frames themselves vouch for sp */
		walk->own_end = own_stack_end(lane, walk->sp);
	walk->guessed = true;
	if (!bp)
		return STEP_END;
	if (bp < walk->sp || bp - walk->sp > STEP_BYTES_MAX || bp & 7 ||
	    !readable(lane, walk, bp + 16))
		return STEP_LOST;
	frame->words |= FRESH_WORDS;
	frame->hash = bp;
	walk->bp = *(volatile uint64_t *)bp;
	walk->pc = *(volatile uint64_t *)(bp + 8);
	walk->sp = bp + 16;
	atomic_store_explicit(&lane->stream->fp_frames,
			      atomic_load_explicit(&lane->stream->fp_frames, memory_order_relaxed) +
				      1,
			      memory_order_relaxed);
	return walk->pc < AGENT_PAGE ? STEP_END : STEP_ON;
}

static enum step_result step_signal(struct lane *lane, struct walk *walk, struct memo_frame *frame)
{
	if (!readable(lane, walk, walk->sp + CFI_UCONTEXT_RIP + 8))
		return STEP_LOST;
	frame->words |= FRESH_SIGNAL | FRESH_WORDS;
	frame->hash = walk->sp + CFI_UCONTEXT_RBP;
	uint64_t ucontext = walk->sp;
	walk->bp = *(volatile uint64_t *)(ucontext + CFI_UCONTEXT_RBP);
	walk->pc = *(volatile uint64_t *)(ucontext + CFI_UCONTEXT_RIP) | WIRE_PC_EXACT;
	walk->sp = *(volatile uint64_t *)(ucontext + CFI_UCONTEXT_RSP);
	if (walk->sp <= ucontext) /* another stack, or lies: all that lies above sp is unknown */
		walk->own_end = 0;
	return (walk->pc & ~WIRE_PC_EXACT) < AGENT_PAGE ? STEP_LOST : STEP_ON;
}

/* A frame that aligned its own stack pointer keeps the address of its caller's frame behind bp. */
static enum step_result step_realigned(struct lane *lane, struct walk *walk,
				       struct memo_frame *frame, uint64_t row)
{
	uint64_t keeper = walk->bp + (uint64_t)(int64_t)row_cfa(row);
	uint64_t bp_slot = walk->bp + (uint64_t)(int64_t)row_bp(row);
	if (row_cfa(row) > 0 || row_cfa(row) <= -(1 << 16))
		return STEP_SLOW;
	if (keeper < walk->sp || keeper - walk->sp > STEP_BYTES_MAX || keeper & 7 ||
	    bp_slot < walk->sp || bp_slot - walk->sp > STEP_BYTES_MAX || bp_slot & 7 ||
	    !readable(lane, walk, keeper + 8) || !readable(lane, walk, bp_slot + 8))
		return STEP_LOST;
	uint64_t cfa = *(volatile uint64_t *)keeper;
	if (cfa <= walk->sp || cfa - walk->sp > STEP_BYTES_MAX || cfa & 7 ||
	    !readable(lane, walk, cfa))
		return STEP_LOST;
	frame->words |= FRESH_USES_BP | FRESH_WORDS | FRESH_REALIGNED;
	frame->hash = bp_slot;
	/* Where the caller's address lies follows from bp, which is compared: found again by
	 * remember(). */
	frame->node |= (uint32_t)(walk->bp - keeper) << 16;
	walk->bp = *(volatile uint64_t *)bp_slot;
	walk->pc = *(volatile uint64_t *)(cfa - 8);
	walk->sp = cfa;
	return walk->pc < AGENT_PAGE ? STEP_END : STEP_ON;
}

__attribute__((noinline)) enum step_result step_unusual(struct lane *lane, struct walk *walk,
							struct memo_frame *frame, uint64_t row)
{
	switch (row_kind(row)) {
	case ROW_FP:
		return step_by_frame_pointer(lane, walk, frame);
	case ROW_SIGNAL:
		return step_signal(lane, walk, frame);
	case ROW_REALIGNED:
		return step_realigned(lane, walk, frame, row);
	case ROW_END:
		return STEP_END;
	case ROW_NONE:
	case ROW_SP:
	case ROW_BP:
	case ROW_SLOW:
		break;
	}
	return STEP_SLOW;
}

/* Out of the hot path. */
__attribute__((noinline)) static enum step_result step_once(struct lane *lane, struct walk *walk,
							    struct memo_frame *frame)
{
	return step(lane, walk, frame);
}

enum seek_result unwind_seek(struct lane *lane, const struct call_site *site, uintptr_t hook_sp)
{
	struct walk walk = {.pc = site->pc, .sp = site->sp, .bp = site->bp};
	walk.generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
	enum step_result result = STEP_ON;
	enum seek_result found = SEEK_NOTHING;
	bool signal = false;
	/* The lane may be interrupted in the middle of anything: leave it as it was. */
	uintptr_t safe_low = lane->safe_low, safe_high = lane->safe_high;
	bool seeking = lane->seeking;
	lane->seeking = true;
	for (uint32_t steps = 0; result == STEP_ON && steps < SEEK_STEPS_MAX; steps++) {
		struct memo_frame frame = {0};
		result = step_once(lane, &walk, &frame);
		signal |= (frame.words & FRESH_SIGNAL) != 0;
		if (walk.sp == hook_sp && frame.node == agent.own_instance) {
			found = signal ? SEEK_SIGNAL : SEEK_NESTED;
			break;
		}
	}
	if (!found && (result == STEP_LOST || result == STEP_SLOW || walk.guessed))
		found = SEEK_LOST;
	lane->seeking = seeking;
	lane->safe_low = safe_low;
	lane->safe_high = safe_high;
	return found;
}

bool unwind_interrupts_us(struct lane *lane, const struct call_site *site)
{
	struct walk walk = {.pc = site->pc, .sp = site->sp, .bp = site->bp};
	walk.generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
	enum step_result result = STEP_ON;
	uintptr_t safe_low = lane->safe_low, safe_high = lane->safe_high;
	bool seeking = lane->seeking, signal = false, found = false;
	lane->seeking = true;
	for (uint32_t steps = 0; !found && result == STEP_ON && steps < SEEK_STEPS_MAX; steps++) {
		struct memo_frame frame = {0};
		result = step_once(lane, &walk, &frame);
		found = signal && frame.node == agent.own_instance;
		signal = (frame.words & FRESH_SIGNAL) != 0;
	}
	lane->seeking = seeking;
	lane->safe_low = safe_low;
	lane->safe_high = safe_high;
	return found;
}

static void complain(const char *what)
{
	sys_write(2, what, strlen(what));
	sys_exit_group(99);
}

/*
 * Every frame of the node's path against plain stepping, up to a mark, the end,
 * or a frame that unwind_full() alone can leave (the loader's lazy binding).
 */
void unwind_check(struct lane *lane, const struct call_site *site, uint32_t node)
{
	struct walk walk = {.pc = site->pc, .sp = site->sp, .bp = site->bp};
	walk.generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
	enum step_result result = STEP_ON;
	const struct wire_node *nodes = agent.map.nodes;
	while (node && nodes[node].module != WIRE_MODULE_MARK && result != STEP_SLOW) {
		if (result != STEP_ON || nodes[node].pc != walk.pc)
			complain(
				"tidemark check: a remembered stack differs from plain stepping\n");
		struct memo_frame frame = {0};
		result = step_once(lane, &walk, &frame);
		node = nodes[node].parent;
	}
	if (!node && result == STEP_ON)
		complain("tidemark check: a remembered stack is too short\n");
	atomic_fetch_add_explicit(&lane->stream->unwinds, 1, memory_order_relaxed);
}
