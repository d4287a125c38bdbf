/* SPDX-License-Identifier: Apache-2.0 */
#include "model/seed.h"

#include <time.h>

#include "base/hash.h"

uint64_t seed_make(const void *somewhere)
{
	struct timespec now = {0};
	(void)clock_gettime(CLOCK_REALTIME, &now);
	/* The heap's and the stack's places are random, too. */
	return hash_pair((uint64_t)now.tv_nsec << 34 ^ (uint64_t)now.tv_sec,
			 (uintptr_t)somewhere ^ (uintptr_t)&now << 20);
}
