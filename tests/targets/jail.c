/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that lock themselves in. After the door is shut each allocates as
 * before; the ledger needs no system call. Modes:
 *   close_fds       closes every descriptor, then uses them from 0 again
 *   descriptors     prints which descriptor the next open gives
 *   chroot DIR      changes the root to an empty folder (needs root)
 *   drop            gives up its user and groups (needs root)
 *   limit_as        RLIMIT_AS close to what is used: allocations fail
 *   limits          no more files, no file sizes, no locked memory, no processes
 *   no_tsc          reading the time-stamp counter faults (PR_SET_TSC)
 *   no_tsc_fork     likewise; then children that allocate
 *   mask            all signals blocked
 *   seccomp_list    a filter that kills, with the calls an allocator needs
 *   seccomp_few     a filter that kills on anything but write and exit
 *   seccomp_strict  SECCOMP_MODE_STRICT
 *   seccomp_errno   a filter that answers everything unknown with EPERM
 *   tsync           a filter that kills comes over a thread that waits for us: the recorder,
 *                   its parent, is stopped until then (not to be run without one)
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

LEDGER_SITE(before_malloc);
LEDGER_SITE(after_malloc);

SITE void *before_malloc(size_t n)
{
	return ledger_alloc(&before_malloc_site, malloc(n), n);
}

SITE void *after_malloc(size_t n)
{
	return ledger_alloc(&after_malloc_site, malloc(n), n);
}

static void work(void *(*make)(size_t), struct ledger_site *site, size_t rounds)
{
	for (size_t i = 1; i <= rounds; i++) {
		void *a = make(i % 40);
		void *b = make(i % 400);
		ledger_free(site, b, i % 400);
		free(b);
		if (i % 100 == 0)
			continue;
		ledger_free(site, a, i % 40);
		free(a);
	}
}

static void mode_close_fds(void)
{
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	work(after_malloc, &after_malloc_site, 1000);
	check(open("/dev/null", O_RDWR) == 0, "descriptor 0 is taken");
	check(dup(0) == 1 && dup(0) == 2 && dup(0) == 3, "descriptors are taken");
	work(after_malloc, &after_malloc_site, 1000);
}

static void mode_descriptors(void)
{
	char text[] = "next ? used ????????????????\n";
	int used = 0;
	close(0);
	int fd = open("/dev/null", O_RDONLY);
	text[5] = (char)('0' + fd);
	for (int i = 0; i < 16; i++) {
		text[12 + i] = fcntl(i, F_GETFD) >= 0 ? '1' : '0';
		used += text[12 + i] == '1';
	}
	say(text);
	work(after_malloc, &after_malloc_site, 100);
	check(used < 16, "many descriptors");
}

static void mode_chroot(const char *dir)
{
	check(chroot(dir) == 0 && chdir("/") == 0, "chroot failed");
	work(after_malloc, &after_malloc_site, 1000);
}

static void mode_drop(void)
{
	check(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 &&
		      setresuid(65534, 65534, 65534) == 0,
	      "cannot drop privileges");
	prctl(PR_SET_DUMPABLE, 0);
	work(after_malloc, &after_malloc_site, 1000);
}

static void limit(int which, rlim_t value)
{
	struct rlimit limits = {value, value};
	check(setrlimit(which, &limits) == 0, "setrlimit failed");
}

/* Fills the address space to the limit, frees half, goes on with small blocks. */
static void mode_limit_as(void)
{
	static void *blocks[4096];
	char text[64] = {0};
	size_t used = 0, count = 0, mib = 1 << 20;
	int fd = open("/proc/self/statm", O_RDONLY);
	check(fd >= 0 && read(fd, text, sizeof text - 1) > 0, "no statm");
	close(fd);
	used = strtoul(text, NULL, 10) * 4096;
	limit(RLIMIT_AS, used + 64 * mib);
	while (count < 4096 && (blocks[count] = after_malloc(mib)))
		count++;
	check(count < 4096 && errno == ENOMEM, "the limit had no effect");
	for (size_t i = 0; i < count / 2; i++) {
		ledger_free(&after_malloc_site, blocks[i], mib);
		free(blocks[i]);
	}
	work(after_malloc, &after_malloc_site, 50000);
}

static void mode_limits(void)
{
	limit(RLIMIT_NOFILE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_MEMLOCK, 0);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NPROC, 0);
	work(after_malloc, &after_malloc_site, 5000);
}

static void mode_mask(void)
{
	sigset_t all;
	sigfillset(&all);
	check(sigprocmask(SIG_BLOCK, &all, NULL) == 0, "sigprocmask failed");
	work(after_malloc, &after_malloc_site, 5000);
}

static void mode_no_tsc(void)
{
	check(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0, "PR_SET_TSC failed");
	work(after_malloc, &after_malloc_site, 5000);
}

static void run_child(void)
{
	int status = -1;
	pid_t child = fork();
	if (!child) {
		for (size_t i = 1; i <= 1000; i++)
			free(after_malloc(i));
		_exit(0);
	}
	check(child > 0 && waitpid(child, &status, 0) == child, "no child");
	check(status == 0, "a child failed");
}

static void mode_no_tsc_fork(void)
{
	mode_no_tsc();
	run_child();
	run_child();
	work(after_malloc, &after_malloc_site, 100);
}

#define ALLOW(call)                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void filter(struct sock_filter *code, size_t count)
{
	struct sock_fprog program = {(unsigned short)count, code};
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs failed");
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp failed");
}

static void filter_list(unsigned otherwise)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(exit),
		ALLOW(exit_group),
		ALLOW(futex),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(brk),
		ALLOW(mremap),
		ALLOW(madvise),
		ALLOW(mprotect),
		BPF_STMT(BPF_RET | BPF_K, otherwise),
	};
	filter(code, sizeof code / sizeof *code);
}

static void filter_few(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(write),
		ALLOW(exit),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	filter(code, sizeof code / sizeof *code);
}

/* The heap is grown beforehand, so that malloc needs no system call any more. */
static void grow_heap(void)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	void *block = before_malloc(16 << 20);
	ledger_free(&before_malloc_site, block, 16 << 20);
	free(block);
}

static void leave(void)
{
	ledger_print("jail", LEDGER_EXACT);
	say("still here\n");
	syscall(SYS_exit, 7);
}

static void mode_seccomp(const char *how, size_t rounds)
{
	grow_heap();
	if (!strcmp(how, "list"))
		filter_list(SECCOMP_RET_KILL_PROCESS);
	else if (!strcmp(how, "errno"))
		filter_list(SECCOMP_RET_ERRNO | EPERM);
	else if (!strcmp(how, "few"))
		filter_few();
	else
		check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "seccomp failed");
	work(after_malloc, &after_malloc_site, rounds);
	leave();
}

static _Atomic size_t rounds_done;
static _Atomic bool is_filtered, is_done;

static void *tsync_thread(void *arg)
{
	for (; !is_filtered; rounds_done++)
		work(before_malloc, &before_malloc_site, 1);
	work(after_malloc, &after_malloc_site, 100000);
	is_done = true;
	while (arg) /* no call that ends a thread is allowed */
		continue;
	return NULL;
}

/* It does nothing any more: it waits. */
static void await_standstill(void)
{
	size_t before = 0;
	for (int same = 0; same < 20; same++) {
		nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
		if (rounds_done == before && before)
			continue;
		before = rounds_done;
		same = 0;
	}
}

static void mode_tsync(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(write),
		ALLOW(kill),
		ALLOW(exit_group),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(brk),
		ALLOW(madvise),
		ALLOW(mprotect),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	pthread_t thread;
	pid_t recorder = getppid();
	check(!pthread_create(&thread, NULL, tsync_thread, &program), "no thread");
	check(kill(recorder, SIGSTOP) == 0, "the recorder cannot be stopped");
	await_standstill();
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs failed");
	check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
		      0,
	      "seccomp failed");
	is_filtered = true;
	/* As long as the thread needs to leave its sleep. */
	for (volatile long i = 0; i < 200 * 1000 * 1000; i++)
		continue;
	check(kill(recorder, SIGCONT) == 0, "the recorder cannot be woken");
	while (!is_done)
		continue;
	ledger_print("jail", LEDGER_EXACT);
	say("still here\n");
	syscall(SYS_exit_group, 7);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	ledger_open("");
	work(before_malloc, &before_malloc_site, 500);
	if (!strcmp(mode, "close_fds"))
		mode_close_fds();
	else if (!strcmp(mode, "descriptors"))
		mode_descriptors();
	else if (!strcmp(mode, "chroot"))
		mode_chroot(argc > 2 ? argv[2] : "");
	else if (!strcmp(mode, "drop"))
		mode_drop();
	else if (!strcmp(mode, "limit_as"))
		mode_limit_as();
	else if (!strcmp(mode, "limits"))
		mode_limits();
	else if (!strcmp(mode, "mask"))
		mode_mask();
	else if (!strcmp(mode, "no_tsc"))
		mode_no_tsc();
	else if (!strcmp(mode, "no_tsc_fork"))
		mode_no_tsc_fork();
	else if (!strcmp(mode, "tsync"))
		mode_tsync();
	else if (!strncmp(mode, "seccomp_", 8))
		mode_seccomp(mode + 8, argc > 2 ? strtoul(argv[2], NULL, 10) : 100000);
	else
		check(0, "usage: jail MODE");
	ledger_print(mode, LEDGER_EXACT);
	return 0;
}
