/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask. A browser on this machine runs pages of strangers, and a page can
 * point a name of its own at 127.0.0.1 (DNS rebinding) or send requests to other
 * sites: so the Host must be one of ours, and an Origin, where there is one, must
 * be the same. Whoever comes from another machine must show the token.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { GUARD_TOKEN_CHARS = 32 };

struct guard {
	bool is_loopback;
	bool has_token;
	char token[GUARD_TOKEN_CHARS + 1];
	char own_name[256];   /* of this machine; "" = unknown */
	char allow_host[256]; /* "" = none */
};

/* The headers of a request that matter here; NULL = not there. */
struct guard_request {
	const char *host, *origin;
	const char *authorization; /* "Bearer TOKEN" */
	const char *cookie;        /* value of the cookie "tidemark_token" */
	const char *query_token;   /* ?token=... */
};

/* Fills the token with random letters and digits. False: the system gave none. */
bool guard_make_token(struct guard *guard);

/* NULL: may pass. Else the sentence of the refusal; *ret_status is 401 or 403. */
const char *guard_check(const struct guard *guard, const struct guard_request *request,
			unsigned *ret_status);

/* Whether two strings are equal, in a time that depends on the length of `a` only. */
bool guard_equal(const char *a, const char *b);
