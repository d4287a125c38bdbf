/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators that speak for themselves through include/tidemark.h: a pool on top
 * of malloc, one on a mapping, one on top of another, an arena that is dropped
 * whole. A byte that was handed on is counted by the last who has it, as the
 * ledger does here.
 *
 *   pools MODE   pieces, mapped, nested, arena, realloc, tags, all
 *   pools MODE listening   exits 3 if nobody listens by then
 */
#include "ledger.h"

#include "tidemark.h"

enum { CHUNK = 64 << 10, PIECES = 100, ROUNDS = 50 };

static struct tidemark_heap small = TIDEMARK_HEAP("small pieces", NULL);
static struct tidemark_heap large = TIDEMARK_HEAP("large", NULL);
static struct tidemark_heap inner = TIDEMARK_HEAP("inner", &small);
static struct tidemark_heap arena; /* registered at run time */

LEDGER_SITE(take_chunk);
LEDGER_SITE(take_small);
LEDGER_SITE(take_large);
LEDGER_SITE(take_inner);
LEDGER_SITE(take_arena);
LEDGER_SITE(grow_small);
LEDGER_SITE(take_none);
LEDGER_SITE(plain);

/* From the program's own malloc to the pool: from then on it is the pool's. */
SITE char *take_chunk(void)
{
	char *chunk = ledger_alloc(&take_chunk_site, malloc(CHUNK), CHUNK);
	ledger_free(&take_chunk_site, chunk, CHUNK);
	tidemark_heap_grow(&small, chunk, CHUNK);
	return chunk;
}

SITE void *take_small(char *at, size_t bytes)
{
	tidemark_heap_alloc(&small, at, bytes);
	KEEP(at);
	return ledger_alloc(&take_small_site, at, bytes);
}

SITE void *take_large(char *at, size_t bytes)
{
	tidemark_heap_alloc(&large, at, bytes);
	KEEP(at);
	return ledger_alloc(&take_large_site, at, bytes);
}

SITE void *take_inner(char *at, size_t bytes)
{
	tidemark_heap_alloc(&inner, at, bytes);
	KEEP(at);
	return ledger_alloc(&take_inner_site, at, bytes);
}

SITE void *take_arena(char *at, size_t bytes)
{
	tidemark_heap_alloc(&arena, at, bytes);
	KEEP(at);
	return ledger_alloc(&take_arena_site, at, bytes);
}

SITE void *grow_small(char *old, size_t old_bytes, char *at, size_t bytes)
{
	ledger_realloc(&take_small_site, old_bytes, &grow_small_site, at, bytes);
	tidemark_heap_realloc(&small, old, at, bytes);
	KEEP(at);
	return at;
}

SITE void *plain(size_t bytes)
{
	void *block = malloc(bytes);
	KEEP(block);
	return ledger_alloc(&plain_site, block, bytes);
}

static void drop_plain(void *block, size_t bytes)
{
	ledger_free(&plain_site, block, bytes);
	free(block);
}

/* The first piece begins where its chunk does. */
static void pieces(void)
{
	char *chunk = take_chunk(), *block = plain(1000);
	for (int i = 0; i < PIECES; i++)
		take_small(chunk + i * 64, 48);
	for (int i = 0; i < PIECES; i++) {
		ledger_free(&take_small_site, chunk + i * 64, 48);
		tidemark_heap_free(&small, chunk + i * 64);
	}
	free(chunk);
	drop_plain(block, 1000);
}

static void mapped(void)
{
	char *start =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	tidemark_heap_grow(&large, start, 1 << 20);
	for (int i = 0; i < PIECES; i++)
		take_large(start + i * 4096, 4096);
	for (int i = 0; i < PIECES; i++) /* munmap() ends what is left */
		ledger_free(&take_large_site, start + i * 4096, 4096);
	munmap(start, 1 << 20);
}

static void nested(void)
{
	char *chunk = take_chunk();
	char *piece = take_small(chunk, 8192);
	ledger_free(&take_small_site, piece, 8192);
	tidemark_heap_grow(&inner, piece, 8192);
	for (int i = 0; i < PIECES; i++)
		take_inner(piece + i * 16, 16);
	for (int i = 0; i < PIECES; i++)
		ledger_free(&take_inner_site, piece + i * 16, 16);
	tidemark_heap_free(&small, piece); /* ends the pieces of the inner heap */
	take_small(chunk, 8192);
	ledger_free(&take_small_site, chunk, 8192);
	free(chunk);
}

static void arenas(void)
{
	static char room[2][CHUNK];
	tidemark_heap_register(&arena, "arena", NULL);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PIECES; i++) {
			take_arena(room[0] + i * 128, 100);
			take_arena(room[1] + i * 128, 10);
		}
		for (int i = 0; i < PIECES; i++)
			ledger_free(&take_arena_site, room[0] + i * 128, 100);
		tidemark_heap_discard(&arena, room[0], CHUNK);
		for (int i = 0; i < PIECES; i++)
			ledger_free(&take_arena_site, room[1] + i * 128, 10);
		tidemark_heap_discard(&arena, NULL, 0);
	}
	take_arena(room[0], 77); /* stays */
}

SITE static void take_none(void)
{
	tidemark_heap_alloc(&small, NULL, 5000);
	ledger_alloc(&take_none_site, NULL, 5000);
}

static void reallocs(void)
{
	char *chunk = take_chunk();
	take_small(chunk, 10);
	grow_small(chunk, 10, chunk, 20);
	take_small(chunk + 64, 10);
	grow_small(chunk + 64, 10, chunk + 128, 200);
	ledger_free(&grow_small_site, chunk, 20);
	tidemark_heap_free(&small, chunk);
	ledger_free(&grow_small_site, chunk + 128, 200);
	tidemark_heap_free(&small, chunk + 128);
	take_none();
	free(chunk);
}

/* 30 blocks for one request, 10 of them as a part of it; 5 for another; 7 for none. */
static void tags(void)
{
	static char room[64 * 64];
	void *blocks[32];
	tidemark_tag("request", "GET /cart");
	for (int i = 0; i < 20; i++)
		blocks[i] = plain(100);
	tidemark_tag("component", "tax");
	for (int i = 0; i < 10; i++)
		take_large(room + i * 64, 40);
	tidemark_tag("component", NULL);
	tidemark_tag("request", "POST /order");
	for (int i = 20; i < 25; i++)
		blocks[i] = plain(100);
	tidemark_tag("request", NULL);
	for (int i = 25; i < 32; i++)
		blocks[i] = plain(100);
	for (int i = 32; i-- > 0;)
		drop_plain(blocks[i], 100);
	for (int i = 10; i-- > 0;) {
		ledger_free(&take_large_site, room + i * 64, 40);
		tidemark_heap_free(&large, room + i * 64);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"pieces", pieces}, {"mapped", mapped},    {"nested", nested},
		     {"arena", arenas},  {"realloc", reallocs}, {"tags", tags}};
	const char *mode = argc > 1 ? argv[1] : "all";
	ledger_open("");
	if (argc > 2 && !tidemark_is_listening())
		return 3;
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(mode, modes[i].name) || !strcmp(mode, "all"))
			modes[i].run();
	ledger_print("pools", LEDGER_EXACT | LEDGER_PEAK);
	return 0;
}
