/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that stand inside the very bytes that attaching replaces. To be
 * attached to with --hook 'alloc=slow_alloc' --hook 'alloc=trap_alloc':
 *
 *	slow_alloc   its second byte begins an instruction that lasts for minutes
 *	trap_alloc   its first instruction faults; the handler goes back to the one
 *	             after it, but not before it is told to
 *	far_alloc    the same; the handler is interrupted by another, on another stack
 *
 * Says "ready" when all stand there; after a byte lets them go on, and ends with 0
 * if each came out as it should.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <unistd.h>

enum { FAULT_BYTES = 2 };
#define REGION_BYTES (1ull << 40)

extern char trap_alloc[], far_alloc[];
void *slow_alloc(void);

__asm__(".text\n"
	".p2align 4\n"
	".globl slow_alloc\n.type slow_alloc,@function\n"
	"slow_alloc:	nop\n"
	"	rep lodsb\n"
	"	mov %rdi, %rax\n"
	"	ret\n"
	".size slow_alloc, .-slow_alloc\n"
	".p2align 4\n"
	".globl trap_alloc\n.type trap_alloc,@function\n"
	"trap_alloc:	mov (%rsi), %al\n"
	"	mov %rdi, %rax\n"
	"	ret\n"
	".size trap_alloc, .-trap_alloc\n"
	".p2align 4\n"
	".globl far_alloc\n.type far_alloc,@function\n"
	"far_alloc:	mov (%rsi), %al\n"
	"	mov %rdi, %rax\n"
	"	ret\n"
	".size far_alloc, .-far_alloc\n");

static _Atomic int go, standing, good;

static void wait_for_go(void)
{
	atomic_fetch_add(&standing, 1);
	while (!atomic_load(&go))
		usleep(1000);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	uintptr_t pc = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP];
	(void)info;
	(void)number;
	interrupted->uc_mcontext.gregs[REG_RIP] += FAULT_BYTES;
	if (pc == (uintptr_t)far_alloc)
		raise(SIGUSR2);
	else
		wait_for_go();
}

/* Inside the other handler, on a stack of its own. */
static void on_nested(int number)
{
	(void)number;
	wait_for_go();
}

/* The instruction that lasts comes to its end. */
static void on_hurry(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	(void)number;
	(void)info;
	if (interrupted->uc_mcontext.gregs[REG_RCX] > 1)
		interrupted->uc_mcontext.gregs[REG_RCX] = 1;
}

static uintptr_t call(void *function, uintptr_t value, uintptr_t source, uintptr_t count)
{
	uintptr_t result;
	__asm__ volatile("call *%[function]"
			 : "=a"(result), "+D"(value), "+S"(source), "+c"(count)
			 : [function] "r"(function)
			 : "memory", "cc", "rdx", "r8", "r9", "r10", "r11");
	return result;
}

static void *slow_thread(void *region)
{
	atomic_fetch_add(&standing, 1);
	if (call((void *)slow_alloc, 11, (uintptr_t)region, REGION_BYTES) == 11)
		atomic_fetch_add(&good, 1);
	return NULL;
}

static void use_other_stack(void)
{
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		abort();
}

static void *trap_thread(void *function)
{
	if (function == (void *)far_alloc)
		use_other_stack();
	if (call(function, 22, 0, 0) == 22)
		atomic_fetch_add(&good, 1);
	return NULL;
}

int main(void)
{
	struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	struct sigaction hurry = {.sa_sigaction = on_hurry, .sa_flags = SA_SIGINFO};
	struct sigaction nested = {.sa_handler = on_nested, .sa_flags = SA_ONSTACK};
	pthread_t slow, trap, far;
	char byte;
	void *region = mmap(NULL, REGION_BYTES, PROT_READ,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (region == MAP_FAILED)
		return 77;
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGUSR1, &hurry, NULL);
	sigaction(SIGUSR2, &nested, NULL);
	pthread_create(&slow, NULL, slow_thread, region);
	pthread_create(&trap, NULL, trap_thread, trap_alloc);
	pthread_create(&far, NULL, trap_thread, far_alloc);
	while (atomic_load(&standing) < 3)
		usleep(1000);
	usleep(20000); /* the slow one has passed its first byte */
	dprintf(1, "ready\n");
	if (read(0, &byte, 1) < 0)
		return 2;
	atomic_store(&go, 1);
	pthread_kill(slow, SIGUSR1);
	pthread_join(slow, NULL);
	pthread_join(trap, NULL);
	pthread_join(far, NULL);
	dprintf(1, "bad=%d\n", 3 - atomic_load(&good));
	return atomic_load(&good) == 3 ? 0 : 1;
}
