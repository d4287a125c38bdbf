/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the agent finds its collector: an abstract unix socket with a random
 * name, and a random token that shows it was told the name by us. Both are in
 * TIDEMARK_SESSION in the environment of the program.
 */
#pragma once

#include "base/error.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { RENDEZVOUS_TOKEN_BYTES = 32, RENDEZVOUS_SESSION_BYTES = 128 };

struct rendezvous {
	int fd; /* listens; for poll; -1 closed */
	char token[RENDEZVOUS_TOKEN_BYTES + 1];
	char session[RENDEZVOUS_SESSION_BYTES]; /* the value of TIDEMARK_SESSION */
};

/* Somebody who connected. */
struct rendezvous_peer {
	int fd;            /* for poll; -1 none */
	pid_t pid;         /* from the kernel, as this process sees it; 0: not visible from here */
	uint64_t since_ns; /* when it connected: it must say hello soon */
	size_t got;
	struct wire_hello hello;
};

/* session: a value of TIDEMARK_SESSION that somebody else has chosen; NULL: a new one. */
TM_MUST_CHECK int rendezvous_open(struct rendezvous *rendezvous, const char *session,
				  struct tm_error *err);
void rendezvous_close(struct rendezvous *rendezvous);

/* The next who knocks; -EAGAIN when nobody does, else -errno. Never blocks. */
TM_MUST_CHECK int rendezvous_accept(struct rendezvous *rendezvous,
				    struct rendezvous_peer *ret_peer);

/*
 * Reads the greeting as far as it has come. 1: it is complete and good. 0: more
 * must come. Negative: no friend (-EPROTO), or an agent of another version
 * (-EPROTONOSUPPORT): both versions are named in err; answer and close.
 */
int rendezvous_greet(const struct rendezvous *rendezvous, struct rendezvous_peer *peer,
		     struct tm_error *err);

/* Answers (accept with the memfd, or no with -1) and closes the connection. */
void rendezvous_answer(struct rendezvous_peer *peer, int memory_fd);
/* Yes to a question (WIRE_HELLO_EXEC, WIRE_HELLO_SPAWN): the connection stays. */
void rendezvous_consent(const struct rendezvous_peer *peer);
