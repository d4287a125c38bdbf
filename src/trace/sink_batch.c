/* SPDX-License-Identifier: Apache-2.0 */
/* Batches for the writing thread, and what others may ask of it: see sink.h. */
#include "base/memory.h"
#include "trace/sink_state.h"

enum { SPARE_BYTES_MAX = 1 << 20 };

/*
 * A recording writes some hundred blocks of half a megabyte a second where it has much to
 * tell: memory for them goes back and forth. Which spares are for this type; NULL: none.
 */
static struct bytes *spares_of(struct sink *s, unsigned type)
{
	switch (type) {
	case FORMAT_EVENTS:
		return s->spares[0];
	case FORMAT_ADDRESSES:
		return s->spares[1];
	case FORMAT_ENDS:
		return s->spares[2];
	case FORMAT_SLICE:
		return s->spares[3];
	default:
		return NULL;
	}
}

static struct bytes take_spare(struct sink *s, unsigned type)
{
	struct bytes taken = {0}, *spares = spares_of(s, type);
	if (!spares)
		return taken;
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < SINK_SPARES && !taken.data; i++) {
		taken = spares[i];
		spares[i] = (struct bytes){0};
	}
	pthread_mutex_unlock(&s->lock);
	return taken;
}

static void give_spare(struct sink *s, unsigned type, struct bytes *raw)
{
	struct bytes *spares = spares_of(s, type);
	if (spares && raw->data && !raw->failed && raw->room <= SPARE_BYTES_MAX) {
		pthread_mutex_lock(&s->lock);
		for (int i = 0; i < SINK_SPARES && raw->data && !s->no_spares; i++) {
			if (spares[i].data)
				continue;
			spares[i] = (struct bytes){.data = raw->data, .room = raw->room};
			*raw = (struct bytes){0};
		}
		pthread_mutex_unlock(&s->lock);
	}
	bytes_done(raw);
}

void sink_drop_spares(struct sink *s)
{
	for (int kind = 0; kind < SINK_SPARE_KINDS; kind++)
		for (int i = 0; i < SINK_SPARES; i++)
			bytes_done(&s->spares[kind][i]);
}

struct sink_batch *sink_batch_new(struct sink *s)
{
	struct sink_batch *batch = tm_alloc(sizeof *batch);
	if (batch)
		batch->sink = s;
	return batch;
}

struct sink_part *sink_batch_add(struct sink_batch *batch, enum format_type type, uint32_t section)
{
	struct sink_part *part = &batch->parts[batch->count++];
	part->header = (struct format_block_header){.type = (uint8_t)type, .section = section};
	part->raw = take_spare(batch->sink, type);
	return part;
}

void sink_batch_drop(struct sink_batch *batch)
{
	struct sink_part *part = &batch->parts[--batch->count];
	give_spare(batch->sink, part->header.type, &part->raw);
}

struct sink_batch *sink_batch_free(struct sink_batch *batch)
{
	if (!batch)
		return NULL;
	while (batch->count)
		sink_batch_drop(batch);
	return tm_free(batch);
}

int sink_error(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->error);
}

bool sink_events_stopped(const struct sink *s)
{
	struct sink *of = (struct sink *)s;
	return atomic_load(&of->events_stopped) || atomic_load(&of->late);
}

bool sink_was_late(const struct sink *s)
{
	return atomic_load(&((struct sink *)s)->late);
}

pthread_t sink_thread(const struct sink *s)
{
	return s->thread;
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
