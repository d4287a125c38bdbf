/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be attached to: it allocates, checks what it has allocated, and
 * counts what must not happen. It says "ready" when it is at work, and after a
 * byte (or the end) of its input prints what it found and ends.
 *
 *	attachee stress N     N threads with blocks of known content
 *	attachee churn        threads that come and go
 *	attachee storm        a malloc loop interrupted by signals all the time
 *	attachee nested       the same, handlers within handlers on another stack
 *	attachee tight        a malloc loop and nothing else
 *	attachee fork         children that allocate, while threads do
 *	attachee vfork        a thread that waits for a vfork's child, again and again
 *	attachee zombie       the first thread has ended
 *	attachee quiet        sleeps; prints what it is made of when told "s"
 *	attachee load FILE    loads an allocator when told "l"
 *	attachee unload DIR   when told "u" loads and unloads two libraries in turn at one address
 *	attachee pairs        prints the nanoseconds of a malloc and free when told "p"
 *	attachee exec         executes itself as "quiet" when told "e"
 *	attachee notsc        sleeps, and may not read the time-stamp counter
 *	attachee jail N       stress, with a filter that kills for what entering it needs
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif

enum { SLOTS = 512, SIZE_MAX_BYTES = 3000, THREADS_MAX = 256 };

static _Atomic int stopping;
static _Atomic long bad, rounds, interrupted, gap_us;

/* ---- blocks of known content ---- */

struct held {
	unsigned char *block;
	size_t bytes;
	unsigned char value;
};

static unsigned next_random(unsigned *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void check(const struct held *held)
{
	for (size_t i = 0; i < held->bytes; i += 64)
		if (held->block[i] != held->value)
			atomic_fetch_add(&bad, 1);
	if (held->bytes && held->block[held->bytes - 1] != held->value)
		atomic_fetch_add(&bad, 1);
}

static void *allocate(unsigned *seed, size_t bytes, void *old)
{
	void *block = NULL;
	switch (old ? 5 : next_random(seed) % 5) {
	case 0:
		return malloc(bytes);
	case 1:
		return calloc(1, bytes);
	case 2:
		return posix_memalign(&block, 64, bytes) ? NULL : block;
	case 3:
		return aligned_alloc(32, (bytes + 31) & ~(size_t)31);
	case 4:
		return realloc(NULL, bytes);
	default:
		return realloc(old, bytes);
	}
}

static void step(struct held *held, unsigned *seed)
{
	unsigned what = next_random(seed);
	size_t bytes = 1 + next_random(seed) % SIZE_MAX_BYTES;
	void *old = NULL;
	if (held->block) {
		check(held);
		if (what % 4 == 0)
			old = held->block;
		else
			free(held->block);
		held->block = NULL;
	}
	if (!old && what % 3 == 0)
		return;
	held->bytes = bytes;
	held->value = (unsigned char)what;
	held->block = allocate(seed, bytes, old);
	if (!held->block) {
		atomic_fetch_add(&bad, 1);
		return;
	}
	memset(held->block, held->value, bytes);
}

static void work(unsigned seed, long steps)
{
	struct held held[SLOTS] = {{0}};
	for (long i = 0; i != steps && !atomic_load_explicit(&stopping, memory_order_relaxed);
	     i++) {
		step(&held[next_random(&seed) % SLOTS], &seed);
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
	}
	for (int i = 0; i < SLOTS; i++)
		free(held[i].block);
}

static void *work_thread(void *number)
{
	work((unsigned)(uintptr_t)number * 77 + 1, -1);
	return NULL;
}

static void *brief_thread(void *number)
{
	work((unsigned)(uintptr_t)number, 200);
	return NULL;
}

static void *churn_thread(void *number)
{
	for (uintptr_t i = 1; !atomic_load(&stopping); i++) {
		pthread_t threads[4];
		int made = 0;
		while (made < 4 &&
		       !pthread_create(&threads[made], NULL, brief_thread, (void *)(i * 4 + made)))
			made++;
		while (made)
			pthread_join(threads[--made], NULL);
	}
	return number;
}

/* ---- signals ---- */

static void on_signal(int signal)
{
	int kept = errno;
	volatile unsigned char frame[256];
	memset((void *)frame, signal, sizeof frame);
	errno = kept;
}

static void on_nested(int signal)
{
	on_signal(signal);
	if (signal == SIGUSR1)
		raise(SIGUSR2);
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
	sigaction(signal, &action, NULL);
}

struct storm {
	pthread_t thread;
	_Atomic int begun;
};

static void *storm_thread(void *given)
{
	static unsigned char other_stack[1 << 16];
	struct storm *storm = given;
	stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
	sigaltstack(&stack, NULL);
	atomic_store(&storm->begun, 1);
	while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
		void *block = malloc(64);
		if (!block)
			atomic_fetch_add(&bad, 1);
		free(block);
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
	}
	return NULL;
}

static void *sender_thread(void *given)
{
	struct storm *storm = given;
	while (!atomic_load(&stopping)) {
		pthread_kill(storm->thread, SIGUSR1);
		for (volatile int i = 0; i < 2000; i++)
			;
	}
	return NULL;
}

static void start_storm(struct storm *storm, bool nested)
{
	pthread_t sender;
	handle(SIGUSR1, nested ? on_nested : on_signal, nested ? SA_ONSTACK : 0);
	handle(SIGUSR2, on_signal, 0);
	pthread_create(&storm->thread, NULL, storm_thread, storm);
	while (!atomic_load(&storm->begun))
		sched_yield();
	pthread_create(&sender, NULL, sender_thread, storm);
}

/* ---- processes ---- */

static void *fork_thread(void *unused)
{
	while (!atomic_load(&stopping)) {
		pid_t pid = fork();
		if (!pid) {
			work(7, 300);
			_exit(atomic_load(&bad) ? 1 : 0);
		}
		int status = 0;
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			atomic_fetch_add(&bad, 1);
		atomic_fetch_add(&rounds, 1);
	}
	return unused;
}

static void *vfork_thread(void *unused)
{
	while (!atomic_load(&stopping)) {
		pid_t pid = vfork();
		if (!pid) {
			struct timespec length = {.tv_sec = 3};
			nanosleep(&length, NULL);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		atomic_fetch_add(&rounds, 1);
	}
	return unused;
}

/* The longest time in which this thread did not run. */
static void *gap_thread(void *unused)
{
	struct timespec last, now;
	clock_gettime(CLOCK_MONOTONIC, &last);
	while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
		free((void *volatile){malloc(32)}); /* else the compiler leaves both out */
		clock_gettime(CLOCK_MONOTONIC, &now);
		long us =
			(now.tv_sec - last.tv_sec) * 1000000 + (now.tv_nsec - last.tv_nsec) / 1000;
		if (us > atomic_load(&gap_us))
			atomic_store(&gap_us, us);
		last = now;
	}
	return unused;
}

/* ---- a filter; musl's compiler does not find the kernel's headers ---- */

#ifdef __GLIBC__

static void lock_up(void)
{
	static const unsigned forbidden[] = {SYS_memfd_create, SYS_process_vm_readv, SYS_membarrier,
					     SYS_prctl};
	enum { COUNT = sizeof forbidden / sizeof forbidden[0] };
	struct sock_filter filter[COUNT + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (unsigned i = 0; i < COUNT; i++)
		filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							     forbidden[i], COUNT - i, 0);
	filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog program = {.len = COUNT + 3, .filter = filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		abort();
}

#else
static void lock_up(void)
{
	abort();
}
#endif

/* ---- what it is made of ---- */

static void print_signals(void)
{
	for (int i = 1; i < 65; i++) {
		struct sigaction action;
		if (!sigaction(i, NULL, &action))
			dprintf(1, "signal %d %p %x\n", i, (void *)action.sa_handler,
				(unsigned)action.sa_flags);
	}
}

static void print_state(void)
{
	sigset_t mask;
	stack_t stack;
	char folder[4096];
	sigprocmask(SIG_SETMASK, NULL, &mask);
	sigaltstack(NULL, &stack);
	dprintf(1, "mask %lx stack %p %zu %d folder %s\n", *(unsigned long *)&mask, stack.ss_sp,
		stack.ss_size, stack.ss_flags, getcwd(folder, sizeof folder));
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;
		getrlimit(i, &limit);
		dprintf(1, "limit %d %lx %lx\n", i, limit.rlim_cur, limit.rlim_max);
	}
	print_signals();
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			dprintf(1, "descriptor %d %x\n", fd, fcntl(fd, F_GETFL));
	dprintf(1, "end of state\n");
}

static void *sleep_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *load(void *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *(*take)(size_t) = (void *(*)(size_t))(library ? dlsym(library, "malloc") : NULL);
	if (!take) {
		dprintf(1, "no library: %s\n", dlerror());
		return NULL;
	}
	dprintf(1, "loaded\n");
	for (int i = 0; i < 20000 && !atomic_load(&stopping); i++) {
		struct timespec length = {.tv_nsec = 1000 * 1000};
		*(volatile char *)take(100) = 1;
		nanosleep(&length, NULL);
	}
	return NULL;
}

/* The same code under other names: what was learned of one is wrong for the next. */
static void unload(const char *folder)
{
	for (int i = 0; i < 100; i++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/plug_%c.so", folder, i % 2 ? 'b' : 'a');
		void *library = dlopen(path, RTLD_NOW);
		void *(**entry)(size_t) = library ? dlsym(library, "plug_entry") : NULL;
		for (int k = 0; entry && k < 10; k++)
			free((*entry)(200));
		if (!entry || dlclose(library))
			atomic_fetch_add(&bad, 1);
	}
	dprintf(1, "unloaded\n");
}

/* The least of several times, so that other programs' work does not count. */
static void time_pairs(void)
{
	enum { PAIRS = 200 * 1000, TIMES = 15 };
	double least = 1e9;
	for (int i = 0; i < TIMES; i++) {
		struct timespec before, after;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
		for (int k = 0; k < PAIRS; k++) {
			void *volatile block = malloc(16);
			free(block);
		}
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
		double ns = (double)(after.tv_sec - before.tv_sec) * 1e9 +
			    (double)(after.tv_nsec - before.tv_nsec);
		least = ns / PAIRS < least ? ns / PAIRS : least;
	}
	dprintf(1, "%.2f ns\n", least);
}

/* Until told to end. */
static void obey(void *path)
{
	char byte;
	while (read(0, &byte, 1) == 1) {
		pthread_t thread;
		if (byte == 's')
			print_state();
		else if (byte == 'l')
			pthread_create(&thread, NULL, load, path);
		else if (byte == 'p')
			time_pairs();
		else if (byte == 'u')
			unload(path);
		else if (byte == 'e')
			execl("/proc/self/exe", "attachee", "quiet", NULL);
		else
			break;
	}
}

static void finish(void *path)
{
	dprintf(1, "ready\n");
	obey(path);
	atomic_store(&stopping, 1);
	dprintf(1, "bad=%ld interrupted=%ld gap_us=%ld rounds=%ld\n", atomic_load(&bad),
		atomic_load(&interrupted), atomic_load(&gap_us), atomic_load(&rounds));
	_exit(atomic_load(&bad) ? 1 : 0);
}

/* When the first thread has ended. */
static void *finish_thread(void *path)
{
	char name[64], text[256] = "";
	snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)getpid());
	while (!strstr(text, ") Z ")) {
		int fd = open(name, O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
			abort();
		close(fd);
		usleep(1000);
	}
	finish(path);
	return NULL;
}

static void start(void *(*function)(void *), int count)
{
	for (int i = 0; i < count && i < THREADS_MAX; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, function, (void *)(uintptr_t)(i + 1)))
			abort();
	}
}

int main(int argc, char **argv)
{
	static struct storm storm;
	const char *mode = argc > 1 ? argv[1] : "", *what = argc > 2 ? argv[2] : "";
	if (!strcmp(mode, "stress")) {
		start(work_thread, atoi(what));
	} else if (!strcmp(mode, "notsc")) {
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	} else if (!strcmp(mode, "jail")) {
		lock_up();
		start(work_thread, atoi(what));
	} else if (!strcmp(mode, "churn")) {
		start(churn_thread, 2);
	} else if (!strcmp(mode, "storm") || !strcmp(mode, "nested")) {
		start_storm(&storm, mode[0] == 'n');
	} else if (!strcmp(mode, "tight")) {
		start(gap_thread, 1);
	} else if (!strcmp(mode, "fork")) {
		start(work_thread, 2);
		start(fork_thread, 1);
	} else if (!strcmp(mode, "vfork")) {
		start(gap_thread, 1);
		start(vfork_thread, 1);
	} else if (!strcmp(mode, "zombie")) {
		pthread_t thread;
		start(work_thread, 1);
		pthread_create(&thread, NULL, finish_thread, NULL);
		pthread_exit(NULL);
	} else if (!strcmp(mode, "quiet") || !strcmp(mode, "load") || !strcmp(mode, "unload") ||
		   !strcmp(mode, "exec")) {
		start(sleep_thread, 2);
	} else if (strcmp(mode, "pairs") != 0) {
		return 2;
	}
	finish((void *)(uintptr_t)what);
}
