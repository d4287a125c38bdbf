/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loader, processes, threads, endings. dlopen and dlmopen are passed on by a
 * tail jump: a wrapper would become the caller and change what they look for.
 * vfork returns twice on one stack: it is counted, and reached by a tail jump.
 */
#include "agent/entry_process.h"
#include "agent/entry.h"

#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdarg.h>

#include "agent/execute.h"
#include "agent/keep.h"
#include "agent/memory_ops.h"
#include "agent/page.h"
#include "agent/patches.h"
#include "agent/redirect.h"
#include "agent/rows.h"
#include "agent/sys.h"
#include "agent/usr1.h"

enum { SIGNAL_USR1 = 10, PTHREAD_NONE = 38 /* ENOSYS */ };

/* Unresolved only before the first hook of all ran: a constructor that came before ours. */
#define RESOLVE(function)                     \
	do {                                  \
		if (unlikely(!real.function)) \
			real_resolve();       \
	} while (0)

static void forget_jit_regions(void)
{
	for (int i = 0; i < AGENT_JIT_REGIONS; i++)
		atomic_store_explicit(&agent.jit_regions[i], 0, memory_order_relaxed);
}

/*
 * The loader looks at who calls it where a name has no slash (the caller's own
 * search path) or a $ in it (the caller's folder). For any other it is all the
 * same who calls, and we can look afterwards what has come.
 */
static bool caller_matters(const char *path)
{
	bool slash = false;
	for (; path && *path; path++) {
		if (*path == '$')
			return true;
		slash |= *path == '/';
	}
	return !slash;
}

/* What has come may want to speak for itself: its table is filled when it is found. */
__attribute__((noinline)) static void look_for_objects(void)
{
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	bool loaded = redirect_late();
	if (!lane)
		return;
	hook_raise(lane, &site);
	rows_rescan(lane, false, 0);
	if (loaded && agent_may_call() && (uint32_t)sys_getpid() == agent_fixed.pid)
		patches_late();
	hook_lower(lane);
}

__attribute__((noinline)) static void *open_and_look(const char *path, int mode)
{
	void *handle = real.dlopen(path, mode);
	if (handle)
		look_for_objects();
	return handle;
}

static bool is_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/*
 * Programs that were made to speak to heaptrack open its library by its bare name
 * and end if there is none (Nim's -d:heaptracker). We speak that language, too.
 */
static bool is_heaptrack(const char *path)
{
	return path && path[0] == 'l' &&
	       (is_same(path, "libheaptrack_preload.so") ||
		is_same(path, "libheaptrack_inject.so"));
}

EXPORT void *dlopen(const char *path, int mode)
{
	RESOLVE(dlopen);
	if (unlikely(is_heaptrack(path)) && agent_own_path())
		return real.dlopen(agent_own_path(), mode);
	if (agent_records()) {
		forget_jit_regions();
		if (!caller_matters(path))
			return open_and_look(path, mode);
		atomic_store_explicit(&agent_fixed.redirect_due, 1, memory_order_relaxed);
	}
	return real.dlopen(path, mode);
}

/* By a tail jump, too: RTLD_NEXT means the library after the caller's. */
EXPORT void *dlsym(void *handle, const char *name)
{
	RESOLVE(dlsym);
	if (unlikely(atomic_load_explicit(&agent_fixed.redirect_due, memory_order_relaxed)) &&
	    atomic_exchange(&agent_fixed.redirect_due, 0) && agent_records())
		look_for_objects();
	return real.dlsym(handle, name);
}

EXPORT void *dlmopen(long space, const char *path, int mode)
{
	RESOLVE(dlmopen);
	if (agent_records())
		forget_jit_regions();
	return real.dlmopen(space, path, mode);
}

/* Before and after: what was derived while code vanished is not to be kept. */
EXPORT int dlclose(void *handle)
{
	RESOLVE(dlclose);
	struct call_site site = CALL_SITE();
	struct lane *lane = PASSING() ? NULL : hook_begin(&site);
	if (!lane)
		return real.dlclose(handle);
	atomic_fetch_add(&agent.closing, 1);
	atomic_fetch_add(&agent.generation, 1);
	int result = real.dlclose(handle);
	if (lane_is_wiped(lane))
		return result;
	atomic_fetch_add(&agent.closes, 1); /* before closing falls: stale without a gap */
	atomic_fetch_sub(&agent.closing, 1);
	hook_raise(lane, &site);
	rows_rescan(lane, true, 0);
	hook_lower(lane);
	atomic_fetch_add(&agent.generation, 1);
	return result;
}

/*
 * A child of vfork: the C library does not know its thread's id. Nothing else tells where
 * nothing is known yet, in a child of fork, whose memory was wiped. Under a filter nobody is
 * asked: no session will begin.
 */
static bool is_borrower(void)
{
	if (atomic_load_explicit(&agent.state, memory_order_relaxed) == AGENT_NEW)
		return atomic_load(&agent_fixed.was_on) && !agent_fixed.filtered &&
		       !agent_find_tid();
	return (uint32_t)sys_getpid() != agent_fixed.pid;
}

struct lane *process_lane(const struct call_site *site)
{
	if (!agent_may_call()) {
		agent_fixed.filtered = 1; /* for a child that is forked now */
		return NULL;
	}
	/* First: a child of vfork must not begin a session in its parent's memory. */
	if (PASSING() || is_borrower())
		return NULL;
	return hook_begin(site);
}

void process_emit(struct lane *lane, const struct call_site *site, enum wire_extra kind,
		  uint64_t first, uint64_t second)
{
	uint64_t payload[2] = {first, second};
	if (lane_is_wiped(lane)) /* a handler of fork's, or a signal's, has forked */
		return;
	hook_raise(lane, site);
	emit_extra(lane, kind, payload, 2);
	hook_lower(lane);
}

#define FORK_HOOK(function)                                                                        \
	EXPORT int function(void)                                                                  \
	{                                                                                          \
		RESOLVE(function);                                                                 \
		struct call_site site = CALL_SITE();                                               \
		struct lane *lane = process_lane(&site);                                           \
		if (lane)                                                                          \
			process_emit(lane, &site, WIRE_EV_FORK, 0, 0);                             \
		struct keep keep;                                                                  \
		bool kept = lane && keep_begin(&keep, lane, &site);                                \
		int pid = real.function();                                                         \
		if (kept)                                                                          \
			keep_end(&keep, pid);                                                      \
		else if (lane && !pid)                                                             \
			keep_nothing(lane);                                                        \
		if (lane && pid) /* in the child the lane has been wiped away */                   \
			process_emit(lane, &site, WIRE_EV_FORKED, pid > 0 ? (uint64_t)pid : 0, 0); \
		return pid;                                                                        \
	}

FORK_HOOK(fork)
FORK_HOOK(_Fork)

/* Looks at what is executed; what its environment lacks is put on the caller's stack. */
#define ASK(request)                                                    \
	({                                                              \
		size_t room_ = execute_look(request);                   \
		void *memory_ = room_ ? __builtin_alloca(room_) : NULL; \
		execute_ask(request, memory_, room_);                   \
	})

/* `real_call` may use `request`, whose fields the rest is. */
#define EXEC_HOOK(function, parameters, real_call, ...)                     \
	EXPORT int function parameters                                      \
	{                                                                   \
		RESOLVE(function);                                          \
		struct call_site site = CALL_SITE();                        \
		struct lane *lane = process_lane(&site);                    \
		struct execute_request request = {__VA_ARGS__};             \
		if (lane)                                                   \
			process_emit(lane, &site, WIRE_EV_EXEC, 0, 0);      \
		struct rendezvous_link asked = ASK(&request);               \
		int result = real_call;                                     \
		execute_over(asked);                                        \
		if (lane)                                                   \
			process_emit(lane, &site, WIRE_EV_EXEC_FAIL, 0, 0); \
		return result;                                              \
	}

EXEC_HOOK(execve, (const char *path, char *const *argv, char *const *envp),
	  real.execve(path, argv, request.envp), .file = path, .envp = envp)
EXEC_HOOK(execv, (const char *path, char *const *argv),
	  request.mended ? real.execve(path, argv, request.envp) : real.execv(path, argv),
	  .file = path, .envp = agent_environment())
EXEC_HOOK(execvp, (const char *file, char *const *argv),
	  !request.mended || !real.execvpe ? real.execvp(file, argv)
					   : real.execvpe(file, argv, request.envp),
	  .file = file, .search = true, .envp = agent_environment())
EXEC_HOOK(execvpe, (const char *file, char *const *argv, char *const *envp),
	  real.execvpe(file, argv, request.envp), .file = file, .search = true, .envp = envp)
EXEC_HOOK(fexecve, (int fd, char *const *argv, char *const *envp),
	  real.fexecve(fd, argv, request.envp), .by_fd = true, .fd = fd, .envp = envp)

/* A child that has, or is about to have, a program of its own. */
static void note_child(const struct call_site *site)
{
	struct lane *lane = process_lane(site);
	if (lane)
		process_emit(lane, site, WIRE_EV_SPAWNED, 0, 0);
}

/* The C library's own exec in a child of its own, which does not come by us. */
#define SPAWN_HOOK(function, in_path)                                                         \
	EXPORT int function(int *pid, const char *file, const void *actions, const void *how, \
			    char *const *argv, char *const *envp)                             \
	{                                                                                     \
		RESOLVE(function);                                                            \
		struct call_site site = CALL_SITE();                                          \
		struct execute_request request = {                                            \
			.file = file, .search = in_path, .spawn = true, .envp = envp};        \
		struct rendezvous_link asked = ASK(&request);                                 \
		int result = real.function(pid, file, actions, how, argv, request.envp);      \
		execute_over(asked);                                                          \
		if (!result)                                                                  \
			note_child(&site);                                                    \
		return result;                                                                \
	}

SPAWN_HOOK(posix_spawn, false)
SPAWN_HOOK(posix_spawnp, true)

/*
 * The forms with a list: the C library's own would go on to its execve without
 * coming by us. count_arguments() includes the NULL at the end.
 */
static size_t count_arguments(const char *first, va_list *rest)
{
	size_t count = 1;
	for (const char *each = first; each; each = va_arg(*rest, const char *))
		count++;
	return count;
}

static void copy_arguments(char **argv, const char *first, size_t count, va_list *rest)
{
	argv[0] = (char *)(uintptr_t)first;
	for (size_t i = 1; i < count; i++)
		argv[i] = va_arg(*rest, char *);
}

/* The list as an array on the stack; it lives as long as the function that asked for it. */
#define LISTED_ARGUMENTS(first)                                \
	va_list rest_;                                         \
	va_start(rest_, first);                                \
	size_t count_ = count_arguments(first, &rest_);        \
	va_end(rest_);                                         \
	char **argv = __builtin_alloca(count_ * sizeof *argv); \
	va_start(rest_, first);                                \
	copy_arguments(argv, first, count_, &rest_)

EXPORT int execl(const char *path, const char *first, ...)
{
	LISTED_ARGUMENTS(first);
	va_end(rest_);
	return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
	LISTED_ARGUMENTS(first);
	va_end(rest_);
	return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	LISTED_ARGUMENTS(first);
	char *const *envp = va_arg(rest_, char *const *);
	va_end(rest_);
	return execve(path, argv, envp);
}

#define EXIT_HOOK(function, how)                                                        \
	EXPORT void function(int status)                                                \
	{                                                                               \
		RESOLVE(function);                                                      \
		struct call_site site = CALL_SITE();                                    \
		struct lane *lane = process_lane(&site);                                \
		if (lane)                                                               \
			process_emit(lane, &site, WIRE_EV_EXIT, (uint32_t)status, how); \
		if ((how) != WIRE_EXIT_EXIT) /* which runs our destructor */            \
			page_drop();                                                    \
		real.function(status);                                                  \
	}

EXIT_HOOK(exit, WIRE_EXIT_EXIT)
EXIT_HOOK(_exit, WIRE_EXIT_UNDERSCORE)
EXIT_HOOK(_Exit, WIRE_EXIT_UNDERSCORE)
EXIT_HOOK(quick_exit, WIRE_EXIT_QUICK)

EXPORT void abort(void)
{
	RESOLVE(abort);
	struct call_site site = CALL_SITE();
	struct lane *lane = process_lane(&site);
	if (lane)
		process_emit(lane, &site, WIRE_EV_EXIT, 0, WIRE_EXIT_ABORT);
	page_drop();
	real.abort();
}

/* In the new thread, before anything of the program's. */
__attribute__((noinline)) static void note_thread(void)
{
	struct call_site site = CALL_SITE();
	if (agent_records())
		hook_begin(&site); /* its lane is made, with its name and the time */
}

/* Goes on by a tail jump: no stack of the thread has us in it. */
static void *thread_begins(void *given)
{
	struct agent_start *slot = given;
	void *argument = slot->argument;
	void *(*start)(void *) =
		(void *(*)(void *))atomic_load_explicit(&slot->start, memory_order_relaxed);
	/* Pairs with the acquire in claim_start(). */
	atomic_store_explicit(&slot->start, 0, memory_order_release);
	note_thread();
	return start(argument);
}

/* NULL: none is free. A thread that could not be made keeps its slot: there are enough. */
static struct agent_start *claim_start(void *(*start)(void *), void *argument)
{
	for (uint32_t i = 0; i < AGENT_STARTS; i++) {
		struct agent_start *slot = &agent.starts[i];
		uintptr_t free_slot = 0;
		if (!atomic_load_explicit(&slot->start, memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&slot->start, &free_slot,
							    (uintptr_t)start, memory_order_acquire,
							    memory_order_relaxed)) {
			slot->argument = argument;
			return slot;
		}
	}
	return NULL;
}

/* By a tail jump: what it allocates for the thread is not to be blamed on us. */
EXPORT int pthread_create(uintptr_t *thread, const void *attributes, void *(*start)(void *),
			  void *argument)
{
	RESOLVE(pthread_create);
	if (!real.pthread_create) /* an older C library, without its library for threads */
		return PTHREAD_NONE;
	if (agent_records()) {
		struct agent_start *slot = claim_start(start, argument);
		if (slot)
			return real.pthread_create(thread, attributes, thread_begins, slot);
	}
	return real.pthread_create(thread, attributes, start, argument);
}

static void tell_name(struct lane *lane, const struct call_site *site, const char name[16])
{
	if (lane) {
		uint64_t words[2];
		memcpy(words, name, sizeof words);
		process_emit(lane, site, WIRE_EV_THREAD_NAME, words[0], words[1]);
	}
}

EXPORT int pthread_setname_np(uintptr_t thread, const char *name)
{
	RESOLVE(pthread_setname_np);
	int result = real.pthread_setname_np(thread, name);
	if (result || PASSING() || thread != thread_pointer())
		return result;
	struct call_site site = CALL_SITE();
	char text[16] = {0};
	memcpy(text, name, strlen(name)); /* at most 15: it succeeded */
	tell_name(hook_begin(&site), &site, text);
	return result;
}

/*
 * prctl(PR_SET_NAME). What the kernel took is asked of it: the program's text may be gone. A child
 * by vfork has our memory, and names itself alone.
 */
__attribute__((used)) static int name_by_prctl(int option, unsigned long name, unsigned long c,
					       unsigned long d, unsigned long e)
{
	if (unlikely(!real_prctl))
		real_resolve();
	int (*prctl_call)(int, unsigned long, unsigned long, unsigned long, unsigned long) =
		real_prctl;
	int result = prctl_call(option, name, c, d, e);
	if (result || PASSING() || !agent_may_call())
		return result;
	struct call_site site = CALL_SITE();
	char text[16] = {0};
	if (!sys_failed(sys_prctl(PR_GET_NAME, (unsigned long)text, 0, 0)))
		tell_name(process_lane(&site), &site, text);
	return result;
}

/* What is asked about SIGUSR1 is answered as without us: usr1.h. */
EXPORT int sigaction(int number, const void *action, void *old)
{
	RESOLVE(sigaction);
	int result = real.sigaction(number, action, old);
	uintptr_t *handler = old; /* the first word of the C library's struct */
	if (!result && handler && number == SIGNAL_USR1)
		*handler = usr1_shown(*handler);
	return result;
}

EXPORT uintptr_t signal(int number, uintptr_t handler)
{
	RESOLVE(signal);
	return usr1_shown(real.signal(number, handler));
}

/*
 * AddressSanitizer's runtime ends a program where another library comes before
 * it, as every preloaded one does, unless its options say otherwise. It asks for
 * their defaults by this name; a program's own definition goes before ours.
 */
EXPORT const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

/*
 * Pure pass-throughs that look at their arguments in registers and go on by a
 * tail jump, whatever the number of arguments:
 *   clone    a thread that shares its maker's thread pointer: from then on the
 *            kernel is asked who is calling; or a child
 *   vfork, system, popen   a child, which is only counted
 *   prctl, syscall   a seccomp filter is being installed: no system calls from now on;
 *            or reading the time-stamp counter is being forbidden
 * Only a thread that names itself by prctl gets a wrapper.
 */
__attribute__((used)) static void pass_resolve(void)
{
	real_resolve();
}

__attribute__((used)) static void saw_shared_thread(void)
{
	atomic_store(&agent.shared_tls, 1);
	sample_leave();
}

__attribute__((used)) static void saw_child(void)
{
	struct call_site site = CALL_SITE();
	note_child(&site);
}

/* Strict mode takes the time-stamp counter away too. */
static void saw_seccomp(bool strict)
{
	if (strict || agent.map.options & WIRE_OPT_CLOCK_NS)
		emit_freeze_clock();
	atomic_store(&agent.seccomp, 1);
	agent_fixed.filtered = 1;
}

__attribute__((used)) void process_saw_prctl(int option, unsigned long argument)
{
	if (option == PR_SET_SECCOMP) {
		saw_seccomp(argument == SECCOMP_MODE_STRICT);
	} else if (argument == PR_TSC_SIGSEGV) {
		emit_freeze_clock();
		atomic_store(&agent_fixed.no_tsc, 1);
	}
}

__attribute__((used)) void process_saw_syscall(long number, unsigned long first,
					       unsigned long second)
{
	if (number == SYS_NR_SECCOMP)
		saw_seccomp(first == SECCOMP_SET_MODE_STRICT);
	else if (first == PR_SET_SECCOMP || first == PR_SET_TSC)
		process_saw_prctl((int)first, second);
}

/* Calls `helper` with all argument registers kept. */
#define KEEPING_ARGUMENTS(helper)                                                      \
	"	push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9; push %rax\n" \
	"	mov %rsp, %rax; and $-16, %rsp; sub $16, %rsp; mov %rax, (%rsp)\n"           \
	"	call " helper "\n"                                                     \
	"	mov (%rsp), %rsp\n"                                                          \
	"	pop %rax; pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi\n"

#define PASS_THROUGH(name, look)                                                             \
	__asm__(".text\n"                                                                    \
		".globl " #name "\n.type " #name ",@function\n" #name ":\n" look             \
		"1:	mov real_" #name "(%rip), %r11\n"                                    \
		"	test %r11, %r11\n"                                                         \
		"	jz 2f\n"                                                                   \
		"	jmp *%r11\n"                                                               \
		"2:\n" KEEPING_ARGUMENTS("pass_resolve") "	jmp *real_" #name "(%rip)\n" \
							 ".size " #name ", .-" #name "\n")

/* CLONE_VM 0x100, CLONE_SETTLS 0x80000, CLONE_VFORK 0x4000, CLONE_THREAD 0x10000; flags are in edx.
 */
PASS_THROUGH(clone, "	mov %edx, %r11d\n"
		    "	and $0x84100, %r11d\n"
		    "	cmp $0x100, %r11d\n"
		    "	jne 3f\n" KEEPING_ARGUMENTS(
			    "saw_shared_thread") "3:\n"
						 "	test $0x10000, %edx\n"
						 "	jnz 1f\n" KEEPING_ARGUMENTS("saw_child"));
PASS_THROUGH(vfork, KEEPING_ARGUMENTS("saw_child"));
/* Without a command it only asks whether there is a shell. */
PASS_THROUGH(system, "	test %rdi, %rdi\n"
		     "	jz 1f\n" KEEPING_ARGUMENTS("saw_child"));
PASS_THROUGH(popen, KEEPING_ARGUMENTS("saw_child"));
/* PR_SET_NAME 15, PR_SET_SECCOMP 22, PR_SET_TSC 26. */
PASS_THROUGH(prctl, "	cmp $15, %edi\n"
		    "	je name_by_prctl\n"
		    "	cmp $22, %edi\n"
		    "	je 3f\n"
		    "	cmp $26, %edi\n"
		    "	jne 1f\n"
		    "3:\n" KEEPING_ARGUMENTS("process_saw_prctl"));
/* seccomp is 317, prctl 157. */
PASS_THROUGH(syscall, "	cmp $317, %edi\n"
		      "	je 3f\n"
		      "	cmp $157, %edi\n"
		      "	jne 1f\n"
		      "3:\n" KEEPING_ARGUMENTS("process_saw_syscall"));
