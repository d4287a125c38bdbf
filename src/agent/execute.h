/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a program is executed: is it one that no loader brings us into
 * (statically linked)? Then the collector is asked to enter it at its first
 * instruction. Has its environment lost us? Then we are put back (preload.h). Can
 * it not be recorded at all? Then the collector is told why. Everything here
 * writes to the stack alone, because a child of vfork comes by; and to little of
 * it (2 KiB where the path is given and the environment is whole): musl's
 * posix_spawn gives its child 5 KiB.
 */
#pragma once

#include "agent/rendezvous.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct execute_request {
	const char *file;
	bool by_fd; /* it is fd instead */
	int fd;
	bool search;       /* in PATH, unless the name has a slash */
	bool spawn;        /* in a child */
	char *const *envp; /* what it will find; may be NULL, or wrong */
	bool mended;       /* envp is ours, and to be given to the real function */
	/* execute.c's own */
	int kind;
	struct rendezvous_link asked;
};

/* Bytes that execute_ask() is to be given, of the caller's stack; 0: none. */
size_t execute_look(struct execute_request *request);
/* fd -1: nothing is to be done. Give it to execute_over() if the call returns. */
struct rendezvous_link execute_ask(struct execute_request *request, void *memory, size_t room);
void execute_over(struct rendezvous_link asked);
