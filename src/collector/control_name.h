/* SPDX-License-Identifier: Apache-2.0 */
/* The names of control sockets, which both sides know. */
#pragma once

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Then the user's number, the pid, and something random. */
#define CONTROL_PREFIX "tidemark-ctl-"

static inline socklen_t control_address(const char *name, struct sockaddr_un *ret)
{
	size_t bytes = strlen(name);
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (bytes > sizeof ret->sun_path - 1)
		bytes = sizeof ret->sun_path - 1;
	memcpy(ret->sun_path + 1, name, bytes); /* a leading NUL makes it abstract */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}
