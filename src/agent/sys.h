/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw system calls of x86-64 Linux. They return the kernel's value, -errno on
 * failure; they never touch errno, are no cancellation points and need no libc.
 * Freestanding-safe; async-signal-safe; also usable in hosted tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sys_number {
	SYS_NR_READ = 0,
	SYS_NR_WRITE = 1,
	SYS_NR_OPEN = 2,
	SYS_NR_CLOSE = 3,
	SYS_NR_MMAP = 9,
	SYS_NR_MPROTECT = 10,
	SYS_NR_MUNMAP = 11,
	SYS_NR_RT_SIGPROCMASK = 14,
	SYS_NR_PREAD64 = 17,
	SYS_NR_SCHED_YIELD = 24,
	SYS_NR_MREMAP = 25,
	SYS_NR_MINCORE = 27,
	SYS_NR_MADVISE = 28,
	SYS_NR_NANOSLEEP = 35,
	SYS_NR_GETPID = 39,
	SYS_NR_SOCKET = 41,
	SYS_NR_CONNECT = 42,
	SYS_NR_SENDMSG = 46,
	SYS_NR_SETSOCKOPT = 54,
	SYS_NR_RECVMSG = 47,
	SYS_NR_FCNTL = 72,
	SYS_NR_READLINK = 89,
	SYS_NR_PRCTL = 157,
	SYS_NR_GETTID = 186,
	SYS_NR_FUTEX = 202,
	SYS_NR_CLOCK_GETTIME = 228,
	SYS_NR_EXIT_GROUP = 231,
	SYS_NR_TGKILL = 234,
	SYS_NR_PRLIMIT64 = 302,
	SYS_NR_PROCESS_VM_READV = 310,
	SYS_NR_PROCESS_VM_WRITEV = 311,
	SYS_NR_SECCOMP = 317,
	SYS_NR_GETRANDOM = 318,
	SYS_NR_MEMBARRIER = 324,
};

struct sys_iovec {
	void *base;
	size_t bytes;
};

struct sys_timespec {
	int64_t seconds;
	int64_t nanoseconds;
};

static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long sys_call4(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long sys_call3(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static inline bool sys_failed(long result)
{
	return (unsigned long)result > -4096ul;
}

static inline long sys_read(int fd, void *buffer, size_t bytes)
{
	return sys_call3(SYS_NR_READ, fd, (long)buffer, (long)bytes);
}

static inline long sys_write(int fd, const void *buffer, size_t bytes)
{
	return sys_call3(SYS_NR_WRITE, fd, (long)buffer, (long)bytes);
}

static inline long sys_pread(int fd, void *buffer, size_t bytes, uint64_t offset)
{
	return sys_call4(SYS_NR_PREAD64, fd, (long)buffer, (long)bytes, (long)offset);
}

static inline int sys_open(const char *path, int flags, int mode)
{
	return (int)sys_call3(SYS_NR_OPEN, (long)path, flags, mode);
}

static inline int sys_close(int fd)
{
	return (int)sys_call3(SYS_NR_CLOSE, fd, 0, 0);
}

static inline int sys_fcntl(int fd, int command, long argument)
{
	return (int)sys_call3(SYS_NR_FCNTL, fd, command, argument);
}

/* Bytes without a final NUL. */
static inline long sys_readlink(const char *path, char *buffer, size_t bytes)
{
	return sys_call3(SYS_NR_READLINK, (long)path, (long)buffer, (long)bytes);
}

/* An address, or -errno: test with sys_failed((long)result). */
static inline void *sys_mmap(void *address, size_t bytes, int prot, int flags, int fd,
			     uint64_t offset)
{
	return (void *)sys_call6(SYS_NR_MMAP, (long)address, (long)bytes, prot, flags, fd,
				 (long)offset);
}

static inline int sys_munmap(void *address, size_t bytes)
{
	return (int)sys_call3(SYS_NR_MUNMAP, (long)address, (long)bytes, 0);
}

static inline int sys_mprotect(void *address, size_t bytes, int prot)
{
	return (int)sys_call3(SYS_NR_MPROTECT, (long)address, (long)bytes, prot);
}

static inline int sys_madvise(void *address, size_t bytes, int advice)
{
	return (int)sys_call3(SYS_NR_MADVISE, (long)address, (long)bytes, advice);
}

static inline int sys_mincore(void *address, size_t bytes, uint8_t *ret_pages)
{
	return (int)sys_call3(SYS_NR_MINCORE, (long)address, (long)bytes, (long)ret_pages);
}

static inline int sys_getpid(void)
{
	return (int)sys_call3(SYS_NR_GETPID, 0, 0, 0);
}

static inline int sys_gettid(void)
{
	return (int)sys_call3(SYS_NR_GETTID, 0, 0, 0);
}

static inline int sys_tgkill(int pid, int tid, int signal_number)
{
	return (int)sys_call3(SYS_NR_TGKILL, pid, tid, signal_number);
}

static inline int sys_sched_yield(void)
{
	return (int)sys_call3(SYS_NR_SCHED_YIELD, 0, 0, 0);
}

static inline long sys_futex(void *word, int op, uint32_t value, const struct sys_timespec *timeout,
			     void *word2, uint32_t value3)
{
	return sys_call6(SYS_NR_FUTEX, (long)word, op, value, (long)timeout, (long)word2, value3);
}

static inline int sys_clock_gettime(int clock, struct sys_timespec *ret)
{
	return (int)sys_call3(SYS_NR_CLOCK_GETTIME, clock, (long)ret, 0);
}

static inline int sys_nanosleep(const struct sys_timespec *length, struct sys_timespec *ret_rest)
{
	return (int)sys_call3(SYS_NR_NANOSLEEP, (long)length, (long)ret_rest, 0);
}

static inline int sys_socket(int domain, int type, int protocol)
{
	return (int)sys_call3(SYS_NR_SOCKET, domain, type, protocol);
}

static inline int sys_connect(int fd, const void *address, size_t bytes)
{
	return (int)sys_call3(SYS_NR_CONNECT, fd, (long)address, (long)bytes);
}

/* message: a struct msghdr as the kernel lays it out. */
static inline long sys_sendmsg(int fd, const void *message, int flags)
{
	return sys_call3(SYS_NR_SENDMSG, fd, (long)message, flags);
}

static inline long sys_recvmsg(int fd, void *message, int flags)
{
	return sys_call3(SYS_NR_RECVMSG, fd, (long)message, flags);
}

static inline int sys_prctl(int option, unsigned long a, unsigned long b, unsigned long c)
{
	return (int)sys_call6(SYS_NR_PRCTL, option, (long)a, (long)b, (long)c, 0, 0);
}

static inline int sys_prlimit(int pid, int resource, const void *limit, void *ret_old)
{
	return (int)sys_call4(SYS_NR_PRLIMIT64, pid, resource, (long)limit, (long)ret_old);
}

static inline int sys_membarrier(int command, unsigned flags)
{
	return (int)sys_call3(SYS_NR_MEMBARRIER, command, flags, 0);
}

static inline long sys_getrandom(void *buffer, size_t bytes, unsigned flags)
{
	return sys_call3(SYS_NR_GETRANDOM, (long)buffer, (long)bytes, flags);
}

/* how: SIG_BLOCK 0, SIG_UNBLOCK 1, SIG_SETMASK 2; masks are the kernel's 64 bits. */
static inline int sys_sigprocmask(int how, const uint64_t *mask, uint64_t *ret_old)
{
	return (int)sys_call4(SYS_NR_RT_SIGPROCMASK, how, (long)mask, (long)ret_old, 8);
}

static inline long sys_process_vm_readv(int pid, const struct sys_iovec *local, size_t local_count,
					const struct sys_iovec *remote, size_t remote_count)
{
	return sys_call6(SYS_NR_PROCESS_VM_READV, pid, (long)local, (long)local_count, (long)remote,
			 (long)remote_count, 0);
}

/*
 * Copy memory of the own process that may be unmapped at any moment. tid: the
 * calling thread's (a pid whose leader is a zombie fails). False: not readable.
 */
static inline bool sys_peek(int tid, uintptr_t address, void *ret, size_t bytes)
{
	struct sys_iovec local = {ret, bytes};
	struct sys_iovec remote = {(void *)address, bytes};
	return sys_process_vm_readv(tid, &local, 1, &remote, 1) == (long)bytes;
}

/* Write memory that may be unmapped; false: it is, or is not to be written. */
static inline bool sys_poke(int tid, uintptr_t address, const void *from, size_t bytes)
{
	struct sys_iovec local = {(void *)from, bytes};
	struct sys_iovec remote = {(void *)address, bytes};
	return sys_call6(SYS_NR_PROCESS_VM_WRITEV, tid, (long)&local, 1, (long)&remote, 1, 0) ==
	       (long)bytes;
}

static inline void sys_exit_group(int status)
{
	for (;;)
		sys_call3(SYS_NR_EXIT_GROUP, status, 0, 0);
}
