/* SPDX-License-Identifier: Apache-2.0 */
#include "server/push_queue.h"

#include "base/memory.h"

void push_item_done(struct push_item *item)
{
	item->target = tm_free(item->target);
	item->body = tm_free(item->body);
}

void push_queue_init(struct push_queue *queue)
{
	*queue = (struct push_queue){.count = 0};
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
}

static struct push_item take_first(struct push_queue *queue)
{
	struct push_item item = queue->items[queue->first];
	queue->first = (queue->first + 1) % PUSH_QUEUE_ITEMS;
	queue->count--;
	queue->bytes -= item.bytes;
	return item;
}

void push_queue_done(struct push_queue *queue)
{
	while (queue->count) {
		struct push_item item = take_first(queue);
		push_item_done(&item);
	}
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
}

/* One that is larger than the whole queue still goes in, alone. */
static bool has_room(const struct push_queue *queue, size_t bytes)
{
	return !queue->count ||
	       (queue->count < PUSH_QUEUE_ITEMS && queue->bytes + bytes <= PUSH_QUEUE_BYTES);
}

size_t push_queue_put(struct push_queue *queue, const struct push_item *item)
{
	size_t dropped = 0;
	pthread_mutex_lock(&queue->lock);
	for (; !has_room(queue, item->bytes); dropped++) {
		struct push_item oldest = take_first(queue);
		push_item_done(&oldest);
	}
	queue->items[(queue->first + queue->count++) % PUSH_QUEUE_ITEMS] = *item;
	queue->bytes += item->bytes;
	pthread_cond_signal(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	return dropped;
}

bool push_queue_take(struct push_queue *queue, struct push_item *ret_item)
{
	pthread_mutex_lock(&queue->lock);
	while (!queue->count && !queue->is_closed)
		pthread_cond_wait(&queue->changed, &queue->lock);
	bool has_one = queue->count > 0;
	if (has_one)
		*ret_item = take_first(queue);
	pthread_mutex_unlock(&queue->lock);
	return has_one;
}

void push_queue_close(struct push_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->is_closed = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

size_t push_queue_count(struct push_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	size_t count = queue->count;
	pthread_mutex_unlock(&queue->lock);
	return count;
}
