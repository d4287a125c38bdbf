/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preloaded library beside the profiler that writes down, for each call of
 * malloc, calloc, realloc and memalign, the stack as libunwind sees it, into the
 * shared file named by COMPARE. tests/e2e/stack_check.c compares it with a trace.
 *
 * File: a head of 64 bytes (first word: bytes used, second word: records dropped
 * because the file was full), then records: struct record, then the return
 * addresses. Per thread the records are in the order of the calls.
 */
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libunwind.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_FRAMES = 600, HEAD_BYTES = 64 };
struct record {
	uint32_t tid;
	uint32_t frame_count;
	uint64_t size_bytes;
};
struct head {
	uint64_t used, dropped, limit, reserved[5];
};

static struct head *head;
static __thread int inside __attribute__((tls_model("initial-exec")));
static __thread uint32_t own_tid __attribute__((tls_model("initial-exec")));

__attribute__((constructor(101))) static void start(void)
{
	const char *path = getenv("COMPARE");
	const char *mib = getenv("COMPARE_MIB");
	size_t bytes = (size_t)(mib ? atol(mib) : 64) << 20;
	if (!path || head)
		return;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		_exit(94);
	struct head *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		_exit(94);
	at->limit = bytes;
	at->used = HEAD_BYTES;
	head = at;
}

static void forked(void)
{
	head = NULL; /* the file is the parent's */
}

__attribute__((constructor(102))) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

/* Not inlined, so that exactly one frame of this library is added. */
__attribute__((noinline)) static void note(size_t bytes)
{
	void *frames[MAX_FRAMES];
	int saved = errno;
	if (!head || inside)
		return;
	inside = 1;
	if (!own_tid)
		own_tid = (uint32_t)syscall(SYS_gettid);
	int count = unw_backtrace(frames, MAX_FRAMES);
	uint64_t need = sizeof(struct record) + (uint64_t)count * 8;
	uint64_t at = __atomic_fetch_add(&head->used, need, __ATOMIC_RELAXED);
	if (at + need <= head->limit) {
		struct record *record = (struct record *)(void *)((char *)head + at);
		record->size_bytes = bytes;
		record->frame_count = (uint32_t)count;
		__builtin_memcpy(record + 1, frames, (size_t)count * 8);
		__atomic_store_n(&record->tid, own_tid, __ATOMIC_RELEASE);
	} else {
		__atomic_fetch_add(&head->dropped, 1, __ATOMIC_RELAXED);
	}
	inside = 0;
	errno = saved;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
	static __typeof__(malloc) *next;
	if (!next)
		next = (__typeof__(malloc) *)dlsym(RTLD_NEXT, "malloc");
	note(bytes);
	void *block = next(bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
	static __typeof__(calloc) *next;
	if (!next)
		next = (__typeof__(calloc) *)dlsym(RTLD_NEXT, "calloc");
	note(count * bytes);
	void *block = next(count, bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

/* realloc(p, 0) is a free, not an allocation. */
__attribute__((visibility("default"))) void *realloc(void *old, size_t bytes)
{
	static __typeof__(realloc) *next;
	if (!next)
		next = (__typeof__(realloc) *)dlsym(RTLD_NEXT, "realloc");
	if (!old || bytes)
		note(bytes);
	void *block = next(old, bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

__attribute__((visibility("default"))) int posix_memalign(void **block, size_t alignment,
							  size_t bytes)
{
	static __typeof__(posix_memalign) *next;
	if (!next)
		next = (__typeof__(posix_memalign) *)dlsym(RTLD_NEXT, "posix_memalign");
	note(bytes);
	int result = next(block, alignment, bytes);
	__asm__ volatile("" : "+r"(result));
	return result;
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
	static __typeof__(aligned_alloc) *next;
	if (!next)
		next = (__typeof__(aligned_alloc) *)dlsym(RTLD_NEXT, "aligned_alloc");
	note(bytes);
	void *block = next(alignment, bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}
