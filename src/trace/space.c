/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/space.h"

#include "base/clock.h"

#include <sys/statvfs.h>

#define RESERVE_MOST  (64ull << 20)
#define RESERVE_LEAST (4ull << 20) /* the journal, and what is on its way */
enum { RESERVE_PART = 20, RESERVE_PART_MOST = 3, LOOK_NS = 250 * 1000 * 1000 };

bool space_left(int fd, uint64_t *ret_free_bytes, uint64_t *ret_reserve_bytes)
{
	struct statvfs facts;
	if (fstatvfs(fd, &facts) || !facts.f_blocks)
		return false;
	uint64_t unit = facts.f_frsize ? facts.f_frsize : facts.f_bsize;
	uint64_t all = (uint64_t)facts.f_blocks * unit, reserve = all / RESERVE_PART;
	if (reserve > RESERVE_MOST)
		reserve = RESERVE_MOST;
	if (reserve < RESERVE_LEAST)
		reserve = RESERVE_LEAST < all / RESERVE_PART_MOST ? RESERVE_LEAST
								  : all / RESERVE_PART_MOST;
	*ret_free_bytes = (uint64_t)facts.f_bavail * unit;
	*ret_reserve_bytes = reserve;
	return true;
}

void space_watch(struct space *space, int fd, uint64_t written, bool *low)
{
	uint64_t now_ns = clock_steady_ns(), free_bytes, reserve_bytes;
	if (now_ns < space->next_ns && written < space->next_bytes)
		return;
	space->next_ns = now_ns + LOOK_NS;
	space->next_bytes = UINT64_MAX;
	if (!space_left(fd, &free_bytes, &reserve_bytes)) {
		*low = false;
		return;
	}
	/* Once it is short it stays so until there is twice as much: no to and fro. */
	*low = free_bytes < (*low ? 2 : 1) * reserve_bytes;
	if (free_bytes > reserve_bytes)
		space->next_bytes = written + (free_bytes - reserve_bytes) / 4 + reserve_bytes / 8;
}
