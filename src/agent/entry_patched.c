/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that were patched (wire/site.h): the stub has pushed the address of
 * the site, or has it in a register, and jumps to tidemark_patched.
 *
 * Compilers keep values in registers that a call may change, when they can see
 * that the function they call leaves them alone (-fipa-ra, in static programs).
 * So every register is as the function itself would leave it, but for the result:
 * saved, unless the function is known to change it (enum wire_glue).
 *
 * A call that is not recorded (nested, off, no lane) goes on into the function as
 * if nothing had been there: no frame of ours stays behind, so exceptions that
 * the function throws find their way also where nobody knows our unwind table.
 */
#include <linux/prctl.h>

#include "agent/entry.h"
#include "agent/entry_maps.h"
#include "agent/entry_plain.h"
#include "agent/entry_process.h"
#include "agent/execute.h"
#include "agent/keep.h"
#include "agent/memory_ops.h"
#include "agent/sys.h"
#include "wire/site.h"

/* As tidemark_patched pushes it, lowest address first. */
struct patched_frame {
	uintptr_t arguments[WIRE_SITE_ARGUMENTS];
	uintptr_t r11, r10;
	uintptr_t result; /* rax */
	uintptr_t bp;
	const struct wire_site *site;
	uintptr_t pc;
};

/* As two registers return it. Not done: go on into the function as if nothing had been. */
struct patched_result {
	uintptr_t result; /* rax, as the caller is to find it */
	uintptr_t done;
};

enum { JEMALLOC_ALIGN_LOG2 = 63 }; /* the low bits of mallocx's flags */

static inline struct call_site call_site_of(const struct patched_frame *frame)
{
	return (struct call_site){
		.pc = frame->pc, .sp = (uintptr_t)(&frame->pc + 1), .bp = frame->bp};
}

static inline uintptr_t argument(const struct patched_frame *frame, uint8_t index,
				 uintptr_t otherwise)
{
	return index < WIRE_SITE_ARGUMENTS ? frame->arguments[index] : otherwise;
}

static inline size_t bytes_of(const struct patched_frame *frame)
{
	size_t bytes = argument(frame, frame->site->size, 0), product;
	if (likely(frame->site->count >= WIRE_SITE_ARGUMENTS))
		return bytes;
	return __builtin_mul_overflow(bytes, frame->arguments[frame->site->count], &product)
		       ? SIZE_MAX
		       : product;
}

static inline size_t alignment_of(const struct patched_frame *frame)
{
	uintptr_t value = argument(frame, frame->site->alignment, 0);
	if (!(frame->site->flags & WIRE_SITE_JEMALLOC_FLAGS))
		return value;
	return value & JEMALLOC_ALIGN_LOG2 ? (size_t)1 << (value & JEMALLOC_ALIGN_LOG2) : 0;
}

static inline uintptr_t call(const struct patched_frame *frame, uint64_t function)
{
	typedef uintptr_t (*fn)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
	const uintptr_t *a = frame->arguments;
	return ((fn)(uintptr_t)function)(a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The function itself, as the outermost of what it may call. */
static inline uintptr_t call_real(struct lane *lane, const struct call_site *site,
				  const struct patched_frame *frame, uint64_t function)
{
	uintptr_t outer = patched_call_begins(lane, site);
	uintptr_t result = call(frame, function);
	patched_call_ends(lane, outer);
	return result;
}

/* The allocator's label; NULL: it has none, or there is no room for one. */
static struct label *source_of(struct lane *lane, const struct call_site *site,
			       const struct wire_site *what)
{
	hook_raise(lane, site);
	struct label *label = label_of_source(lane, what);
	hook_lower(lane);
	return label;
}

/* The block as the collector is to know it: a pool's may lie in another allocator's. */
static inline void *keyed(const struct wire_site *what, const struct label *label, uintptr_t block)
{
	if (likely(!(what->flags & WIRE_SITE_OWN_KEY)) || !label || !block)
		return (void *)block;
	return (void *)((block & WIRE_ADDRESS_MASK) | (uint64_t)label->heap_key << WIRE_HEAP_SHIFT);
}

/* After the call: the new block, or NULL. */
static void note_block(struct lane *lane, const struct call_site *site,
		       const struct patched_frame *frame, uintptr_t block, size_t bytes)
{
	const struct wire_site *what = frame->site;
	struct heap_name heap = heap_patched(what);
	if (lane_is_wiped(lane))
		return;
	struct hook_new_block new = {(void *)block, bytes, alignment_of(frame)};
	if (unlikely(what->flags & WIRE_SITE_OWN_KEY)) {
		struct label *label = source_of(lane, site, what);
		heap = heap_labelled(label);
		new.block = keyed(what, label, block);
	}
	patched_note(lane, site, what->api, new, heap);
}

/* Before the call: the block that ends with it. */
static inline void note_free(struct lane *lane, const struct call_site *site,
			     const struct wire_site *what, uintptr_t block)
{
	void *known = (void *)block;
	if (unlikely(what->flags & WIRE_SITE_OWN_KEY))
		known = keyed(what, source_of(lane, site, what), block);
	hook_free(lane, site, what->api, known);
}

static bool patched_alloc(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return false;
	frame->result = call_real(lane, &site, frame, frame->site->original);
	note_block(lane, &site, frame, frame->result, bytes_of(frame));
	return true;
}

/* Is it the allocator itself that calls? The program has freed the block before. */
static inline bool is_own_call(const struct patched_frame *frame)
{
	const struct wire_site *what = frame->site;
	return unlikely(what->flags & WIRE_SITE_OWN_CALLS) && frame->pc - what->twin < what->label;
}

/* No result: rax, too, is as the caller left it. */
static bool patched_free(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	uintptr_t block = argument(frame, frame->site->pointer, 0);
	struct lane *lane = block && !is_own_call(frame) ? hook_begin(&site) : NULL;
	if (unlikely(!lane))
		return false;
	note_free(lane, &site, frame->site, block);
	call_real(lane, &site, frame, frame->site->original);
	return true;
}

/* A realloc's new block; the old one's end has been told. */
static void note_moved(struct lane *lane, const struct call_site *site,
		       const struct patched_frame *frame, enum hook_realloc begun,
		       struct hook_new_block new)
{
	const struct wire_site *what = frame->site;
	if (lane_is_wiped(lane))
		return;
	struct label *label = source_of(lane, site, what);
	void *old = keyed(what, label, argument(frame, what->pointer, 0));
	if (label)
		label_enter(lane, label);
	new.block = keyed(what, label, (uintptr_t) new.block);
	hook_realloc_end(lane, site, what->api, begun, old, new);
	if (label)
		label_enter(lane, NULL);
}

static enum hook_realloc note_moving(struct lane *lane, const struct call_site *site,
				     const struct patched_frame *frame)
{
	const struct wire_site *what = frame->site;
	void *old = (void *)argument(frame, what->pointer, 0);
	if (unlikely(what->flags & WIRE_SITE_OWN_KEY))
		old = keyed(what, source_of(lane, site, what), (uintptr_t)old);
	return hook_realloc_begin(lane, site, what->api, old);
}

static bool patched_realloc(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	const struct wire_site *what = frame->site;
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return false;
	uintptr_t old = argument(frame, what->pointer, 0);
	size_t bytes = bytes_of(frame);
	/* unless it returns a block: then that is a new one */
	bool is_free = old && !bytes && (what->flags & WIRE_SITE_FREES_AT_ZERO);
	enum hook_realloc begun = HOOK_REALLOC_UNSEEN;
	if (is_free)
		note_free(lane, &site, what, old);
	else if (old)
		begun = note_moving(lane, &site, frame);
	frame->result = call_real(lane, &site, frame, what->original);
	if (!is_free || frame->result)
		note_moved(
			lane, &site, frame, begun,
			(struct hook_new_block){(void *)frame->result, bytes, alignment_of(frame)});
	if (what->hook == WIRE_HOOK_REALLOCF && old && !frame->result && !lane_is_wiped(lane))
		note_free(lane, &site, what, old);
	return true;
}

static bool patched_out(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return false;
	const uintptr_t *place = (const uintptr_t *)argument(frame, frame->site->pointer, 0);
	frame->result = call_real(lane, &site, frame, frame->site->original);
	note_block(lane, &site, frame, (int)frame->result || !place ? 0 : *place, bytes_of(frame));
	return true;
}

static bool patched_text(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return false;
	frame->result = call_real(lane, &site, frame, frame->site->original);
	note_block(lane, &site, frame, frame->result,
		   frame->result ? strlen((const char *)frame->result) + 1 : 0);
	return true;
}

/* In place or not at all: a result below what was asked for means that nothing has changed. */
static bool patched_xalloc(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return false;
	void *block = (void *)argument(frame, frame->site->pointer, 0);
	size_t bytes = bytes_of(frame);
	frame->result = call_real(lane, &site, frame, frame->site->original);
	if (frame->result < bytes || lane_is_wiped(lane))
		return true;
	enum hook_realloc begun = note_moving(lane, &site, frame);
	if (begun != HOOK_REALLOC_UNSEEN)
		note_moved(lane, &site, frame, begun,
			   (struct hook_new_block){block, bytes, alignment_of(frame)});
	return true;
}

/*
 * operator new throws when there is no memory. First its twin that returns NULL
 * instead; only when that has failed the function itself, without us, to throw.
 */
static bool patched_new(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	uint64_t twin = frame->site->twin;
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane))
		return false;
	if (!twin) { /* then our table must be known to whoever throws */
		lane->open_site = &site;
		lane->open_bytes = bytes_of(frame);
	}
	frame->result = call_real(lane, &site, frame, twin ? twin : frame->site->original);
	lane->open_site = NULL;
	note_block(lane, &site, frame, frame->result, bytes_of(frame));
	return frame->result || !twin;
}

/* Mapped memory: what the allocator maps for itself is nested in its calls and not told. */
static bool patched_map(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	enum wire_hook hook = (enum wire_hook)frame->site->hook;
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane) || !maps_wanted())
		return false;
	maps_before(lane, &site, hook, frame->arguments);
	frame->result = call_real(lane, &site, frame, frame->site->original);
	maps_after(lane, &site, hook, frame->arguments, frame->result);
	return true;
}

/* sbrk calls it, too: nested in its own. */
static bool patched_brk(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	struct lane *lane = hook_begin(&site);
	if (unlikely(!lane) || !maps_wanted() || !agent_may_call())
		return false;
	uintptr_t from = maps_break();
	frame->result = call_real(lane, &site, frame, frame->site->original);
	if (!(int)frame->result)
		maps_moved_break(lane, &site, from, frame->arguments[0]);
	return true;
}

/* Nothing of the lane is there in the child. */
static bool patched_fork(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	struct lane *lane = process_lane(&site);
	if (!lane)
		return false;
	process_emit(lane, &site, WIRE_EV_FORK, 0, 0);
	struct keep keep;
	bool kept = keep_begin(&keep, lane, &site);
	frame->result = call(frame, frame->site->original);
	int pid = (int)frame->result;
	if (kept)
		keep_end(&keep, pid);
	else if (!pid)
		keep_nothing(lane);
	if (pid)
		process_emit(lane, &site, WIRE_EV_FORKED, pid > 0 ? (uint64_t)pid : 0, 0);
	return true;
}

/* A child of vfork comes by: no lane is its own. */
static bool patched_exec(struct patched_frame *frame)
{
	struct call_site site = call_site_of(frame);
	struct lane *lane = process_lane(&site);
	if (lane)
		process_emit(lane, &site, WIRE_EV_EXEC, 0, 0);
	struct execute_request request = {.file = (const char *)frame->arguments[0],
					  .envp = (char *const *)frame->arguments[2]};
	execute_look(&request); /* its environment stays: no loader has us, so none is asked to */
	struct rendezvous_link asked = execute_ask(&request, NULL, 0);
	frame->result = call(frame, frame->site->original);
	execute_over(asked);
	if (lane)
		process_emit(lane, &site, WIRE_EV_EXEC_FAIL, 0, 0);
	return true;
}

/* From now on no system calls? As of the preloaded ones; the call itself goes on. */
static bool patched_filter(const struct patched_frame *frame)
{
	const uintptr_t *a = frame->arguments;
	bool direct = frame->site->hook == WIRE_HOOK_PRCTL;
	if (!direct && (a[0] == SYS_NR_SECCOMP || a[0] == SYS_NR_PRCTL))
		process_saw_syscall((long)a[0], a[1], a[2]);
	else if (direct && ((int)a[0] == PR_SET_SECCOMP || (int)a[0] == PR_SET_TSC))
		process_saw_prctl((int)a[0], a[1]);
	return false;
}

static bool patched_hook(struct patched_frame *frame)
{
	switch ((enum wire_hook)frame->site->hook) {
	case WIRE_HOOK_FREE:
		return patched_free(frame);
	case WIRE_HOOK_REALLOC:
	case WIRE_HOOK_REALLOCF:
		return patched_realloc(frame);
	case WIRE_HOOK_OUT:
		return patched_out(frame);
	case WIRE_HOOK_TEXT:
		return patched_text(frame);
	case WIRE_HOOK_XALLOC:
		return patched_xalloc(frame);
	case WIRE_HOOK_NEW:
		return patched_new(frame);
	case WIRE_HOOK_MMAP:
	case WIRE_HOOK_MUNMAP:
	case WIRE_HOOK_MREMAP:
	case WIRE_HOOK_MPROTECT:
	case WIRE_HOOK_MADVISE:
	case WIRE_HOOK_SBRK:
		return patched_map(frame);
	case WIRE_HOOK_BRK:
		return patched_brk(frame);
	case WIRE_HOOK_FORK:
		return patched_fork(frame);
	case WIRE_HOOK_EXEC:
		return patched_exec(frame);
	case WIRE_HOOK_PRCTL:
	case WIRE_HOOK_SYSCALL:
		return patched_filter(frame);
	case WIRE_HOOK_ALLOC:
		return patched_alloc(frame);
	case WIRE_HOOK_COUNT:
		break;
	}
	return false;
}

/* From tidemark_patched. */
__attribute__((used, hot)) static struct patched_result patched_call(struct patched_frame *frame)
{
	bool done = patched_hook(frame);
	return (struct patched_result){frame->result, done};
}

_Static_assert(offsetof(struct agent, state) == 0, "known to the assembler");
_Static_assert(offsetof(struct wire_site, original) == 0, "known to the assembler");
_Static_assert(AGENT_PASS == 1, "known to the assembler");
_Static_assert(WIRE_GLUE_LIGHT == 1 && WIRE_GLUE_ALLOC == 2 && WIRE_GLUE_FREE == 3 &&
		       WIRE_GLUE_FEW_ALLOC == 4 && WIRE_GLUE_FEW_FREE == 5 &&
		       WIRE_GLUE_FEW_REALLOC == 6 && WIRE_GLUE_BYTES == 128,
	       "known to the assembler");

#define PUSH(name)    "	push %" #name "\n	.cfi_adjust_cfa_offset 8\n"
#define POP(name)     "	pop %" #name "\n	.cfi_adjust_cfa_offset -8\n"
#define ARGUMENTS(X)  X(r9) X(r8) X(rcx) X(rdx) X(rsi) X(rdi)
#define BACK(X)       X(rdi) X(rsi) X(rdx) X(rcx) X(r8) X(r9)
#define DROP(bytes)   "	lea " #bytes "(%rsp), %rsp\n	.cfi_adjust_cfa_offset -" #bytes "\n"
#define RETURN(bytes) DROP(bytes) "	ret\n	.cfi_adjust_cfa_offset " #bytes "\n"

#define MOVE_DOWN(bytes) \
	"	lea -" #bytes "(%rsp), %rsp\n	.cfi_adjust_cfa_offset " #bytes "\n"
/* The site is in rcx. */
#define PLAIN(at, function)                      \
	".org tidemark_patched + " at ", 0xcc\n" \
	"	cmpl $1, agent(%rip)\n"                \
	"	jne " function "\n"              \
	"	jmp *(%rcx)\n"

/*
 * One form for each enum wire_glue. The light one keeps the arguments only for
 * the call itself.
 * The way on leaves rax, too: what lies right below the stack pointer is ours for
 * a moment, since signal handlers leave it alone (the red zone).
 */
/* clang-format off */
__asm__(".text\n"
	".p2align 7\n"
	".globl tidemark_patched\n"
	".type tidemark_patched,@function\n"
	"tidemark_patched:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa_offset 16\n"
	"	cmpl $1, agent(%rip)\n"
	"	je 1f\n"
	PUSH(rbp) PUSH(rax) PUSH(r10) PUSH(r11) ARGUMENTS(PUSH)
	"	mov %rsp, %rdi\n"
	"	call patched_call\n"
	"	test %edx, %edx\n"
	BACK(POP) POP(r11) POP(r10)
	"	jz 2f\n"
	RETURN(24)
	"2:	pop %rax\n"
	"	.cfi_adjust_cfa_offset -8\n"
	DROP(8)
	"1:	mov %rax, -8(%rsp)\n"
	"	mov (%rsp), %rax\n"
	"	mov (%rax), %rax\n"
	"	mov %rax, (%rsp)\n"
	"	mov -8(%rsp), %rax\n"
	DROP(8)
	"	jmp *-8(%rsp)\n"
	"	.cfi_adjust_cfa_offset 8\n"
	".org tidemark_patched + 128, 0xcc\n"
	"	cmpl $1, agent(%rip)\n"
	"	je 1b\n"
	PUSH(rbp) MOVE_DOWN(24) ARGUMENTS(PUSH)
	"	mov %rsp, %rdi\n"
	"	call patched_call\n"
	"	test %edx, %edx\n"
	"	jz 3f\n"
	RETURN(88)
	"3:\n"
	BACK(POP) DROP(32)
	"	jmp 1b\n"
	"	.cfi_adjust_cfa_offset -8\n"
	PLAIN("256", "patched_malloc")
	PLAIN("384", "patched_release")
	PLAIN("512", "patched_few_alloc")
	PLAIN("640", "patched_few_free")
	PLAIN("768", "patched_few_realloc")
	"	.cfi_endproc\n"
	".size tidemark_patched,.-tidemark_patched\n");
/* clang-format on */
