/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that free and reallocate what others made. Modes:
 *   cross    64 threads hand blocks over through shared slots
 *   race     4 threads realloc and malloc the same few sizes in one arena, so
 *            that an address freed inside realloc is at once another thread's
 *   churn    100,000 threads that live for three blocks (a second argument
 *            changes the number)
 *   spread   20,000 such threads, each with another thread pointer; a second
 *            argument changes the number, a third how many pointers there are
 *   deep     200 threads, each once 900 frames deep and shallow ever after
 *   silent   20 threads that never allocate, with names
 *   tiny     threads with the smallest stack there is, almost used up
 *   clone    raw clone() without a thread library: shared thread pointer
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

LEDGER_SITE(cross_malloc);
LEDGER_SITE(cross_realloc);
LEDGER_SITE(race_malloc);
LEDGER_SITE(race_realloc);
LEDGER_SITE(churn_malloc);
LEDGER_SITE(clone_malloc);
LEDGER_SITE(tiny_malloc);
LEDGER_SITE(named_malloc);
LEDGER_SITE(deep_malloc);

/* The head of each block says who made it, so that any thread can end it. */
struct head {
	struct ledger_site *site;
	size_t bytes;
};

enum { CROSS_THREADS = 64, CROSS_ROUNDS = 3000, SLOTS = 97 };
enum { RACE_THREADS = 4, RACE_ROUNDS = 120000 };
enum { CHURN_AT_ONCE = 8 };
static struct head *slots[SLOTS];

static void mark(void *block, struct ledger_site *site, size_t bytes)
{
	struct head *head = block;
	check(head != NULL, "out of memory");
	head->site = site;
	head->bytes = bytes;
}

SITE void *cross_malloc(size_t n)
{
	void *block = ledger_alloc(&cross_malloc_site, malloc(n), n);
	mark(block, &cross_malloc_site, n);
	return block;
}

SITE void *cross_realloc(struct head *old, size_t n)
{
	struct head was = *old;
	void *block = ledger_realloc(was.site, was.bytes, &cross_realloc_site, realloc(old, n), n);
	mark(block, &cross_realloc_site, n);
	return block;
}

SITE void *race_malloc(size_t n)
{
	void *block = ledger_alloc(&race_malloc_site, malloc(n), n);
	mark(block, &race_malloc_site, n);
	return block;
}

SITE void *race_realloc(struct head *old, size_t n)
{
	struct head was = *old;
	void *block = ledger_realloc(was.site, was.bytes, &race_realloc_site, realloc(old, n), n);
	mark(block, &race_realloc_site, n);
	return block;
}

static void drop(struct head *head)
{
	if (!head)
		return;
	ledger_free(head->site, head, head->bytes);
	free(head);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static void *cross_thread(void *arg)
{
	uint64_t seed = 88172645463325252ull + (uintptr_t)arg * 7919;
	for (int i = 0; i < CROSS_ROUNDS; i++) {
		uint64_t dice = next_random(&seed);
		struct head **slot = &slots[dice % SLOTS];
		struct head *mine = cross_malloc(16 + (dice >> 20) % 600);
		mine = __atomic_exchange_n(slot, mine, __ATOMIC_ACQ_REL);
		if (mine && (dice >> 50) % 2) {
			mine = cross_realloc(mine, 16 + (dice >> 30) % 5000);
			mine = __atomic_exchange_n(slot, mine, __ATOMIC_ACQ_REL);
		}
		drop(mine);
	}
	return NULL;
}

/* Sizes beyond the thread caches, so that all threads meet in the one arena. */
static void *race_thread(void *arg)
{
	uint64_t seed = 1181783497276652981ull + (uintptr_t)arg * 104729;
	for (int i = 0; i < RACE_ROUNDS; i++) {
		uint64_t dice = next_random(&seed);
		struct head *block = race_malloc(1100 + dice % 4 * 64);
		block = race_realloc(block, 1100 + (dice >> 8) % 4 * 512);
		drop(block);
	}
	return NULL;
}

static void many(void *(*body)(void *), uintptr_t count)
{
	pthread_t threads[CROSS_THREADS];
	for (uintptr_t i = 0; i < count; i++)
		check(!pthread_create(&threads[i], NULL, body, (void *)i), "no thread");
	for (uintptr_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void mode_cross(void)
{
	many(cross_thread, CROSS_THREADS);
	for (int i = 0; i < SLOTS; i += 2)
		drop(slots[i]);
}

SITE void *churn_malloc(size_t n)
{
	return ledger_alloc(&churn_malloc_site, malloc(n), n);
}

static void *churn_thread(void *arg)
{
	uintptr_t number = (uintptr_t)arg;
	void *first = churn_malloc(number % 100 + 1);
	void *second = churn_malloc(64);
	ledger_free(&churn_malloc_site, second, 64);
	free(second);
	if (number % 100) {
		ledger_free(&churn_malloc_site, first, number % 100 + 1);
		free(first);
	}
	return NULL;
}

static void mode_churn(uintptr_t count)
{
	pthread_t threads[CHURN_AT_ONCE];
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1 << 16);
	for (uintptr_t i = 0; i < count; i++) {
		if (i >= CHURN_AT_ONCE)
			pthread_join(threads[i % CHURN_AT_ONCE], NULL);
		check(!pthread_create(&threads[i % CHURN_AT_ONCE], &attributes, churn_thread,
				      (void *)i),
		      "no thread");
	}
	for (uintptr_t i = 0; i < CHURN_AT_ONCE && i < count; i++)
		pthread_join(threads[i], NULL);
}

/* The C library puts its data of a thread at the end of the stack that it is given. */
static void mode_spread(uintptr_t count, uintptr_t pointers)
{
	enum { STACK = 1 << 16 };
	pthread_t threads[CHURN_AT_ONCE];
	char *stacks = mmap(NULL, pointers * STACK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(stacks != MAP_FAILED, "no stacks");
	for (uintptr_t i = 0; i < count + CHURN_AT_ONCE; i++) {
		uintptr_t one = i % CHURN_AT_ONCE;
		if (i >= CHURN_AT_ONCE && i - CHURN_AT_ONCE < count) {
			pthread_join(threads[one], NULL);
			madvise(stacks + (i - CHURN_AT_ONCE) % pointers * STACK, STACK,
				MADV_DONTNEED);
		}
		if (i >= count)
			continue;
		pthread_attr_t attributes;
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, stacks + i % pointers * STACK, STACK);
		check(!pthread_create(&threads[one], &attributes, churn_thread, (void *)i),
		      "no thread");
	}
}

SITE void *clone_malloc(size_t n)
{
	return ledger_alloc(&clone_malloc_site, malloc(n), n);
}

static int clone_body(void *arg)
{
	for (size_t i = 1; i <= 100; i++) {
		void *block = clone_malloc(i);
		if (i % (size_t)(uintptr_t)arg == 0)
			continue;
		ledger_free(&clone_malloc_site, block, i);
		free(block);
	}
	return 0;
}

/* The parent waits in the kernel, so the shared thread pointer is never used twice at once. */
static void mode_clone(void)
{
	static char stack[1 << 18] __attribute__((aligned(16)));
	for (uintptr_t round = 2; round < 12; round++) {
		int flags = CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD;
		if (round % 2)
			flags |= CLONE_SIGHAND;
		pid_t child = clone(clone_body, stack + sizeof stack, flags, (void *)round);
		int status = 0;
		check(child > 0 && waitpid(child, &status, 0) == child, "clone failed");
		check(status == 0, "the cloned task failed");
		clone_body((void *)3);
	}
}

SITE void *tiny_malloc(size_t n)
{
	return ledger_alloc(&tiny_malloc_site, malloc(n), n);
}

/* Uses up the stack until `left` bytes are below, then allocates there. */
SITE void fill_stack(char *bottom, size_t left)
{
	char room[256];
	KEEP(room);
	if (room - bottom > (ptrdiff_t)left) {
		fill_stack(bottom, left);
		KEEP(room);
		return;
	}
	for (size_t i = 1; i <= 50; i++) {
		void *block = tiny_malloc(i);
		ledger_free(&tiny_malloc_site, block, i);
		free(block);
		KEEP(tiny_malloc(i));
	}
}

static void *tiny_thread(void *arg)
{
	pthread_attr_t attributes;
	void *bottom = NULL;
	size_t bytes = 0, guard = 0;
	check(!pthread_getattr_np(pthread_self(), &attributes), "no attributes");
	pthread_attr_getstack(&attributes, &bottom, &bytes);
	pthread_attr_getguardsize(&attributes, &guard); /* lies within the stack */
	pthread_attr_destroy(&attributes);
	fill_stack((char *)bottom + guard, (size_t)(uintptr_t)arg);
	return NULL;
}

static pthread_barrier_t all_there;

static void *silent_thread(void *number)
{
	char name[] = "silent 00";
	name[7] = (char)('0' + (uintptr_t)number / 10);
	name[8] = (char)('0' + (uintptr_t)number % 10);
	pthread_setname_np(pthread_self(), name);
	pthread_barrier_wait(&all_there);
	return number;
}

/* No clock and no recorder's look comes between: it has its name for this one call. */
SITE void named_malloc(size_t n)
{
	void *block = ledger_alloc(&named_malloc_site, malloc(n), n);
	ledger_free(&named_malloc_site, block, n);
	free(block);
}

static void *named_thread(void *number)
{
	char name[] = "named 0";
	name[6] = (char)('0' + (uintptr_t)number);
	check(!prctl(PR_SET_NAME, name, 0, 0, 0), "no name");
	memset(name, '?', sizeof name - 1);
	named_malloc(10);
	return number;
}

static void mode_named(void)
{
	for (uintptr_t i = 0; i < 5; i++) {
		pthread_t thread;
		check(!pthread_create(&thread, NULL, named_thread, (void *)i), "no thread");
		pthread_join(thread, NULL);
	}
}

static void mode_silent(void)
{
	enum { SILENT = 20 };
	pthread_t threads[SILENT];
	check(!pthread_barrier_init(&all_there, NULL, SILENT + 1), "no barrier");
	for (uintptr_t i = 0; i < SILENT; i++)
		check(!pthread_create(&threads[i], NULL, silent_thread, (void *)i), "no thread");
	pthread_barrier_wait(&all_there);
	for (uintptr_t i = 0; i < SILENT; i++) {
		void *result = NULL;
		check(!pthread_join(threads[i], &result) && result == (void *)i, "no result");
	}
}

SITE void deep_malloc(size_t n)
{
	void *block = ledger_alloc(&deep_malloc_site, malloc(n), n);
	ledger_free(&deep_malloc_site, block, n);
	free(block);
}

__attribute__((noipa)) static void descend(unsigned left)
{
	if (left)
		descend(left - 1);
	else
		deep_malloc(10);
	__asm__ volatile("" ::: "memory");
}

/* Each from another place on the stack. */
__attribute__((noipa)) static void sidestep(size_t bytes)
{
	volatile char *room = __builtin_alloca(bytes);
	room[0] = 1;
	deep_malloc(bytes);
}

static void *deep_thread(void *arg)
{
	(void)arg;
	descend(900);
	for (size_t i = 1; i <= 200; i++)
		sidestep(i * 16);
	pthread_barrier_wait(&all_there);
	return NULL;
}

static void mode_deep(void)
{
	enum { DEEP = 200 };
	pthread_t threads[DEEP];
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	check(!pthread_barrier_init(&all_there, NULL, DEEP + 1), "no barrier");
	for (int i = 0; i < DEEP; i++)
		check(!pthread_create(&threads[i], &attributes, deep_thread, NULL), "no thread");
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < DEEP; i++)
		pthread_join(threads[i], NULL);
}

static void mode_tiny(size_t left)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16384);
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		check(!pthread_create(&thread, &attributes, tiny_thread, (void *)left),
		      "no thread");
		pthread_join(thread, NULL);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	ledger_open("");
	if (!strcmp(mode, "cross"))
		mode_cross();
	else if (!strcmp(mode, "race"))
		many(race_thread, RACE_THREADS);
	else if (!strcmp(mode, "churn"))
		mode_churn(argc > 2 ? (uintptr_t)atol(argv[2]) : 100000);
	else if (!strcmp(mode, "spread"))
		mode_spread(argc > 2 ? (uintptr_t)atol(argv[2]) : 20000,
			    argc > 3 ? (uintptr_t)atol(argv[3]) : 20000);
	else if (!strcmp(mode, "clone"))
		mode_clone();
	else if (!strcmp(mode, "deep"))
		mode_deep();
	else if (!strcmp(mode, "named"))
		mode_named();
	else if (!strcmp(mode, "silent"))
		mode_silent();
	else if (!strcmp(mode, "tiny"))
		mode_tiny(argc > 2 ? strtoul(argv[2], NULL, 10) : 4096);
	else
		check(0, "usage: threads MODE");
	ledger_print(mode, !strcmp(mode, "clone") ? LEDGER_EXACT : 0);
	return 0;
}
