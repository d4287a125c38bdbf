/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrowing a thread of a process to have it carry out orders (wire/attach.h).
 *
 *	remote_borrow()    it stands still; its registers and signal mask are kept
 *	remote_system()    it makes one system call: for the first mapping
 *	remote_start()     it begins to serve the agent's block
 *	remote_order()     it does one thing
 *	remote_return()    it goes on where it was
 *
 * No signal is used, and none is raised: a process that ignores or blocks SIGTRAP
 * keeps doing so. If we die in between, the thread goes on by itself: at once
 * after remote_system() if `at` is a cave's code, else when it finds us gone.
 */
#pragma once

#include "base/error.h"
#include "inject/stop.h"
#include "wire/attach.h"

struct remote {
	struct stop *stop;
	pid_t tid;
	int memory_fd;  /* /proc/PID/mem; not ours */
	uint64_t block; /* address of the agent's block, once it is there */
	uint32_t seq;
	bool borrowed, serving;
	struct user_regs_struct registers; /* what it must find again */
	uint64_t mask;
};

/* tries other threads where one cannot be had. memory_fd: open for reading and writing. */
TM_MUST_CHECK int remote_borrow(struct remote *remote, struct stop *stop, int memory_fd,
				struct tm_error *err);
/* at: address of a `syscall` instruction, if possible that of cave.h. The result, or -errno, in
 * *ret. */
TM_MUST_CHECK int remote_system(struct remote *remote, uint64_t at,
				const uint64_t number_and_args[7], int64_t *ret,
				struct tm_error *err);
struct remote_start {
	uint64_t block;
	uint64_t entry;
	uint64_t data_start, data_bytes; /* to be made writable */
};
TM_MUST_CHECK int remote_start(struct remote *remote, const struct remote_start *start,
			       struct tm_error *err);
/* The order's result in *ret. */
TM_MUST_CHECK int remote_order(struct remote *remote, enum wire_attach_order order, uint64_t first,
			       uint64_t second, int64_t *ret, struct tm_error *err);
/* Stays seized. Accepts one that was not borrowed. */
void remote_return(struct remote *remote);

/* Memory of the process: all bytes or -errno. */
TM_MUST_CHECK int remote_read(int memory_fd, uint64_t address, void *data, size_t bytes);
TM_MUST_CHECK int remote_write(int memory_fd, uint64_t address, const void *data, size_t bytes);

/*
 * The registers with which a thread that was stopped with these goes on by
 * itself, without the kernel's help: a system call that was interrupted is begun
 * again.
 */
struct user_regs_struct remote_resumed(const struct user_regs_struct *registers);
