/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meeting the collector: TIDEMARK_SESSION names its socket; the session's
 * memory comes back as a descriptor, is mapped, and everything is closed again.
 */
#pragma once

#include "wire/page.h"
#include "wire/pool.h"

#include <stdbool.h>

enum { RENDEZVOUS_SESSION_BYTES = WIRE_PAGE_SESSION_BYTES };

/*
 * A connection, known again by its socket: while we wait, another thread of the
 * program may close whatever is open, and be given the number for its own.
 */
struct rendezvous_link {
	int fd;
	uint64_t socket; /* 0: not known */
};

/*
 * Calls the socket that `session` ("name:token") names. kind: enum
 * wire_hello_kind. The descriptor of the session's memory, or -1: unreachable, or
 * sent away.
 */
int rendezvous_call(const char *session, uint32_t kind);
/*
 * Asks for a program to be entered that is about to be executed (WIRE_HELLO_EXEC,
 * WIRE_HELLO_SPAWN). fd -1: it will not be. Else a connection that closes by the execution; if it
 * fails, or when the child was started: rendezvous_withdraw(). Only the stack is written to: a
 * child of vfork may.
 */
struct rendezvous_link rendezvous_ask(const char *session, uint32_t kind,
				      const struct wire_ask *ask);
void rendezvous_withdraw(struct rendezvous_link link);
/* Maps it and closes the descriptor; over the session before, if there was one. */
bool rendezvous_map(int fd, struct wire_map *ret_map);
