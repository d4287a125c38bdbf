/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code made at run time. Built with -fno-omit-frame-pointer. Modes:
 *   frame     JIT code with a frame pointer and no unwind information at all
 *   register  JIT code without a frame pointer, described by __register_frame
 *   garbage   no unwind information, and the frame pointer holds anything
 *   replaced  the same page holds first one, then another such function
 *   unmapped  the frame pointer holds the address of memory that is unmapped, and
 *             the same code is called again
 *   unmapped_other  likewise, and other code is called
 *   jailed    as frame, where the kernel cannot be asked what may be read: on the
 *             main stack and on a thread's
 */
#include "ledger.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>

LEDGER_SITE(jit_target);
LEDGER_SITE(jit_caller);

typedef void *(*jit_fn)(size_t bytes);
extern void __register_frame(void *begin);
extern void __deregister_frame(void *begin);

enum { CALLS = 300 };

SITE void *jit_target(size_t n)
{
	return ledger_alloc(&jit_target_site, malloc(n), n);
}

SITE void *jit_caller(jit_fn code, size_t n)
{
	void *block = code(n);
	void *own = ledger_alloc(&jit_caller_site, malloc(n), n);
	ledger_free(&jit_caller_site, own, n);
	free(own);
	return block;
}

static unsigned char *page(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	check(at != MAP_FAILED, "mmap failed");
	return at;
}

/* push rbp; mov rbp,rsp; mov rax,target; call rax; pop rbp; ret */
static void emit_frame(unsigned char *at, void *target)
{
	static const unsigned char head[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8};
	static const unsigned char tail[] = {0xff, 0xd0, 0x5d, 0xc3};
	memcpy(at, head, sizeof head);
	memcpy(at + sizeof head, &target, 8);
	memcpy(at + sizeof head + 8, tail, sizeof tail);
}

/* sub rsp,24; mov rax,target; call rax; add rsp,24; ret */
static void emit_frameless(unsigned char *at, void *target)
{
	static const unsigned char head[] = {0x48, 0x83, 0xec, 0x18, 0x48, 0xb8};
	static const unsigned char tail[] = {0xff, 0xd0, 0x48, 0x83, 0xc4, 0x18, 0xc3};
	memcpy(at, head, sizeof head);
	memcpy(at + sizeof head, &target, 8);
	memcpy(at + sizeof head + 8, tail, sizeof tail);
}

SITE void call_often(unsigned char *code)
{
	for (size_t i = 1; i <= CALLS; i++) {
		void *block = jit_caller((jit_fn)(void *)code, i);
		if (i % 3 == 0)
			continue;
		ledger_free(&jit_target_site, block, i);
		free(block);
	}
}

/* A CIE and an FDE: CFA = rsp + 8, after the first instruction rsp + 32. */
static void describe(unsigned char *frame, unsigned char *code)
{
	static const unsigned char cie[] = {
		20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0,
	};
	uint32_t length = 28, offset = 28;
	uint64_t start = (uint64_t)(uintptr_t)code, bytes = 25;
	memset(frame, 0, 128);
	memcpy(frame, cie, sizeof cie);
	memcpy(frame + 24, &length, 4);
	memcpy(frame + 28, &offset, 4);
	memcpy(frame + 32, &start, 8);
	memcpy(frame + 40, &bytes, 8);
	frame[48] = 0x44; /* advance 4 */
	frame[49] = 0x0e; /* def_cfa_offset 32 */
	frame[50] = 32;
}

static void mode_register(void)
{
	static unsigned char frame[128] __attribute__((aligned(8)));
	unsigned char *code = page();
	emit_frameless(code, (void *)jit_target);
	describe(frame, code);
	__register_frame(frame);
	call_often(code);
	__deregister_frame(frame);
}

/* push rbp; mov rbp,value; sub rsp,16; mov rax,target; call rax; add rsp,16; pop rbp; ret */
static void emit_garbage(unsigned char *at, void *target, uint64_t value)
{
	static const unsigned char head[] = {0x55, 0x48, 0xbd};
	static const unsigned char middle[] = {0x48, 0x83, 0xec, 0x10, 0x48, 0xb8};
	static const unsigned char tail[] = {0xff, 0xd0, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};
	memcpy(at, head, 3);
	memcpy(at + 3, &value, 8);
	memcpy(at + 11, middle, 6);
	memcpy(at + 17, &target, 8);
	memcpy(at + 25, tail, 8);
}

/* A chain of frame pointers that runs in a circle, or over the end of the stack. */
static void mode_garbage(void)
{
	unsigned char *code = page();
	uint64_t circle[2], on_stack = (uint64_t)(uintptr_t)&circle;
	void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	circle[0] = on_stack;
	circle[1] = (uint64_t)(uintptr_t)code + 27;
	KEEP(circle);
	uint64_t values[] = {0,
			     1,
			     8,
			     0xdeadbeef,
			     UINT64_MAX,
			     UINT64_MAX - 7,
			     1ull << 47,
			     1ull << 63,
			     (uint64_t)(uintptr_t)gone,
			     (uint64_t)(uintptr_t)gone + 4088,
			     (uint64_t)(uintptr_t)code,
			     on_stack,
			     on_stack + 1,
			     on_stack + (1 << 20),
			     on_stack & ~0xffffull,
			     on_stack | 0xfff8};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		emit_garbage(code, (void *)jit_target, values[i]);
		call_often(code);
	}
}

static void mode_replaced(void)
{
	unsigned char *code = page();
	for (int round = 0; round < 20; round++) {
		if (round % 2)
			emit_frame(code, (void *)jit_target);
		else
			emit_frameless(code, (void *)jit_target);
		call_often(code);
	}
	munmap(code, 4096);
}

enum { OBJECT_BYTES = 1 << 16, STACK_BYTES = 1 << 19 };

static void on_thread(void *(*run)(void *arg), void *arg, void *stack)
{
	pthread_t thread;
	pthread_attr_t attr;
	check(!pthread_attr_init(&attr), "no attributes");
	if (stack)
		check(!pthread_attr_setstack(&attr, stack, STACK_BYTES), "no such stack");
	check(!pthread_create(&thread, &attr, run, arg), "no thread");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

static int other_code;

static void *use_object(void *object)
{
	unsigned char *code = page(), *other = page();
	emit_garbage(code, (void *)jit_target, (uint64_t)(uintptr_t)object + 64);
	emit_garbage(other, (void *)jit_target, (uint64_t)(uintptr_t)object + 64);
	for (int i = 0; i < 10; i++) {
		if (i == 5)
			munmap(object, OBJECT_BYTES);
		unsigned char *now = other_code && i >= 5 ? other : code;
		void *block = jit_caller((jit_fn)(void *)now, 100);
		ledger_free(&jit_target_site, block, 100);
		free(block);
	}
	return NULL;
}

/* An object right above the stack: what frame pointers must point to. */
static void mode_unmapped(void)
{
	char *stack = mmap(NULL, STACK_BYTES + OBJECT_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(stack != MAP_FAILED, "mmap failed");
	on_thread(use_object, stack + STACK_BYTES, stack);
}

SITE void *jailed_thread(void *code)
{
	struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog filter = {1, all};
	check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs failed");
	check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), "seccomp failed");
	call_often(code);
	return NULL;
}

SITE void mode_jailed(void)
{
	unsigned char *code = page();
	emit_frame(code, (void *)jit_target);
	on_thread(jailed_thread, code, NULL);
	call_often(code);
	ledger_stack("jit_target [anonymous code] jit_caller call_often jailed_thread", CALLS);
	ledger_stack("jit_target [anonymous code] jit_caller call_often mode_jailed main", CALLS);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	unsigned exact = LEDGER_EXACT | LEDGER_PEAK;
	ledger_open("");
	if (!strcmp(mode, "frame")) {
		unsigned char *code = page();
		emit_frame(code, (void *)jit_target);
		call_often(code);
		ledger_stack("jit_target [anonymous code] jit_caller call_often main", CALLS);
	} else if (!strcmp(mode, "register")) {
		mode_register();
		exact = 0; /* __register_frame() allocates for itself */
	} else if (!strcmp(mode, "garbage")) {
		mode_garbage();
	} else if (!strcmp(mode, "replaced")) {
		mode_replaced();
	} else if (!strcmp(mode, "unmapped") || !strcmp(mode, "unmapped_other")) {
		other_code = strcmp(mode, "unmapped") != 0;
		mode_unmapped();
		exact = 0;
	} else if (!strcmp(mode, "jailed")) {
		mode_jailed();
		exact = 0;
	} else {
		check(0, "usage: jit MODE");
	}
	ledger_print(mode, exact);
	return 0;
}
