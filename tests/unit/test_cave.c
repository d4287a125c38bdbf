/* SPDX-License-Identifier: Apache-2.0 */
/* The code that brings a thread back when its tracer was killed, run in this process. */
#include "harness/tap.h"
#include "inject/cave.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { STACK_BYTES = 64 * 1024, PAGE = 4096, STATUS_FLAGS = 0x8d5, DIRECTION = 0x400 };

uint64_t cave_found[4];
static ucontext_t home;
static uint8_t stack[STACK_BYTES] __attribute__((aligned(16)));

void cave_landed(void);
void cave_go_home(void);

/* Where the thread "was": its flags and some registers are noted. */
__asm__(".text\n"
	".globl cave_landed\n"
	"cave_landed:\n"
	"	pushf\n"
	"	pop %rax\n"
	"	cld\n"
	"	mov %rax, cave_found(%rip)\n"
	"	mov %rbx, cave_found+8(%rip)\n"
	"	mov %r15, cave_found+16(%rip)\n"
	"	mov %rcx, cave_found+24(%rip)\n"
	"	call cave_go_home\n");

void cave_go_home(void)
{
	setcontext(&home);
}

static void go(uint8_t *page, uint64_t flags)
{
	struct user_regs_struct resumed = {.rbx = 0x1111,
					   .r15 = 0x2222,
					   .rcx = 0x3333,
					   .eflags = flags,
					   .rsp = (uintptr_t)(stack + STACK_BYTES / 2),
					   .rip = (uintptr_t)cave_landed};
	ucontext_t there;
	cave_fill(&resumed, 1ull << (SIGUSR2 - 1), page);
	CHECK(cave_is_ours(page));
	REQUIRE(!getcontext(&there));
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK_BYTES;
	makecontext(&there, (void (*)(void))(uintptr_t)page, 0);
	there.uc_mcontext.gregs[REG_RAX] = SYS_getpid;
	REQUIRE(!swapcontext(&home, &there));
}

static void goes_back(void)
{
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t flags[] = {0x2, STATUS_FLAGS, DIRECTION | 0x41, 0x894, 0x800, 0x1};
	REQUIRE(page != MAP_FAILED);
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		memset(cave_found, 0, sizeof cave_found);
		go(page, flags[i]);
		CHECK_EQ_U64(cave_found[0] & (STATUS_FLAGS | DIRECTION),
			     flags[i] & (STATUS_FLAGS | DIRECTION));
		CHECK_EQ_U64(cave_found[1], 0x1111);
		CHECK_EQ_U64(cave_found[2], 0x2222);
		CHECK_EQ_U64(cave_found[3], 0x3333);
	}
}

static void ignore(int number)
{
	(void)number;
}

static void restores_mask(void)
{
	sigset_t all, before, now;
	struct sigaction action = {.sa_handler = ignore};
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(page != MAP_FAILED);
	sigaction(SIGUSR1, &action, NULL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	raise(SIGUSR1); /* pending until the code unblocks it */
	go(page, 0x2);
	sigpending(&now);
	CHECK(!sigismember(&now, SIGUSR1));
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void finds_room(void)
{
	CHECK_EQ_U64(cave_after(0), 0);
	CHECK_EQ_U64(cave_after(0x1001), 0x1010);
	CHECK_EQ_U64(cave_after(0x2000), 0); /* the code fills its page */
	CHECK_EQ_U64(cave_after(0x2000 - CAVE_BYTES), 0x2000 - CAVE_BYTES);
	CHECK_EQ_U64(cave_after(0x2000 - CAVE_BYTES + 1), 0);
}

static const struct tap_case cases[] = {
	{.name = "a thread whose tracer was killed goes on where it was", .run = goes_back},
	{.name = "it gets its signals again", .run = restores_mask},
	{.name = "code is put only where nobody's is", .run = finds_room},
};
TAP_MAIN(cases)
