/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be attached to that maps memory and makes children when told "m":
 * four mappings of 3 MiB of which two are given back and one grows to 5 MiB, and
 * three children that allocate. Says "mapped" then; ends after any other byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, PIECES = 4, CHILDREN = 3 };

static long bad;

__attribute__((noinline)) void *map_piece(void)
{
	void *piece =
		mmap(NULL, 3 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bad += piece == MAP_FAILED;
	return piece;
}

__attribute__((noinline)) void *grow_piece(void *piece)
{
	void *grown = mremap(piece, 3 * MIB, 5 * MIB, MREMAP_MAYMOVE);
	bad += grown == MAP_FAILED;
	return grown;
}

static void map_memory(void)
{
	void *pieces[PIECES];
	for (int i = 0; i < PIECES; i++)
		pieces[i] = map_piece();
	bad += munmap(pieces[0], 3 * MIB) != 0;
	bad += munmap(pieces[1], 3 * MIB) != 0;
	pieces[2] = grow_piece(pieces[2]);
	memset(pieces[2], 1, 5 * MIB);
	bad += mprotect(pieces[3], MIB, PROT_READ) != 0;
	bad += madvise(pieces[2], MIB, MADV_DONTNEED) != 0;
	bad += *(char *)pieces[2] != 0 || mmap(NULL, 0, 0, 0, -1, 0) != MAP_FAILED;
}

static void make_child(void)
{
	int status = 0;
	pid_t child = fork();
	if (!child) {
		char *block = malloc(1000);
		char *moved = block ? realloc(block, 100000) : NULL;
		void *piece = map_piece();
		free(moved);
		_exit(moved && piece != MAP_FAILED ? 7 : 1);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		bad++;
}

int main(void)
{
	char byte;
	free(malloc(100));
	dprintf(1, "ready\n");
	while (read(0, &byte, 1) == 1 && byte == 'm') {
		map_memory();
		for (int i = 0; i < CHILDREN; i++)
			make_child();
		free(malloc(100));
		dprintf(1, "mapped\n");
	}
	dprintf(1, "bad=%ld\n", bad);
	return bad != 0;
}
