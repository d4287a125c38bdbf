/* SPDX-License-Identifier: Apache-2.0 */
/* Batches for the writing thread: see sink.h. */
#include "trace/sink.h"

#include "base/memory.h"

struct sink_batch *sink_batch_new(void)
{
	return tm_alloc(sizeof(struct sink_batch));
}

struct sink_part *sink_batch_add(struct sink_batch *batch, enum format_type type, uint32_t section)
{
	struct sink_part *part = &batch->parts[batch->count++];
	part->header = (struct format_block_header){.type = (uint8_t)type, .section = section};
	return part;
}

struct sink_batch *sink_batch_free(struct sink_batch *batch)
{
	if (!batch)
		return NULL;
	for (size_t i = 0; i < batch->count; i++)
		bytes_done(&batch->parts[i].raw);
	return tm_free(batch);
}
