/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation in signal handlers. "storm" and "jump" are linked with bump.so,
 * whose malloc may be interrupted by itself; so the handler really falls into
 * the middle of the profiler's code. Modes:
 *   raise     handler on the normal stack, called synchronously
 *   alt       the same on an alternate stack
 *   nested    a handler that raises another signal, both allocate
 *   storm     a 50 us timer whose handler allocates, on the normal stack
 *   storm_alt the same on an alternate stack
 *   jump      the timer's handler leaves by siglongjmp in the middle of anything
 *   fork      a handler that forks inside a realloc; the child goes on, out of both
 *   fork_storm  a timer whose handler forks, in the middle of anything; so do the children
 *   longjmp   longjmp over frames that have allocated
 *   segv      SIGSEGV on a guard page as control flow, with allocation in it
 */
#include "ledger.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

LEDGER_SITE(handler_malloc);
LEDGER_SITE(handler_realloc);
LEDGER_SITE(main_realloc);
LEDGER_SITE(inner_malloc);
LEDGER_SITE(main_malloc);
LEDGER_SITE(after_malloc);

enum { FORKS = 50, ROUNDS = 300, STORM_SIGNALS = 2000, JUMPS = 1500 };
static char alternate[1 << 16];
static volatile sig_atomic_t signals;
static sigjmp_buf escape;

SITE void *handler_malloc(size_t n)
{
	return ledger_alloc(&handler_malloc_site, malloc(n), n);
}

SITE void *inner_malloc(size_t n)
{
	return ledger_alloc(&inner_malloc_site, malloc(n), n);
}

SITE void *main_malloc(size_t n)
{
	return ledger_alloc(&main_malloc_site, malloc(n), n);
}

SITE void *after_malloc(size_t n)
{
	return ledger_alloc(&after_malloc_site, malloc(n), n);
}

static void main_pair(size_t i)
{
	void *kept = main_malloc(i % 64);
	void *gone = main_malloc(i % 200);
	ledger_free(&main_malloc_site, gone, i % 200);
	free(gone);
	KEEP(kept);
}

SITE void on_signal(int number)
{
	(void)number;
	size_t n = (size_t)++signals;
	void *kept = handler_malloc(n % 64);
	void *gone = handler_malloc(n % 128);
	ledger_free(&handler_malloc_site, gone, n % 128);
	free(gone);
	KEEP(kept);
}

SITE void on_nested(int number)
{
	(void)number;
	void *kept = inner_malloc(24);
	raise(SIGUSR2);
	KEEP(kept);
}

SITE void on_jump(int number)
{
	(void)number;
	signals++;
	siglongjmp(escape, 1);
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	action.sa_flags = flags;
	check(sigaction(number, &action, NULL) == 0, "sigaction failed");
	if (flags & SA_ONSTACK) {
		stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
		check(sigaltstack(&stack, NULL) == 0, "sigaltstack failed");
	}
}

static void storm(long period_us)
{
	struct itimerval timer = {{0, period_us}, {0, period_us}};
	check(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer failed");
}

static void mode_raise(int flags)
{
	handle(SIGUSR1, on_signal, flags);
	for (size_t i = 1; i <= ROUNDS; i++) {
		main_pair(i);
		raise(SIGUSR1);
	}
}

static void mode_nested(void)
{
	handle(SIGUSR1, on_nested, 0);
	handle(SIGUSR2, on_signal, SA_ONSTACK);
	for (size_t i = 1; i <= ROUNDS; i++) {
		raise(SIGUSR1);
		main_pair(i);
	}
}

/* libbump.so has it: called inside a call that fails. */
extern void (*bump_failing)(void) __attribute__((weak));

SITE void *handler_realloc(void *old, size_t old_bytes, size_t n)
{
	return ledger_realloc(&handler_malloc_site, old_bytes, &handler_realloc_site,
			      realloc(old, n), n);
}

SITE void *main_realloc(void *old, size_t old_bytes, size_t n)
{
	return ledger_realloc(&main_malloc_site, old_bytes, &main_realloc_site, realloc(old, n), n);
}

SITE void on_failing(int number)
{
	(void)number;
	void *small = handler_malloc(40);
	KEEP(handler_malloc(8)); /* so that `small` is not temporary, whatever ends it */
	KEEP(handler_realloc(small, 40, 80));
}

static void raise_inside(void)
{
	raise(SIGUSR1);
}

/* A realloc that fails, interrupted by a handler whose own realloc does not. */
static void mode_failing(void)
{
	check(&bump_failing != NULL, "not linked with libbump.so");
	handle(SIGUSR1, on_failing, 0);
	for (size_t i = 1; i <= ROUNDS; i++) {
		void *block = main_malloc(i);
		bump_failing = raise_inside;
		void *bigger = main_realloc(block, i, (size_t)1 << 40);
		bump_failing = NULL;
		check(!bigger, "it worked");
		if (i % 3 == 0)
			continue;
		ledger_free(&main_malloc_site, block, i);
		free(block);
	}
}

static pid_t forked;

SITE void on_fork(int number)
{
	(void)number;
	forked = fork();
}

static void end_child(pid_t child)
{
	int status = -1;
	if (!child) {
		for (size_t i = 1; i <= 100; i++)
			free(after_malloc(i));
		_exit(0);
	}
	check(child > 0 && waitpid(child, &status, 0) == child, "no child");
	check(status == 0, "a child did not come back from the handler");
}

static void mode_fork(void)
{
	check(&bump_failing != NULL, "not linked with libbump.so");
	handle(SIGUSR1, on_fork, 0);
	for (size_t i = 1; i <= 5; i++) {
		void *block = main_malloc(i);
		bump_failing = raise_inside;
		void *bigger = main_realloc(block, i, (size_t)1 << 40);
		bump_failing = NULL;
		check(!bigger, "it worked");
		end_child(forked);
	}
}

static volatile sig_atomic_t forks;
static volatile pid_t children[FORKS];

SITE void on_fork_storm(int number)
{
	(void)number;
	if (forks == FORKS || !forked)
		return;
	forked = fork();
	if (!forked && forks % 4 == 0) /* twice, as daemons do: both come back */
		children[forks] = fork();
	else
		children[forks] = forked;
	if (forked)
		forks++;
}

static void mode_fork_storm(void)
{
	forked = -1;
	handle(SIGALRM, on_fork_storm, SA_RESTART);
	storm(1000);
	for (size_t i = 1; forks < FORKS && forked; i++)
		main_pair(i);
	if (!forked && children[forks] > 0)
		end_child(children[forks]);
	if (!forked)
		end_child(0);
	storm(0);
	for (int i = 0; i < FORKS; i++)
		end_child(children[i]);
}

static void mode_storm(int flags)
{
	handle(SIGALRM, on_signal, flags | SA_RESTART);
	storm(50);
	for (size_t i = 1; signals < STORM_SIGNALS; i++)
		main_pair(i);
	storm(0);
}

SITE void jumped_over(size_t i)
{
	void *block = malloc(i % 100); /* not in the ledger: the jump may fall inside */
	KEEP(block);
	free(block);
}

/* What is recorded while jumping is not known; what comes after must be exact. */
static void mode_jump(void)
{
	volatile size_t i = 0;
	handle(SIGALRM, on_jump, SA_NODEFER);
	if (sigsetjmp(escape, 1) == 0)
		storm(50);
	if (signals < JUMPS)
		for (;;)
			jumped_over(++i);
	storm(0);
	handle(SIGALRM, SIG_IGN, 0);
	for (size_t n = 1; n <= 1000; n++) {
		void *block = after_malloc(n);
		if (n % 4 == 0)
			continue;
		ledger_free(&after_malloc_site, block, n);
		free(block);
	}
}

static jmp_buf out;

SITE void jump_out(void)
{
	longjmp(out, 1);
}

SITE void dive_and_jump(int depth)
{
	void *block = inner_malloc((size_t)depth);
	if (depth == 0)
		jump_out();
	else
		dive_and_jump(depth - 1);
	KEEP(block);
}

static void mode_longjmp(void)
{
	for (volatile size_t i = 1; i <= ROUNDS; i++) {
		if (setjmp(out) == 0)
			dive_and_jump((int)(i % 30));
		main_pair(i);
	}
}

static void mode_segv(void)
{
	char *guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(guard != MAP_FAILED, "mmap failed");
	handle(SIGSEGV, on_jump, SA_NODEFER | SA_ONSTACK);
	for (volatile size_t i = 1; i <= ROUNDS; i++) {
		main_pair(i);
		if (sigsetjmp(escape, 1) == 0)
			*(volatile char *)guard = 1;
		main_pair(i + 1);
	}
	check(signals == ROUNDS, "a fault was lost");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	unsigned flags = LEDGER_EXACT | LEDGER_PEAK;
	ledger_open("");
	if (!strcmp(mode, "raise"))
		mode_raise(0);
	else if (!strcmp(mode, "alt"))
		mode_raise(SA_ONSTACK);
	else if (!strcmp(mode, "nested"))
		mode_nested();
	else if (!strcmp(mode, "longjmp"))
		mode_longjmp();
	else if (!strcmp(mode, "segv"))
		mode_segv();
	else if (!strcmp(mode, "failing"))
		mode_failing();
	else if (!strcmp(mode, "fork"))
		mode_fork();
	else if (!strcmp(mode, "fork_storm"))
		mode_fork_storm(), flags = LEDGER_EXACT | LEDGER_FUZZY;
	else if (!strcmp(mode, "storm"))
		mode_storm(0), flags = LEDGER_EXACT | LEDGER_FUZZY;
	else if (!strcmp(mode, "storm_alt"))
		mode_storm(SA_ONSTACK), flags = LEDGER_EXACT | LEDGER_FUZZY;
	else if (!strcmp(mode, "jump"))
		mode_jump(), flags = 0;
	else
		check(0, "usage: signals MODE");
	ledger_print(mode, flags);
	return 0;
}
