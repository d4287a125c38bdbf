/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/remote.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/memory.h"
#include "inject/proc.h"

enum {
	RESTART_SYSCALL_NR = 219,
	SLEEPING_ROUNDS = 2,
	BORROW_ROUNDS = 20,
	POLL_NS = 20 * 1000,
	MPROTECT_NR = 10,
	READ_WRITE = 3,
};
#define ORDER_NS  (10 * 1000000000ull)
#define RETURN_NS (60 * 1000000000ull)

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

/* As the kernel answers PTRACE_GET_RSEQ_CONFIGURATION. */
struct rseq_answer {
	uint64_t area;
	uint32_t bytes, signature, flags, pad;
};
enum { RSEQ_SECTION_OFFSET = 8 };

int remote_read(int memory_fd, uint64_t address, void *data, size_t bytes)
{
	size_t got = 0;
	int error = io_pread(memory_fd, data, bytes, address, &got);
	return error ? error : got == bytes ? 0 : -EIO;
}

int remote_write(int memory_fd, uint64_t address, const void *data, size_t bytes)
{
	return io_pwrite(memory_fd, data, bytes, address);
}

struct user_regs_struct remote_resumed(const struct user_regs_struct *registers)
{
	struct user_regs_struct resumed = *registers;
	if ((int64_t)registers->orig_rax < 0)
		return resumed;
	switch (-(int64_t)registers->rax) {
	case 512: /* ERESTARTSYS and its kin, which programs never see */
	case 513:
	case 514:
		resumed.rax = registers->orig_rax;
		resumed.rip -= 2;
		break;
	case 516:
		resumed.rax = RESTART_SYSCALL_NR;
		resumed.rip -= 2;
		break;
	}
	return resumed;
}

/* In a restartable sequence: the kernel would forget it as soon as the thread is elsewhere. */
static bool in_restartable_sequence(pid_t tid, int memory_fd)
{
	struct rseq_answer answer = {0};
	uint64_t section = 0;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, (void *)sizeof answer, &answer) < 0 ||
	    !answer.area)
		return false;
	return !remote_read(memory_fd, answer.area + RSEQ_SECTION_OFFSET, &section,
			    sizeof section) &&
	       section != 0;
}

static int take(struct remote *remote, pid_t tid, struct tm_error *err)
{
	int error = stop_seize(remote->stop, tid, err);
	steps_reach(&remote->stop->steps, "seized");
	if (!error)
		error = stop_one(remote->stop, tid, 0, err);
	if (error)
		return error;
	struct stop_thread *thread = stop_find(remote->stop, tid);
	if (in_restartable_sequence(tid, remote->memory_fd)) {
		stop_resume(remote->stop, tid);
		return -EAGAIN;
	}
	remote->registers = thread->registers;
	if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof remote->mask, &remote->mask)) {
		error = -errno;
		stop_resume(remote->stop, tid);
		return tm_fail(err, error, "cannot read the signal mask of thread %d: %s", (int)tid,
			       strerror(-error));
	}
	remote->tid = tid;
	remote->borrowed = true;
	steps_reach(&remote->stop->steps, "borrowed");
	return 0;
}

/*
 * One that sleeps misses the least; the first thread is most often the one that
 * matters. ret_able: some do not wait for the kernel.
 */
static int borrow_once(struct remote *remote, bool sleeping, bool *ret_able, struct tm_error *err)
{
	pid_t *tids = NULL;
	size_t count = 0;
	int error = proc_threads(remote->stop->pid, &tids, &count), result = -EAGAIN;
	for (size_t i = count; !error && i-- > 0 && result && result != -EPERM;) {
		char state = proc_thread_state(remote->stop->pid, tids[i]);
		if (state && strchr(sleeping ? "S" : "RStT", state)) {
			*ret_able = true;
			result = take(remote, tids[i], err);
		}
	}
	tm_free(tids);
	return error ? error : result;
}

int remote_borrow(struct remote *remote, struct stop *stop, int memory_fd, struct tm_error *err)
{
	struct tm_error why = {0};
	uint64_t end_ns = clock_steady_ns() + ORDER_NS;
	bool able = false; /* then they lack a processor, or are where they must not be disturbed */
	*remote = (struct remote){.stop = stop, .memory_fd = memory_fd};
	for (int i = 0; i < BORROW_ROUNDS || (able && clock_steady_ns() < end_ns); i++) {
		able = false;
		int error = borrow_once(remote, i < SLEEPING_ROUNDS, &able, &why);
		if (!error)
			return 0;
		if (error == -EPERM || error == -ENOMEM) {
			*err = why;
			return error;
		}
		if (!proc_live_thread(stop->pid))
			return tm_fail(err, -ESRCH, "process %d has ended", (int)stop->pid);
		stop_attend(stop);
		usleep(1000);
	}
	return tm_fail(err, -ETIMEDOUT,
		       "no thread of process %d can be stopped now: %s; try again later",
		       (int)stop->pid,
		       able ? "they do not get to run, or are inside restartable sequences (rseq)"
			    : "all wait for the kernel (a vfork, a disk, a network file system)");
}

static int died(const struct remote *remote, struct tm_error *err)
{
	return tm_fail(err, -ESRCH, "process %d ended while it was being entered",
		       (int)remote->stop->pid);
}

/* The next stop of the borrowed thread, which no signal but SIGKILL can reach. */
static int next_stop(struct remote *remote, struct tm_error *err)
{
	int status;
	uint64_t end_ns = clock_steady_ns() + ORDER_NS;
	for (;;) {
		pid_t got = waitpid(remote->tid, &status, __WALL | WNOHANG);
		if (got == remote->tid && WIFSTOPPED(status))
			return status;
		if (got == remote->tid || (got < 0 && errno != EINTR))
			return died(remote, err);
		if (clock_steady_ns() > end_ns)
			return tm_fail(err, -ETIMEDOUT, "thread %d does not answer",
				       (int)remote->tid);
		sched_yield();
	}
}

/* Runs to its next system call, or to that one's end. */
static int to_system_call(struct remote *remote, struct tm_error *err)
{
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, remote->tid, NULL, NULL))
			return died(remote, err);
		int status = next_stop(remote, err);
		if (status < 0)
			return status;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			return 0;
	}
}

/* Back to a stop of the kind in which the kernel begins interrupted calls again. */
static int to_stop(struct remote *remote, struct tm_error *err)
{
	struct stop_thread *thread = stop_find(remote->stop, remote->tid);
	if (!thread)
		return died(remote, err);
	stop_continue(remote->stop, remote->tid);
	int error = stop_one(remote->stop, remote->tid, RETURN_NS, err);
	return error == -ESRCH ? died(remote, err) : error;
}

/*
 * Signals are blocked while it works for us. Its registers change first and are
 * given back last: whatever we have it run restores its mask by itself if we die.
 */
static int send_away(struct remote *remote, const struct user_regs_struct *regs,
		     struct tm_error *err)
{
	const uint64_t all = ~0ull;
	if (ptrace(PTRACE_SETREGS, remote->tid, NULL, regs))
		return died(remote, err);
	steps_reach(&remote->stop->steps, "sent");
	if (ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)sizeof all, &all))
		return died(remote, err);
	return 0;
}

static int call_back(struct remote *remote, struct tm_error *err)
{
	if (ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)sizeof remote->mask, &remote->mask))
		return died(remote, err);
	steps_reach(&remote->stop->steps, "calling-back");
	if (ptrace(PTRACE_SETREGS, remote->tid, NULL, &remote->registers))
		return died(remote, err);
	return 0;
}

int remote_system(struct remote *remote, uint64_t at, const uint64_t number_and_args[7],
		  int64_t *ret, struct tm_error *err)
{
	struct user_regs_struct regs = remote->registers;
	regs.rip = at;
	regs.orig_rax = (uint64_t)-1;
	regs.rax = number_and_args[0];
	regs.rdi = number_and_args[1];
	regs.rsi = number_and_args[2];
	regs.rdx = number_and_args[3];
	regs.r10 = number_and_args[4];
	regs.r8 = number_and_args[5];
	regs.r9 = number_and_args[6];
	int error = send_away(remote, &regs, err);
	steps_reach(&remote->stop->steps, "calling");
	if (!error)
		error = to_system_call(remote, err);
	steps_reach(&remote->stop->steps, "in-call");
	if (!error)
		error = to_system_call(remote, err);
	steps_reach(&remote->stop->steps, "called");
	if (error)
		return error;
	if (ptrace(PTRACE_GETREGS, remote->tid, NULL, &regs))
		return died(remote, err);
	*ret = (int64_t)regs.rax;
	/* Asked before it is let go, so that it comes no further than the kernel's edge. */
	struct stop_thread *thread = stop_find(remote->stop, remote->tid);
	if (!thread || ptrace(PTRACE_INTERRUPT, remote->tid, NULL, NULL))
		return died(remote, err);
	thread->asked = true;
	error = to_stop(remote, err);
	if (!error)
		error = call_back(remote, err);
	steps_reach(&remote->stop->steps, "called-back");
	return error;
}

static int write_serving(const struct remote *remote, uint32_t serving)
{
	return remote_write(remote->memory_fd,
			    remote->block + offsetof(struct wire_attach_block, serving), &serving,
			    sizeof serving);
}

/* What the thread needs if we die. */
static int write_registers(struct remote *remote)
{
	struct user_regs_struct r = remote_resumed(&remote->registers);
	const uint64_t registers[WIRE_ATTACH_REGISTERS] = {
		[WIRE_ATTACH_RAX] = r.rax,       [WIRE_ATTACH_RBX] = r.rbx,
		[WIRE_ATTACH_RCX] = r.rcx,       [WIRE_ATTACH_RDX] = r.rdx,
		[WIRE_ATTACH_RSI] = r.rsi,       [WIRE_ATTACH_RDI] = r.rdi,
		[WIRE_ATTACH_RBP] = r.rbp,       [WIRE_ATTACH_R8] = r.r8,
		[WIRE_ATTACH_R9] = r.r9,         [WIRE_ATTACH_R10] = r.r10,
		[WIRE_ATTACH_R11] = r.r11,       [WIRE_ATTACH_R12] = r.r12,
		[WIRE_ATTACH_R13] = r.r13,       [WIRE_ATTACH_R14] = r.r14,
		[WIRE_ATTACH_R15] = r.r15,       [WIRE_ATTACH_RSP] = r.rsp,
		[WIRE_ATTACH_RFLAGS] = r.eflags, [WIRE_ATTACH_RIP] = r.rip,
	};
	const uint32_t left = 0;
	int error = remote_write(remote->memory_fd,
				 remote->block + offsetof(struct wire_attach_block, registers),
				 registers, sizeof registers);
	if (!error)
		error = remote_write(remote->memory_fd,
				     remote->block +
					     offsetof(struct wire_attach_block, signal_mask),
				     &remote->mask, sizeof remote->mask);
	if (!error)
		error = remote_write(remote->memory_fd,
				     remote->block + offsetof(struct wire_attach_block, left),
				     &left, sizeof left);
	if (!error)
		error = remote_read(remote->memory_fd,
				    remote->block + offsetof(struct wire_attach_block, seq),
				    &remote->seq, sizeof remote->seq);
	return error;
}

int remote_start(struct remote *remote, const struct remote_start *start, struct tm_error *err)
{
	struct user_regs_struct regs = remote->registers;
	remote->block = start->block;
	int error = write_registers(remote);
	if (!error)
		error = write_serving(remote, 1);
	if (!error) /* nothing is waiting to be done */
		error = remote_write(remote->memory_fd,
				     remote->block + offsetof(struct wire_attach_block, done),
				     &remote->seq, sizeof remote->seq);
	if (error)
		return tm_fail(err, error, "cannot write to the memory of process %d: %s",
			       (int)remote->stop->pid, strerror(-error));
	regs.orig_rax = (uint64_t)-1;
	regs.rip = start->entry;
	regs.rax = MPROTECT_NR;
	regs.rdi = start->data_start;
	regs.rsi = start->data_bytes;
	regs.rdx = READ_WRITE;
	error = send_away(remote, &regs, err);
	if (error)
		return error;
	steps_reach(&remote->stop->steps, "starting");
	remote->serving = true;
	stop_continue(remote->stop, remote->tid);
	steps_reach(&remote->stop->steps, "serving");
	return 0;
}

/* Has it given itself its registers back already? */
static bool has_left(const struct remote *remote)
{
	uint32_t left = 0;
	return remote->serving &&
	       !remote_read(remote->memory_fd,
			    remote->block + offsetof(struct wire_attach_block, left), &left,
			    sizeof left) &&
	       left;
}

/* Until the thread has done what was asked. */
static int await_done(struct remote *remote, struct tm_error *err)
{
	uint64_t end_ns = clock_steady_ns() + ORDER_NS,
		 address = remote->block + offsetof(struct wire_attach_block, done);
	const struct timespec pause = {.tv_nsec = POLL_NS};
	for (;;) {
		uint32_t done = 0;
		int error = remote_read(remote->memory_fd, address, &done, sizeof done);
		if (error)
			return died(remote, err);
		if (done == remote->seq)
			return 0;
		stop_attend(remote->stop);
		if (!stop_find(remote->stop, remote->tid))
			return died(remote, err);
		if (clock_steady_ns() > end_ns || has_left(remote))
			return tm_fail(err, -ETIMEDOUT,
				       "thread %d of process %d does not get on with what it is "
				       "asked to do (is the process frozen, or the machine very "
				       "busy?)",
				       (int)remote->tid, (int)remote->stop->pid);
		nanosleep(&pause, NULL);
	}
}

int remote_order(struct remote *remote, enum wire_attach_order order, uint64_t first,
		 uint64_t second, int64_t *ret, struct tm_error *err)
{
	const uint64_t arguments[2] = {first, second};
	const uint32_t word = (uint32_t)order, seq = remote->seq + 1;
	const uint64_t block = remote->block;
	int fd = remote->memory_fd;
	int error = remote_write(fd, block + offsetof(struct wire_attach_block, order), &word,
				 sizeof word);
	if (!error)
		error = remote_write(fd, block + offsetof(struct wire_attach_block, argument),
				     arguments, sizeof arguments);
	/* Last: from here on the thread does it. */
	if (!error)
		error = remote_write(fd, block + offsetof(struct wire_attach_block, seq), &seq,
				     sizeof seq);
	if (error)
		return died(remote, err);
	remote->seq = seq;
	error = await_done(remote, err);
	if (error)
		return error;
	error = remote_read(fd, block + offsetof(struct wire_attach_block, result), ret,
			    sizeof *ret);
	return error ? died(remote, err) : 0;
}

void remote_return(struct remote *remote)
{
	struct tm_error ignored = {0};
	if (!remote->borrowed)
		return;
	remote->borrowed = false;
	struct stop_thread *thread = stop_find(remote->stop, remote->tid);
	/* It runs code of ours: nothing but a lack of processors keeps it from stopping. */
	if (!thread ||
	    (!thread->stopped && stop_one(remote->stop, remote->tid, RETURN_NS, &ignored)))
		return;
	if (!has_left(remote)) {
		thread->registers = remote->registers;
		steps_reach(&remote->stop->steps, "returning");
		if (call_back(remote, &ignored))
			return;
		if (remote->serving && write_serving(remote, 0))
			remote->serving = false; /* then the process is gone */
	}
	stop_resume(remote->stop, remote->tid);
	remote->serving = false;
	steps_reach(&remote->stop->steps, "returned");
}
