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
 * Calls the socket that `session` ("name:token") names. kind: enum
 * wire_hello_kind. The descriptor of the session's memory, or -1: unreachable, or
 * sent away.
 */
int rendezvous_call(const char *session, uint32_t kind);
/* Maps it and closes the descriptor; over the session before, if there was one. */
bool rendezvous_map(int fd, struct wire_map *ret_map);
