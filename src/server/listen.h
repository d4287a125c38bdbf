/* SPDX-License-Identifier: Apache-2.0 */
/* "ADDRESS:PORT" to a socket that listens. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct listen_address {
	char host[64]; /* a numeric address, IPv6 without brackets */
	uint16_t port; /* 0 = any */
	bool is_ipv6;
	bool is_loopback;
};

/*
 * "127.0.0.1:8080", "[::1]:8080", "0.0.0.0", ":8080" and "8080" (both on 127.0.0.1), "localhost:0".
 * -EINVAL with a sentence.
 */
TM_MUST_CHECK int listen_parse(const char *text, struct listen_address *ret_address,
			       struct tm_error *err);

/*
 * A listening socket on the first free port of `ports` ones; address->port is
 * then the one it got. -EADDRINUSE when all are busy, or another -errno.
 */
TM_MUST_CHECK int listen_open(struct listen_address *address, uint32_t ports, int *ret_fd,
			      struct tm_error *err);
