/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tick_store.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/memory.h"

enum { TICK_EVENTS = 2048, BYTES_MAX = 64 * 1024 * 1024, CHAINS = 256 };

struct tick_store {
	pthread_mutex_t lock;
	struct ticks *chains[CHAINS]; /* by first_event */
	uint64_t identity;
	uint32_t tick_events;
	size_t owners, bytes;
	uint64_t uses;
};

struct ticks *ticks_free(struct ticks *ticks)
{
	if (ticks) {
		tm_free(ticks->list);
		tm_free(ticks->rows);
	}
	return tm_free(ticks);
}

struct tick_store *tick_store_new(uint64_t identity, uint32_t tick_events)
{
	struct tick_store *store = tm_alloc(sizeof *store);
	if (!store)
		return NULL;
	pthread_mutex_init(&store->lock, NULL);
	store->tick_events = tick_events ? tick_events : TICK_EVENTS;
	store->identity = identity;
	store->owners = 1;
	return store;
}

struct tick_store *tick_store_share(struct tick_store *store)
{
	pthread_mutex_lock(&store->lock);
	store->owners++;
	pthread_mutex_unlock(&store->lock);
	return store;
}

struct tick_store *tick_store_free(struct tick_store *store)
{
	if (!store)
		return NULL;
	pthread_mutex_lock(&store->lock);
	bool last = --store->owners == 0;
	pthread_mutex_unlock(&store->lock);
	if (!last)
		return NULL;
	for (size_t i = 0; i < CHAINS; i++)
		while (store->chains[i]) {
			struct ticks *ticks = store->chains[i];
			store->chains[i] = ticks->next;
			ticks_free(ticks);
		}
	pthread_mutex_destroy(&store->lock);
	return tm_free(store);
}

uint64_t tick_store_identity(const struct tick_store *store)
{
	return store->identity;
}

uint32_t tick_store_events(const struct tick_store *store)
{
	return store->tick_events;
}

static size_t bytes_of(const struct ticks *ticks)
{
	return sizeof *ticks + ticks->count * sizeof *ticks->list +
	       ticks->row_count * sizeof *ticks->rows;
}

/* Blocks of events begin about a power of two apart. */
static struct ticks **chain_of(struct tick_store *store, uint64_t first_event)
{
	return &store->chains[(first_event * 0x9e3779b97f4a7c15ull >> 32) % CHAINS];
}

static struct ticks *find(struct tick_store *store, uint64_t first_event, uint64_t end_event,
			  bool rows)
{
	struct ticks *ticks = *chain_of(store, first_event);
	while (ticks && (ticks->first_event != first_event || ticks->end_event != end_event ||
			 (rows && !ticks->has_rows)))
		ticks = ticks->next;
	if (ticks) {
		ticks->users++;
		ticks->used = ++store->uses;
	}
	return ticks;
}

const struct ticks *tick_store_take(struct tick_store *store, uint64_t first_event,
				    uint64_t end_event, bool rows)
{
	pthread_mutex_lock(&store->lock);
	struct ticks *ticks = find(store, first_event, end_event, rows);
	pthread_mutex_unlock(&store->lock);
	return ticks;
}

/* The one that was not used for longest, taken out; NULL if all are in use. */
static struct ticks *take_oldest(struct tick_store *store)
{
	struct ticks **oldest = NULL;
	for (size_t i = 0; i < CHAINS; i++)
		for (struct ticks **at = &store->chains[i]; *at; at = &(*at)->next)
			if (!(*at)->users && (!oldest || (*at)->used < (*oldest)->used))
				oldest = at;
	if (!oldest)
		return NULL;
	struct ticks *ticks = *oldest;
	*oldest = ticks->next;
	store->bytes -= bytes_of(ticks);
	return ticks;
}

static void keep_within_limit(struct tick_store *store)
{
	while (store->bytes > BYTES_MAX) {
		struct ticks *oldest = take_oldest(store);
		if (!oldest)
			return;
		ticks_free(oldest);
	}
}

void tick_store_give(struct tick_store *store, const struct ticks *ticks)
{
	pthread_mutex_lock(&store->lock);
	((struct ticks *)ticks)->users--;
	keep_within_limit(store);
	pthread_mutex_unlock(&store->lock);
}

const struct ticks *tick_store_put(struct tick_store *store, struct ticks *ticks)
{
	pthread_mutex_lock(&store->lock);
	struct ticks *there = find(store, ticks->first_event, ticks->end_event, ticks->has_rows);
	if (!there) {
		struct ticks **chain = chain_of(store, ticks->first_event);
		ticks->users = 1;
		ticks->used = ++store->uses;
		ticks->next = *chain;
		*chain = ticks;
		store->bytes += bytes_of(ticks);
		keep_within_limit(store);
		there = ticks;
		ticks = NULL;
	}
	pthread_mutex_unlock(&store->lock);
	ticks_free(ticks); /* another thread was faster */
	return there;
}
