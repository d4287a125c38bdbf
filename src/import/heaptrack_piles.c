/* SPDX-License-Identifier: Apache-2.0 */
/* Live blocks of one size and stack: see heaptrack.h. */
#include <errno.h>

#include "base/memory.h"
#include "import/heaptrack.h"

static int make_nodes(struct heaptrack *h)
{
	uint32_t chunk = h->node_end >> HEAPTRACK_CHUNK_LOG2;
	if (chunk >= HEAPTRACK_CHUNKS_MAX)
		return tm_fail(h->err, -EFBIG, "the file has too many live blocks");
	h->nodes[chunk] = tm_alloc_array(HEAPTRACK_CHUNK, sizeof **h->nodes);
	return h->nodes[chunk] ? 0 : heaptrack_no_memory(h);
}

static int add_node(struct heaptrack *h, struct heaptrack_info *info, uint64_t block_id)
{
	uint32_t number;
	if (h->free_node) {
		number = h->free_node - 1;
		h->free_node = heaptrack_node_at(h, number)->below;
	} else {
		number = h->node_end;
		if (number % HEAPTRACK_CHUNK == 0 && make_nodes(h))
			return h->err->code;
		h->node_end++;
	}
	struct heaptrack_node *node = heaptrack_node_at(h, number);
	node->block_id = block_id;
	node->below = info->top;
	node->used = 0;
	info->top = number + 1;
	return 0;
}

static size_t step_bytes(uint64_t step)
{
	size_t bytes = 1;
	while (step >>= 7)
		bytes++;
	return bytes;
}

int heaptrack_push(struct heaptrack *h, struct heaptrack_info *info, uint64_t block_id)
{
	if (!info->top)
		return add_node(h, info, block_id);
	struct heaptrack_node *node = heaptrack_node_at(h, info->top - 1);
	uint64_t step = block_id - node->block_id;
	size_t bytes = step_bytes(step);
	if (node->used + bytes > HEAPTRACK_STEP_BYTES)
		return add_node(h, info, block_id);
	node->steps[node->used++] = (uint8_t)(step & 0x7f);
	while (step >>= 7)
		node->steps[node->used++] = (uint8_t)(step & 0x7f) | 0x80;
	node->block_id = block_id;
	return 0;
}

uint64_t heaptrack_pop(struct heaptrack *h, struct heaptrack_info *info)
{
	uint32_t number = info->top - 1;
	struct heaptrack_node *node = heaptrack_node_at(h, number);
	uint64_t block_id = node->block_id, step = 0;
	if (!node->used) {
		info->top = node->below;
		node->below = h->free_node;
		h->free_node = number + 1;
		return block_id;
	}
	uint8_t byte;
	do {
		byte = node->steps[--node->used];
		step = step << 7 | (byte & 0x7f);
	} while (byte & 0x80);
	node->block_id -= step;
	return block_id;
}

void heaptrack_piles_done(struct heaptrack *h)
{
	for (size_t i = 0; i < HEAPTRACK_CHUNKS_MAX; i++)
		tm_free(h->nodes[i]);
}
