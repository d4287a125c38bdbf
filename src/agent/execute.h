/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a program is executed: is it one that no loader brings us into
 * (statically linked)? Then the collector is asked to enter it at its first
 * instruction. Everything here writes to the stack alone, because a child of
 * vfork comes by; and to little of it (1 KiB where the path is given): musl's
 * posix_spawn gives its child 5 KiB.
 */
#pragma once

#include "agent/rendezvous.h"

#include <stdbool.h>
#include <stdint.h>

struct execute_request {
	const char *file;
	bool by_fd; /* it is fd instead */
	int fd;
	bool search;       /* in PATH, unless the name has a slash */
	bool spawn;        /* in a child */
	char *const *envp; /* what it will find; may be NULL, or wrong */
};

/* fd -1: nothing is to be done. Give it to execute_over() if the call returns. */
struct rendezvous_link execute_ask(const struct execute_request *request);
void execute_over(struct rendezvous_link asked);
