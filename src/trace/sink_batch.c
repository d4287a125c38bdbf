/* SPDX-License-Identifier: Apache-2.0 */
/* Batches for the writing thread, and what others may ask of it: see sink.h. */
#include "base/memory.h"
#include "trace/sink_state.h"

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

int sink_error(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->error);
}

bool sink_events_stopped(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->events_stopped);
}

uint64_t sink_bytes(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->bytes);
}

uint64_t sink_unstored(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->unstored);
}

bool sink_disk_low(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->disk_low);
}

bool sink_wants_slice(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->wants_slice);
}

uint64_t sink_covered(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->covered);
}

uint64_t sink_folded(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->folded);
}

uint64_t sink_since_ns(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->since_ns);
}

void sink_add_unstored(struct sink *s, uint64_t events)
{
	atomic_fetch_add(&s->unstored, events);
}
