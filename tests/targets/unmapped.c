/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unmapped HOW: calls that take mapped memory away, and those that do not.
 *
 *   refused   munmap and mremap that fail: nothing is gone, and nothing came
 *   kept      mremap that leaves the old range mapped
 *
 * What stays mapped was mapped by keep_private() (KEPT pages) and by keep_file()
 * (one page). Ends with 77 where the kernel cannot do what is asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, KEPT = 25 };
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static char *volatile kept;
static void *volatile block;

__attribute__((noinline)) static char *keep_private(void)
{
	kept = mmap(NULL, KEPT * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (kept == MAP_FAILED)
		exit(1);
	return kept;
}

__attribute__((noinline)) static char *keep_file(const char *path)
{
	int fd = open(path, O_RDONLY);
	char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED)
		exit(1);
	close(fd);
	return mapped;
}

static void must_fail(int failed)
{
	if (!failed)
		exit(2);
}

static void refused(const char *path)
{
	char *private = keep_private(), *file = keep_file(path);
	must_fail(munmap((void *)-1, 1ul << 30));
	must_fail(munmap((void *)0x600000000001, 1ul << 31));
	must_fail(munmap(private + 1, PAGE));
	must_fail(munmap(file, 0));
	must_fail(munmap((void *)(1ul << 62), 1ul << 30));
	must_fail(munmap((void *)(1ul << 55), 1ul << 30));
	/* Neither may it move nor is there so much behind it: as a realloc tries it first. */
	must_fail(mremap(private, KEPT * PAGE, 1ul << 46, 0) == MAP_FAILED);
	must_fail(mremap(file, PAGE, 1ul << 46, 0) == MAP_FAILED);
	must_fail(mremap((void *)(1ul << 45), PAGE, 2 * PAGE, 0) == MAP_FAILED);
	/* Of the middle: two stacks' ranges would become one, or three. */
	must_fail(mremap(private + PAGE, PAGE, 2 * PAGE, 0) == MAP_FAILED);
}

static void keeps(void)
{
	char *old = keep_private();
	char *moved = mremap(old, KEPT * PAGE, KEPT * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
	if (moved == MAP_FAILED)
		exit(77);
	old[0] = 1; /* it is there */
	/* The old one alone goes. */
	if (munmap(old, KEPT * PAGE) || munmap(moved, PAGE))
		exit(1);
	char *shared =
		mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || mremap(shared, 0, 3 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED)
		exit(1);
	old = keep_private();
	if (mremap(old, KEPT * PAGE, KEPT * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0) ==
	    MAP_FAILED)
		exit(77);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 1;
	if (!strcmp(argv[1], "refused"))
		refused(argv[0]);
	else
		keeps();
	block = malloc(100);
	free(block);
	return 0;
}
