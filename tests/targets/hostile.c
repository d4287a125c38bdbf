/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that writes rubbish into the memory it shares with the profiler,
 * as a stray pointer would, and then ends at once with status 9. What becomes of
 * its own figures is its own fault; the collector must neither crash nor hang.
 *   hostile SEED WORDS SPAN   WORDS words at random places of the first SPAN KiB
 * Words are random, small, all ones, or indices near the plausible ones.
 */
#include "ledger.h"

static uint64_t dice = 88172645463325252ull;

static uint64_t roll(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	return dice ^= dice << 17;
}

static int read_maps(char *text, size_t room)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t got = 0;
	while (used + 1 < room && (got = read(fd, text + used, room - used - 1)) > 0)
		used += (size_t)got;
	text[used] = 0;
	return close(fd);
}

/* The first shared mapping of a memfd; 77 when there is none: not recorded. */
static uint64_t *find_shared(uint64_t *ret_bytes)
{
	static char text[1 << 16];
	read_maps(text, sizeof text);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *end = NULL;
		uint64_t from = strtoull(line, &end, 16), to = strtoull(end + 1, &end, 16);
		if (strstr(line, "memfd:") && !strncmp(end, " rw-s", 5)) {
			*ret_bytes = to - from;
			return (uint64_t *)(uintptr_t)from;
		}
	}
	_exit(77);
}

static uint64_t rubbish(void)
{
	uint64_t kind = roll() % 5;
	return kind == 0   ? roll()
	       : kind == 1 ? roll() % 300
	       : kind == 2 ? UINT64_MAX
	       : kind == 3 ? roll() % 300 << 32 | roll() % 300
			   : 0;
}

int main(int argc, char **argv)
{
	uint64_t bytes = 0;
	check(argc == 4, "usage: hostile SEED WORDS SPAN");
	dice += strtoull(argv[1], NULL, 10) * 7919;
	for (size_t i = 0; i < 3000; i++) {
		void *block = malloc(i);
		KEEP(block);
		if (i % 2)
			free(block);
	}
	uint64_t *shared = find_shared(&bytes);
	uint64_t span = strtoull(argv[3], NULL, 10) << 10, words = strtoull(argv[2], NULL, 10);
	if (span > bytes)
		span = bytes;
	for (uint64_t i = 0; i < words; i++)
		shared[roll() % (span / 8)] = rubbish();
	say("done\n");
	_exit(9);
}
