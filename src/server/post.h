/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending something to an address by HTTP: one request, one answer, one
 * connection. Plain HTTP only; whoever needs encryption has a proxy on this
 * machine do it. Every wait has an end, and can be broken off.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { POST_HOST_BYTES = 256, POST_TARGET_BYTES = 2048 };

struct post_url {
	char host[POST_HOST_BYTES];           /* name or number, without brackets */
	char authority[POST_HOST_BYTES + 10]; /* as the header Host has it */
	char port[8];
	char target[POST_TARGET_BYTES]; /* path and query; at least "/" */
};

/* -EINVAL with a sentence that says what to write instead. */
TM_MUST_CHECK int post_url_parse(const char *text, struct post_url *ret_url, struct tm_error *err);

struct post {
	const struct post_url *url;
	const char *target; /* in place of url->target; clean of blanks and control characters */
	const char *type;   /* of the content */
	const void *body;
	size_t bytes;
	uint32_t timeout_ms; /* for all of it, but for looking up the name */
	int cancel_fd;       /* when readable, it breaks off; -1 = never */
};

/*
 * 0: an answer came, *ret_status is its number, of whatever kind. Else what went
 * wrong: -ECANCELED, -ETIMEDOUT, -EPROTO (no HTTP), or what the network says.
 */
TM_MUST_CHECK int post_send(const struct post *post, int *ret_status, struct tm_error *err);
