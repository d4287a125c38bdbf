/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free space on the disk that a trace is written to. Before it is used up, what
 * takes most stops growing: the program under study needs the disk, too, and the
 * end of the trace must still fit.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct space {
	uint64_t next_ns, next_bytes; /* look again then */
};

/* What is left to everybody, and what must be; false: it cannot be told. */
bool space_left(int fd, uint64_t *ret_free_bytes, uint64_t *ret_reserve_bytes);
/* Whether it is short; `written` bytes are in the file. Asks the system seldom: else *low stays. */
void space_watch(struct space *space, int fd, uint64_t written, bool *low);
