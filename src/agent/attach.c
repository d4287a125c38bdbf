/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Living in a process into which a tracer has mapped us. No loader has called a
 * constructor; the tracer borrows a thread, which begins at attach_entry, makes
 * our data writable, and carries out orders on a stack of ours. All signals are
 * blocked meanwhile. The thread may have been taken anywhere, inside the
 * allocator or the loader with their locks held: nothing here calls anything.
 *
 * Nothing is ever unmapped: code that was interrupted in us may come back at any
 * time later, so a second session uses the memory of the first.
 */
#include "agent/attach.h"

#include <linux/mman.h>

#include "agent/agent.h"
#include "agent/elf.h"
#include "agent/lane.h"
#include "agent/memory_ops.h"
#include "agent/real.h"
#include "agent/sys.h"
#include "base/version.h"

enum {
	KILL_NR = 62,
	PPOLL_NR = 271,
	MEMFD_NR = 319,
	MEMFD_FLAGS = 3, /* close on exec, may be sealed */
	F_DUPFD_CLOEXEC_NR = 1030,
	HIGH_DESCRIPTOR = 500, /* programs count on the lowest numbers */
	PATIENCE_S = 20, /* far more than a tracer that lives needs, also without a processor */
	SPINS = 2000,    /* some ten microseconds: as long as an answer takes */
	MONOTONIC = 1,
	SETMASK = 2,
	GET_TSC_NR = 25, /* prctl: may the time-stamp counter be read? */
	TSC_FAULTS = 2,
	STEP_NS = 50 * 1000,
	ROUNDS_WITHOUT_CALLS = 100 * 1000, /* some seconds */
	ERROR_FORBIDDEN = 1,
	ERROR_NO_PROCESS = 3,
	ERROR_EXISTS = 17,
	ERROR_INVALID = 22,
	ERROR_BUSY = 16,
	ERROR_NO_MEMORY = 12,
	RESERVE_BYTES = 64 << 20, /* for a process that forbids us to ask for more */
};

void attach_entry(void);
_Noreturn void attach_leave(void);

static uint8_t attach_stack[WIRE_ATTACH_STACK_BYTES] __attribute__((aligned(64)));

extern struct real_functions real;
int dlclose(void *handle);

__attribute__((visibility("default"))) struct wire_attach_block tidemark_attach_block = {
	.magic = WIRE_ATTACH_MAGIC,
	.version = WIRE_ATTACH_VERSION,
	.tool_version = TIDEMARK_VERSION,
	.entry = (uintptr_t)attach_entry,
	.stack_top = (uintptr_t)(attach_stack + sizeof attach_stack),
	.dlclose = (uintptr_t)dlclose,
	.dlclose_real = (uintptr_t)&real.dlclose,
};

static struct wire_attach_block *const block = &tidemark_attach_block;

bool attach_is_allocator(uintptr_t pc)
{
	uint32_t count = block->range_count;
	for (uint32_t i = 0; i < count && i < WIRE_ATTACH_RANGES; i++)
		if (pc >= block->ranges[i].start && pc < block->ranges[i].end)
			return true;
	return false;
}

static int opened; /* our only descriptor in the process, + 1; 0: none */

/*
 * For some microseconds the descriptor has the lowest free number, which another
 * thread may be about to count on: as few instructions as can be.
 */
static int64_t open_memory(void)
{
	/* A flag of its own keeps the kernel from joining our mapping with others: we are found by
	 * its start. */
	sys_madvise((void *)block->image, block->image_bytes, MADV_DONTDUMP);
	static const char name[] = "tidemark";
	long low = sys_call3(MEMFD_NR, (long)name, MEMFD_FLAGS, 0);
	if (low < 0)
		return low;
	int high = sys_fcntl((int)low, F_DUPFD_CLOEXEC_NR, HIGH_DESCRIPTOR);
	if (high < 0)
		return low; /* fewer are allowed */
	sys_close((int)low);
	return high;
}

static int64_t map_island(uint64_t address, uint64_t bytes)
{
	void *got = sys_mmap((void *)address, bytes, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (sys_failed((long)got))
		return (int64_t)got;
	if ((uint64_t)got == address)
		return 0;
	sys_munmap(got, bytes); /* a kernel that takes the address as a hint */
	return -ERROR_EXISTS;
}

/* Over the memory of the session before, if there was one: its addresses stay good. */
static int64_t map_session(int fd)
{
	struct wire_control *old = agent.map.control;
	struct wire_control *head = sys_mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (sys_failed((long)head))
		return (long)head;
	uint64_t bytes = head->total_bytes;
	sys_munmap(head, WIRE_PAGE_BYTES);
	if (old && old->total_bytes != bytes)
		return -ERROR_INVALID;
	void *base = sys_mmap(old, bytes, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE | (old ? MAP_FIXED : 0), fd, 0);
	if (sys_failed((long)base))
		return (int64_t)base;
	int advised = sys_madvise(base, bytes, MADV_DONTFORK);
	struct wire_map map = {0};
	if (sys_failed(advised) || wire_map_init(&map, base, bytes))
		return -ERROR_INVALID;
	sys_madvise(base, bytes, MADV_DONTDUMP); /* a core file would have all of it */
	agent.map = map;
	return 0;
}

/* Inside our own code, or about to write without asking whether it should. */
static bool is_lane_busy(const struct lane *lane)
{
	return lane && (*(volatile const uintptr_t *)&lane->agent_sp ||
			*(volatile const bool *)&lane->open_realloc);
}

/* Is a thread in the middle of writing an event of the session before? */
static bool is_busy(void)
{
	const struct lane *lane = atomic_load_explicit(&agent.lanes, memory_order_acquire);
	for (; lane; lane = lane->next)
		if (is_lane_busy(lane) || is_lane_busy(lane->signal_lane))
			return true;
	return false;
}

/* A filter will not let us ask later. */
static void reserve(void)
{
	uintptr_t left = atomic_load(&agent.arena_end) - atomic_load(&agent.arena_next);
	if (!block->seccomp || left >= RESERVE_BYTES / 2)
		return;
	void *memory = agent_map(RESERVE_BYTES);
	if (!memory)
		return;
	atomic_store(&agent.arena_next, (uintptr_t)memory);
	atomic_store(&agent.arena_end, (uintptr_t)memory + RESERVE_BYTES);
}

static int64_t begin(int fd, bool force)
{
	/* Nothing is patched now: who still is inside finds that nothing is to be recorded. */
	atomic_store(&agent.state, AGENT_PASS);
	if (agent.map.control)
		atomic_store(&agent.map.control->state, WIRE_OFF);
	if (!force && is_busy())
		return -ERROR_BUSY;
	int tsc = 0;
	if (!sys_prctl(GET_TSC_NR, (unsigned long)&tsc, 0, 0) && tsc == TSC_FAULTS)
		return -ERROR_FORBIDDEN;
	if (sys_failed(sys_madvise(&agent, sizeof agent, MADV_WIPEONFORK)))
		return -ERROR_INVALID;
	if (!agent_fixed.injected) {
		struct elf_auxv auxv;
		elf_auxv_parse((const Elf64_auxv_t *)block->auxv, WIRE_ATTACH_AUXV_WORDS / 2,
			       &auxv);
		session_scope(&auxv);
		agent_fixed.injected = 1;
		atomic_store(&agent_fixed.resolved, 1);
	}
	atomic_store(&agent.init_lock, 1); /* forked children are told apart by was_on */
	int64_t error = map_session(fd);
	if (error)
		return error;
	opened = 0;
	sys_close(fd);
	atomic_store(&agent.seccomp, 0);
	atomic_store(&agent.state, AGENT_NEW); /* not off, so that it can emit what is loaded */
	if (!session_begin()) {
		atomic_store(&agent.state, AGENT_PASS);
		return -ERROR_NO_MEMORY;
	}
	reserve();
	atomic_store(&agent.seccomp, block->seccomp != 0);
	atomic_store(&agent_fixed.was_on, 1);
	atomic_store(&agent.map.control->agent_ready, 1);
	atomic_store(&agent.state, AGENT_ON);
	return 0;
}

static int64_t obey(void)
{
	switch ((enum wire_attach_order)block->order) {
	case WIRE_ATTACH_NONE:
		return 0;
	case WIRE_ATTACH_OPEN: {
		int64_t fd = open_memory();
		opened = fd < 0 ? 0 : (int)fd + 1;
		return fd;
	}
	case WIRE_ATTACH_CLOSE:
		opened = 0;
		return sys_close((int)block->argument[0]);
	case WIRE_ATTACH_MAP:
		return map_island(block->argument[0], block->argument[1]);
	case WIRE_ATTACH_BEGIN:
		return begin((int)block->argument[0], block->argument[1] != 0);
	}
	return -ERROR_INVALID;
}

static int64_t seconds_now(void)
{
	struct sys_timespec now = {0, 0};
	sys_clock_gettime(MONOTONIC, &now);
	return now.seconds;
}

static bool has_order(uint32_t done)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(&block->seq, memory_order_acquire) != done)
			return true;
		__asm__ volatile("pause");
	}
	return false;
}

/* A filter, suspended while we are traced, would kill us for asking whether we still are. */
static bool await_order_without_calls(uint32_t done)
{
	for (int i = 0; i < ROUNDS_WITHOUT_CALLS; i++)
		if (has_order(done))
			return true;
	return false;
}

/* False: the tracer is gone. */
static bool await_order(uint32_t done)
{
	uint32_t tracer = block->tracer_inside;
	if (block->seccomp)
		return await_order_without_calls(done);
	int64_t began = seconds_now();
	while (!has_order(done)) {
		/*
		 * Not by yielding: among busy threads that puts us behind all of them. Not by a
		 * call of which the kernel remembers how it goes on after a stop (futex, poll,
		 * nanosleep): the thread may stand in one itself, and would go on with ours.
		 */
		struct sys_timespec step = {0, STEP_NS};
		sys_call6(PPOLL_NR, 0, 0, (long)&step, 0, 0, 0);
		if (seconds_now() - began > PATIENCE_S ||
		    (tracer && sys_call3(KILL_NR, tracer, 0, 0) == -ERROR_NO_PROCESS))
			return false;
	}
	return true;
}

/* Reached from attach_entry. */
__attribute__((used)) static _Noreturn void attach_serve(void)
{
	uint32_t done = atomic_load_explicit(&block->done, memory_order_relaxed);
	while (await_order(done)) {
		done = atomic_load_explicit(&block->seq, memory_order_relaxed);
		block->result = obey();
		/* Pairs with the tracer's reading of done before result. */
		atomic_store_explicit(&block->done, done, memory_order_release);
	}
	if (opened && !block->seccomp)
		sys_close(opened - 1); /* nobody else will */
	opened = 0;
	/* From here on the tracer must not touch the registers. */
	atomic_store(&block->left, 1);
	sys_sigprocmask(SETMASK, &block->signal_mask, NULL);
	atomic_store(&block->serving, 0);
	attach_leave();
}

#define TEXT(x)       TEXT_AGAIN(x)
#define TEXT_AGAIN(x) #x

/* rax, rdi, rsi, rdx: mprotect of our data, which nothing may touch before. */
__asm__(".text\n"
	".set stack_top_at, tidemark_attach_block + " TEXT(
		WIRE_ATTACH_STACK_OFFSET) "\n"
					  ".type attach_entry,@function\n"
					  "attach_entry:\n"
					  "	.cfi_startproc\n"
					  "	.cfi_undefined rip\n"
					  "	syscall\n"
					  "	test %eax, %eax\n"
					  "	jnz 1f\n"
					  "	mov stack_top_at(%rip), %rsp\n"
					  "	call attach_serve\n"
					  "1:	pause\n"
					  "	jmp 1b\n"
					  "	.cfi_endproc\n"
					  ".size attach_entry, .-attach_entry\n");

/* All registers as they were; the flags by our own stack, which nobody uses now. */
#define RESTORE(name, index) "	mov registers_at+8*" #index "(%rip), %" #name "\n"
__asm__(".text\n"
	".set registers_at, tidemark_attach_block + " TEXT(
		WIRE_ATTACH_REGISTERS_OFFSET) "\n"
					      ".type attach_leave,@function\n"
					      "attach_leave:\n"
					      "	push registers_at+8*16(%rip)\n"
					      "	popf\n" RESTORE(rax, 0) RESTORE(rbx, 1) RESTORE(
						      rcx, 2) RESTORE(rdx, 3) RESTORE(rsi, 4)
						      RESTORE(rdi, 5) RESTORE(rbp, 6) RESTORE(
							      r8, 7) RESTORE(r9, 8) RESTORE(r10, 9)
							      RESTORE(r11, 10) RESTORE(
								      r12,
								      11) RESTORE(r13,
										  12) RESTORE(r14,
											      13)
								      RESTORE(r15, 14) RESTORE(
									      rsp,
									      15) "	jmp "
										  "*registers_at+8*"
										  "17(%rip)\n"
										  ".size "
										  "attach_leave, "
										  ".-attach_"
										  "leave\n");
_Static_assert(offsetof(struct wire_attach_block, stack_top) == WIRE_ATTACH_STACK_OFFSET,
	       "known to the assembler");
_Static_assert(offsetof(struct wire_attach_block, registers) == WIRE_ATTACH_REGISTERS_OFFSET,
	       "known to the assembler");
