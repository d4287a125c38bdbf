/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that wait to be sent: bounded in number and in bytes. Thread-safe. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PUSH_QUEUE_ITEMS = 32, PUSH_QUEUE_BYTES = 64 << 20 };

struct push_item {
	char *target, *body; /* tm_free() them */
	size_t bytes;
};
void push_item_done(struct push_item *item);

struct push_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct push_item items[PUSH_QUEUE_ITEMS]; /* a ring, the oldest at `first` */
	size_t first, count, bytes;
	bool is_closed;
};

void push_queue_init(struct push_queue *queue);
/* Nobody may wait for it any more. */
void push_queue_done(struct push_queue *queue);
/* Takes the item over. Returns how many older ones went to make room. */
size_t push_queue_put(struct push_queue *queue, const struct push_item *item);
/* Waits for the oldest; false: it is closed, and empty. */
bool push_queue_take(struct push_queue *queue, struct push_item *ret_item);
/* No more will come. */
void push_queue_close(struct push_queue *queue);
size_t push_queue_count(struct push_queue *queue);
