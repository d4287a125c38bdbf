/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remap ROUNDS: maps, reserves, commits, moves and unmaps memory all the time, as
 * runtimes with heaps of their own do, and prints what it counted: the most that
 * was committed and reserved at once, and how many calls mapped something.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PLACES = 64, PAGE = 4096, PAGES = 32 };

struct place {
	char *start;
	size_t pages;
	int reserved;
};

static struct place places[PLACES];
static size_t committed, reserved, committed_peak, reserved_peak;
static unsigned long calls;
static unsigned state = 1;
void *volatile kept;

static unsigned chance(unsigned below)
{
	state = state * 1103515245u + 12345u;
	return (state >> 16) % below;
}

static void count(const struct place *place, int sign)
{
	size_t *sum = place->reserved ? &reserved : &committed;
	*sum += (size_t)sign * place->pages * PAGE;
	committed_peak = committed > committed_peak ? committed : committed_peak;
	reserved_peak = reserved > reserved_peak ? reserved : reserved_peak;
}

static void map(struct place *place)
{
	place->pages = 1 + chance(PAGES);
	place->reserved = chance(5) == 0;
	place->start = mmap(NULL, place->pages * PAGE,
			    place->reserved ? PROT_NONE : PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place->start == MAP_FAILED)
		exit(1);
	calls++;
	count(place, 1);
}

static void move(struct place *place)
{
	size_t pages = 1 + chance(2 * PAGES);
	char *moved = mremap(place->start, place->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
	if (moved == MAP_FAILED)
		exit(1);
	count(place, -1);
	*place = (struct place){.start = moved, .pages = pages, .reserved = place->reserved};
	calls++;
	count(place, 1);
}

static void commit(struct place *place)
{
	if (mprotect(place->start, place->pages * PAGE, PROT_READ | PROT_WRITE))
		exit(1);
	count(place, -1);
	place->reserved = 0;
	count(place, 1);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1000;
	for (long i = 0; i < rounds; i++) {
		struct place *place = &places[chance(PLACES)];
		if (!place->start) {
			map(place);
		} else if (chance(20) == 0) {
			move(place);
		} else if (place->reserved && chance(2)) {
			commit(place);
		} else {
			munmap(place->start, place->pages * PAGE);
			count(place, -1);
			place->start = NULL;
		}
		if (i % 50 == 0) {
			kept = malloc(100);
			free(kept);
		}
	}
	printf("%zu %zu %lu\n", committed_peak, reserved_peak, calls);
	return 0;
}
