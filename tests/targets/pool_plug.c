/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a pool: it speaks in its constructor already, and when it is used. */
#include "tidemark.h"

static struct tidemark_heap heap;
static char room[64][64];

void plug_use(int pieces);

__attribute__((constructor)) static void begin(void)
{
	tidemark_heap_register(&heap, "plug", NULL);
	for (int i = 0; i < 10; i++)
		tidemark_heap_alloc(&heap, room[i], 32);
}

void plug_use(int pieces)
{
	for (int i = 0; i < pieces; i++)
		tidemark_heap_alloc(&heap, room[10 + i], 64);
	for (int i = 0; i < pieces; i++)
		tidemark_heap_free(&heap, room[10 + i]);
}
