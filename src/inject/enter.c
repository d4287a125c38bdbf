/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "inject/image.h"
#include "inject/patch.h"
#include "inject/patch_room.h"
#include "inject/proc.h"

enum {
	SYSCALL_BYTES = 2,
	STEPS_MAX = 100,
	KERNEL_MASK_BYTES = 8,
};

/* While we are in it. */
struct entering {
	const struct enter_options *options;
	int memory_fd;
	struct user_regs_struct registers; /* as it stood */
	uint8_t code[SYSCALL_BYTES];       /* what was at its first instruction */
	uint64_t mask;
	bool stopped; /* somebody sent SIGSTOP meanwhile */
	struct image image;
	uint64_t base; /* of the agent */
	struct plan *plan;
	struct patch_set *set;
};

int enter_seize(pid_t pid, struct tm_error *err)
{
	if (!ptrace(PTRACE_SEIZE, pid, NULL, (void *)(long)PTRACE_O_TRACEEXEC))
		return 0;
	int code = -errno;
	return tm_fail(err, code,
		       "the program is statically linked and could only be entered by ptrace, "
		       "which is forbidden here (%s): allow it (in a container: --cap-add "
		       "SYS_PTRACE), or link it dynamically",
		       strerror(-code));
}

/* Its next stop: signal | event << 8. An end (-ESRCH) is left to whoever waits for the program. */
static int await_stop(pid_t pid, int *ret_stop)
{
	for (;;) {
		siginfo_t info = {0}, stop = {0};
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL)) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
		    info.si_code == CLD_DUMPED)
			return -ESRCH;
		/* Stops only: it may have been killed since. */
		if (!waitid(P_PID, (id_t)pid, &stop, WSTOPPED | WNOHANG | __WALL) && stop.si_pid) {
			*ret_stop = stop.si_status;
			return 0;
		}
	}
}

bool enter_wait(pid_t pid)
{
	int stop;
	while (!await_stop(pid, &stop)) {
		int event = stop >> 8, signal = stop & 0xff;
		if (event == PTRACE_EVENT_EXEC)
			return true;
		if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
			ptrace(PTRACE_LISTEN, pid, NULL, NULL);
		else
			ptrace(PTRACE_CONT, pid, NULL, (void *)(long)(event ? 0 : signal));
	}
	return false;
}

void enter_leave(pid_t pid)
{
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

/* ---- system calls of the program ---- */

static int read_memory(const struct entering *e, uint64_t address, void *data, size_t bytes)
{
	size_t got = 0;
	int error = io_pread(e->memory_fd, data, bytes, address, &got);
	return error ? error : got == bytes ? 0 : -EFAULT;
}

static int write_memory(const struct entering *e, uint64_t address, const void *data, size_t bytes)
{
	return io_pwrite(e->memory_fd, data, bytes, address);
}

/* One instruction, wherever it takes how many stops: the end of execve is one, SIGSTOP another. */
static int step(struct entering *e, struct user_regs_struct *registers)
{
	pid_t pid = e->options->pid;
	uint64_t from = registers->rip;
	for (int i = 0; i < STEPS_MAX; i++) {
		int stop;
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL))
			return -errno;
		int error = await_stop(pid, &stop);
		if (error)
			return error;
		e->stopped |= stop == SIGSTOP;
		if (ptrace(PTRACE_GETREGS, pid, NULL, registers))
			return -errno;
		if (registers->rip != from)
			return 0;
	}
	return -EIO;
}

/* call: number and arguments. */
static int remote_call(struct entering *e, const uint64_t call[7], int64_t *ret)
{
	struct user_regs_struct registers = e->registers;
	registers.orig_rax = UINT64_MAX; /* no system call to be begun again */
	registers.rax = call[0];
	registers.rdi = call[1];
	registers.rsi = call[2];
	registers.rdx = call[3];
	registers.r10 = call[4];
	registers.r8 = call[5];
	registers.r9 = call[6];
	if (ptrace(PTRACE_SETREGS, e->options->pid, NULL, &registers))
		return -errno;
	int error = step(e, &registers);
	if (!error)
		*ret = (int64_t)registers.rax;
	return error;
}

static int remote_map(struct entering *e, uint64_t address, uint64_t bytes, uint64_t *ret)
{
	uint64_t fixed = address ? MAP_FIXED_NOREPLACE : 0;
	const uint64_t call[7] = {SYS_mmap,
				  address,
				  bytes,
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | fixed,
				  UINT64_MAX,
				  0};
	int64_t result = 0;
	int error = remote_call(e, call, &result);
	if (error || result < 0)
		return error ? error : (int)result;
	*ret = (uint64_t)result;
	return address && *ret != address ? -EEXIST : 0;
}

static int remote_execute(struct entering *e, uint64_t address, uint64_t bytes)
{
	const uint64_t call[7] = {SYS_mprotect, address, bytes, PROT_READ | PROT_EXEC};
	int64_t result = 0;
	int error = remote_call(e, call, &result);
	return error ? error : (int)result;
}

/* ---- the steps ---- */

/* To the very end of execve, which sets rax behind our back otherwise. */
static int finish_exec(struct entering *e)
{
	pid_t pid = e->options->pid;
	int stop;
	do {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL))
			return -errno;
		int error = await_stop(pid, &stop);
		if (error)
			return error;
		e->stopped |= stop == SIGSTOP;
	} while ((stop & 0xff) != SIGTRAP);
	return ptrace(PTRACE_GETREGS, pid, NULL, &e->registers) ? -errno : 0;
}

/* What was sent to it meanwhile is its own again. */
static void restore_signals(const struct entering *e)
{
	pid_t pid = e->options->pid;
	ptrace(PTRACE_SETSIGMASK, pid, (void *)(long)KERNEL_MASK_BYTES, &e->mask);
	if (e->stopped)
		kill(pid, SIGSTOP);
}

static int begin(struct entering *e, struct tm_error *err)
{
	static const uint8_t call[SYSCALL_BYTES] = {0x0f, 0x05};
	const uint64_t all = UINT64_MAX;
	pid_t pid = e->options->pid;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
	e->memory_fd = open(path, O_RDWR | O_CLOEXEC);
	if (e->memory_fd < 0 ||
	    ptrace(PTRACE_GETSIGMASK, pid, (void *)(long)KERNEL_MASK_BYTES, &e->mask) ||
	    ptrace(PTRACE_SETSIGMASK, pid, (void *)(long)KERNEL_MASK_BYTES, &all))
		return tm_fail(err, -errno, "cannot enter the program: %s", strerror(errno));
	int error = finish_exec(e);
	if (!error)
		error = read_memory(e, e->registers.rip, e->code, sizeof e->code);
	if (!error)
		error = write_memory(e, e->registers.rip, call, sizeof call);
	if (!error)
		return 0;
	restore_signals(e);
	return tm_fail(err, error, "cannot enter the program: %s", strerror(-error));
}

/* The program goes on as if nothing had been. */
static void end(struct entering *e)
{
	pid_t pid = e->options->pid;
	if (write_memory(e, e->registers.rip, e->code, sizeof e->code))
		kill(pid, SIGKILL); /* its first instruction is not its own any more */
	ptrace(PTRACE_SETREGS, pid, NULL, &e->registers);
	restore_signals(e);
}

static int find_functions(struct entering *e, struct proc_maps *maps, struct tm_error *err)
{
	pid_t pid = e->options->pid;
	char path[64];
	struct plan_source source = {.what = PLAN_ALL | PLAN_SYSTEM | PLAN_EXEC,
				     .hooks = e->options->hooks};
	snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	const struct proc_map *map = proc_maps_find(maps, e->registers.rip);
	source.fd = open(path, O_RDONLY | O_CLOEXEC);
	int error = source.fd < 0 ? -errno : 0;
	if (!error)
		error = map ? plan_bias(source.fd, map->start, map->offset, &source.bias) : -EFAULT;
	if (!error)
		error = plan_new(&source, &e->plan, err);
	if (source.fd >= 0)
		close(source.fd);
	return error ? tm_fail(err, error, "cannot read the program: %s", strerror(-error)) : 0;
}

static int map_agent(struct entering *e, struct tm_error *err)
{
	int error = image_load(e->options->agent_path, &e->image, err);
	if (error)
		return error;
	error = remote_map(e, 0, e->image.count, &e->base);
	if (error)
		return tm_fail(err, error, "cannot map the agent into the program: %s",
			       strerror(-error));
	image_relocate(&e->image, e->base);
	error = write_memory(e, e->base, e->image.bytes, e->image.count);
	if (!error)
		error = remote_execute(e, e->base, e->image.data_start);
	return error ? tm_fail(err, error, "cannot write the agent into the program: %s",
			       strerror(-error))
		     : 0;
}

static int map_island(struct entering *e, const struct proc_maps *maps, struct tm_error *err)
{
	struct patch_room room;
	uint64_t got = 0, glue = e->base + image_symbol(&e->image, PATCH_GLUE_SYMBOL);
	int error = patch_room_init(&room, maps, e->registers.rip);
	uint64_t place = error ? 0 : patch_room_take(&room, e->plan);
	patch_room_done(&room);
	if (!place)
		return tm_fail(err, -ENOMEM, "no memory near the program's code is free");
	error = patch_place(e->plan, place, glue, &e->set, err);
	if (error)
		return error;
	error = remote_map(e, place, e->set->island_bytes, &got);
	if (!error)
		error = write_memory(e, place, e->set->island, e->set->island_bytes);
	if (!error)
		error = remote_execute(e, place, e->set->island_bytes);
	return error ? tm_fail(err, error, "cannot map memory near the program's code: %s",
			       strerror(-error))
		     : 0;
}

static int write_patches(const struct entering *e, struct tm_error *err)
{
	for (size_t i = 0; i < e->set->count; i++) {
		const struct patch *patch = &e->set->patches[i];
		int error = write_memory(e, patch->address, patch->new, sizeof patch->new);
		if (error)
			return tm_fail(err, error, "cannot patch the program: %s",
				       strerror(-error));
	}
	return 0;
}

/* A program that speaks for itself is heard before its first allocation. */
static void fill_table(const struct entering *e)
{
	struct {
		uint32_t version, bytes;
	} table = {0};
	uint64_t address = e->plan->api_table, event = image_symbol(&e->image, PATCH_API_SYMBOL);
	if (!address || !event || read_memory(e, address, &table, sizeof table) ||
	    table.version != 1 || table.bytes < sizeof table + sizeof event)
		return;
	event += e->base;
	/* It does without, if it must: the agent looks for tables itself when it begins. */
	if (write_memory(e, address + sizeof table, &event, sizeof event))
		return;
}

static int enter(struct entering *e, struct tm_error *err)
{
	struct proc_maps maps = {0};
	pid_t pid = e->options->pid;
	int error = proc_maps_read(pid, pid, &maps);
	if (error)
		return tm_fail(err, error, "cannot read the program's mappings: %s",
			       strerror(-error));
	error = find_functions(e, &maps, err);
	if (!error)
		error = map_agent(e, err);
	proc_maps_done(&maps);
	/* The agent takes room, too. */
	if (!error && proc_maps_read(pid, pid, &maps))
		error = tm_fail(err, -EIO, "cannot read the program's mappings");
	if (!error)
		error = map_island(e, &maps, err);
	proc_maps_done(&maps);
	if (!error)
		error = write_patches(e, err);
	if (!error)
		fill_table(e);
	return error;
}

int enter_program(const struct enter_options *options, struct tm_error *err)
{
	struct entering e = {.options = options, .memory_fd = -1};
	int error = begin(&e, err);
	if (!error) {
		error = enter(&e, err);
		end(&e);
	}
	patch_set_free(e.set);
	plan_free(e.plan);
	image_done(&e.image);
	if (e.memory_fd >= 0)
		close(e.memory_fd);
	return error;
}
