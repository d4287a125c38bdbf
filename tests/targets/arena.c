/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills argv[1] MiB from malloc, then argv[2] MiB that nobody sees it ask for: a
 * program with an allocator of its own. With a third argument it says "blocks"
 * and "arena" after each, and goes on when it gets a byte.
 */
#include <sys/syscall.h>

#include "ledger.h"

static void fill(char *from, size_t bytes)
{
	check(from && from != MAP_FAILED, "no memory");
	for (size_t i = 0; i < bytes; i += 4096)
		((volatile char *)from)[i] = 1;
}

static void pause_after(const char *what, int waits)
{
	char letter;
	if (!waits)
		return;
	say(what);
	check(read(0, &letter, 1) == 1, "nobody answers");
}

int main(int argc, char **argv)
{
	check(argc > 2, "two sizes are needed");
	size_t blocks = strtoul(argv[1], NULL, 10) << 20, arena = strtoul(argv[2], NULL, 10) << 20;
	char *block = malloc(blocks);
	fill(block, blocks);
	pause_after("blocks\n", argc > 3);
	/* Not through the C library's mmap, which is recorded. */
	fill((char *)syscall(SYS_mmap, NULL, arena, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L),
	     arena);
	pause_after("arena\n", argc > 3);
	free(block);
	return 0;
}
