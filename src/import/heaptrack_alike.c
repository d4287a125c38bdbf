/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that stand for the same size and stack: see heaptrack.h. */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "import/heaptrack.h"

static uint32_t *find(const struct heaptrack *h, uint32_t *slots, size_t room, uint32_t id)
{
	const struct heaptrack_info *wanted = &h->infos[id];
	size_t at = hash_pair(wanted->size_bytes, wanted->stack_id) & (room - 1);
	for (; slots[at]; at = (at + 1) & (room - 1)) {
		const struct heaptrack_info *have = &h->infos[slots[at] - 1];
		if (have->size_bytes == wanted->size_bytes && have->stack_id == wanted->stack_id)
			break;
	}
	return &slots[at];
}

static int make_room(struct heaptrack *h)
{
	struct heaptrack_alike *alike = &h->alike;
	if (alike->used < alike->room / 2)
		return 0;
	size_t room = alike->room ? alike->room * 2 : 1024;
	uint32_t *slots = tm_alloc_array(room, sizeof *slots);
	if (!slots)
		return heaptrack_no_memory(h);
	for (size_t i = 0; i < alike->room; i++)
		if (alike->slots[i])
			*find(h, slots, room, alike->slots[i] - 1) = alike->slots[i];
	tm_free(alike->slots);
	alike->slots = slots;
	alike->room = room;
	return 0;
}

/* The blocks of one info become another's. */
static void move_blocks(struct heaptrack *h, struct heaptrack_info *from, struct heaptrack_info *to)
{
	if (from == to || !from->top)
		return;
	uint32_t last = from->top - 1;
	while (heaptrack_node_at(h, last)->below)
		last = (uint32_t)heaptrack_node_at(h, last)->below - 1;
	heaptrack_node_at(h, last)->below = to->top;
	to->top = from->top;
	from->top = 0;
}

int heaptrack_alike_add(struct heaptrack *h, uint32_t id)
{
	struct heaptrack_alike *alike = &h->alike;
	void *grown = heaptrack_room(alike->first, id, &alike->first_room, sizeof *alike->first);
	if (!grown)
		return heaptrack_no_memory(h);
	alike->first = grown;
	int code = make_room(h);
	if (code)
		return code;
	uint32_t *slot = find(h, alike->slots, alike->room, id);
	if (!*slot) {
		*slot = id + 1;
		alike->used++;
	}
	alike->first[id] = *slot - 1;
	move_blocks(h, &h->infos[id], &h->infos[*slot - 1]);
	return 0;
}

int heaptrack_unite(struct heaptrack *h)
{
	int code = 0;
	for (size_t id = 0; id < h->info_count && !code; id++)
		code = heaptrack_alike_add(h, (uint32_t)id);
	return code;
}
