/* SPDX-License-Identifier: Apache-2.0 */
/* An arena of texts: see the header. */
#include "trace/texts.h"

#include "base/memory.h"

#include <string.h>

enum { TEXTS_CHUNK_BYTES = 16384 };

struct texts_chunk {
	struct texts_chunk *next;
	size_t used, room;
	char data[];
};

static struct texts_chunk *grow(struct texts *t, size_t need)
{
	size_t room = need > TEXTS_CHUNK_BYTES ? need : TEXTS_CHUNK_BYTES;
	struct texts_chunk *chunk = tm_grow_array(NULL, sizeof *chunk + room, 1);
	if (!chunk) {
		t->failed = true;
		return NULL;
	}
	*chunk = (struct texts_chunk){.next = t->chunks, .room = room};
	t->chunks = chunk;
	return chunk;
}

const char *texts_add(struct texts *t, const char *text, size_t length)
{
	struct texts_chunk *chunk = t->chunks;
	if (!chunk || chunk->room - chunk->used < length + 1)
		chunk = grow(t, length + 1);
	if (!chunk)
		return NULL;
	char *copy = chunk->data + chunk->used;
	memcpy(copy, text, length);
	copy[length] = '\0';
	chunk->used += length + 1;
	return copy;
}

void texts_done(struct texts *t)
{
	while (t->chunks) {
		struct texts_chunk *next = t->chunks->next;
		tm_free(t->chunks);
		t->chunks = next;
	}
	t->failed = false;
}
