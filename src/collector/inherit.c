/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/inherit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

enum {
	WAIT_S = 2,
	KEPT_BLOCKS_MAX =
		8 * 1024 * 1024, /* of children that never come for them: exec'd at once */
};

struct inherit_set {
	struct inherit_set *next;   /* older */
	uint32_t thread_id;         /* of the parent's thread; until it is labelled */
	uint32_t pid;               /* 0: not yet labelled */
	struct trace_stack *stacks; /* [0] is stack 1 */
	size_t stack_count;
	struct trace_module *modules; /* [0] is module 1; paths owned */
	size_t module_count;
	struct model_block *blocks;
	size_t block_count, block_room;
};

struct inherit_box {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned owners;
	bool closed;
	struct inherit_set *newest;
};

struct inherit_set *inherit_set_free(struct inherit_set *set)
{
	if (!set)
		return NULL;
	for (size_t i = 0; i < set->module_count; i++)
		tm_free((char *)set->modules[i].path);
	tm_free(set->modules);
	tm_free(set->stacks);
	tm_free(set->blocks);
	return tm_free(set);
}

struct inherit_box *inherit_box_new(void)
{
	struct inherit_box *box = tm_alloc(sizeof *box);
	pthread_condattr_t steady;
	if (!box)
		return NULL;
	box->owners = 1;
	pthread_mutex_init(&box->lock, NULL);
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&box->changed, &steady);
	pthread_condattr_destroy(&steady);
	return box;
}

struct inherit_box *inherit_box_share(struct inherit_box *box)
{
	if (box) {
		pthread_mutex_lock(&box->lock);
		box->owners++;
		pthread_mutex_unlock(&box->lock);
	}
	return box;
}

static bool has_owners(struct inherit_box *box)
{
	pthread_mutex_lock(&box->lock);
	bool has = --box->owners > 0;
	pthread_mutex_unlock(&box->lock);
	return has;
}

struct inherit_box *inherit_box_free(struct inherit_box *box)
{
	if (!box || has_owners(box))
		return NULL;
	while (box->newest) {
		struct inherit_set *next = box->newest->next;
		inherit_set_free(box->newest);
		box->newest = next;
	}
	pthread_mutex_destroy(&box->lock);
	pthread_cond_destroy(&box->changed);
	return tm_free(box);
}

/* ---- the copy ---- */

static int add_block(void *ctx, const struct model_block *block)
{
	struct inherit_set *set = ctx;
	if (set->block_count == set->block_room) {
		size_t room = set->block_room ? set->block_room * 2 : 1024;
		struct model_block *grown = tm_grow_array(set->blocks, room, sizeof *grown);
		if (!grown)
			return -1;
		set->blocks = grown;
		set->block_room = room;
	}
	set->blocks[set->block_count++] = *block;
	return 0;
}

static int by_birth(const void *a, const void *b)
{
	uint64_t x = ((const struct model_block *)a)->block_id;
	uint64_t y = ((const struct model_block *)b)->block_id;
	return x < y ? -1 : x > y;
}

static bool copy_modules(struct inherit_set *set, const struct modules_seen *modules)
{
	set->modules = tm_alloc_array(modules->count, sizeof *set->modules);
	for (uint32_t id = 1; set->modules && id < modules->count; id++) {
		char *path = tm_strdup(modules->rows[id].path);
		if (!path)
			return false;
		set->modules[set->module_count] = modules->rows[id];
		set->modules[set->module_count++].path = path;
	}
	return set->modules != NULL;
}

static struct inherit_set *copy_feed(const struct feed *feed, uint32_t thread_id)
{
	struct inherit_set *set = tm_alloc(sizeof *set);
	size_t stack_count = feed->stacks.count - 1;
	if (!set)
		return NULL;
	set->thread_id = thread_id;
	set->stacks = tm_alloc_array(stack_count + 1, sizeof *set->stacks);
	if (set->stacks && copy_modules(set, &feed->modules) &&
	    !model_live_blocks(feed->model, add_block, set)) {
		memcpy(set->stacks, feed->stacks.rows + 1, stack_count * sizeof *set->stacks);
		set->stack_count = stack_count;
		qsort(set->blocks, set->block_count, sizeof *set->blocks, by_birth);
		return set;
	}
	return inherit_set_free(set);
}

/* Children that executed something else never come: the oldest copies go first. */
static void drop_oldest(struct inherit_box *box)
{
	size_t blocks = 0;
	for (struct inherit_set **at = &box->newest; *at;) {
		blocks += (*at)->block_count + 1;
		if (blocks <= KEPT_BLOCKS_MAX || at == &box->newest) {
			at = &(*at)->next;
			continue;
		}
		struct inherit_set *old = *at;
		*at = old->next;
		inherit_set_free(old);
	}
}

void inherit_box_put(struct inherit_box *box, const struct feed *feed, uint32_t thread_id)
{
	struct inherit_set *set = copy_feed(feed, thread_id);
	if (!set)
		return;
	pthread_mutex_lock(&box->lock);
	set->next = box->newest;
	box->newest = set;
	drop_oldest(box);
	pthread_mutex_unlock(&box->lock);
}

/* The newest copy with these marks, taken out of the list; NULL if there is none. */
static struct inherit_set *unlink_set(struct inherit_box *box, uint32_t thread_id, uint32_t pid)
{
	for (struct inherit_set **at = &box->newest; *at; at = &(*at)->next) {
		struct inherit_set *set = *at;
		if (set->pid == pid && (pid || set->thread_id == thread_id)) {
			*at = set->next;
			set->next = NULL;
			return set;
		}
	}
	return NULL;
}

void inherit_box_label(struct inherit_box *box, uint32_t thread_id, uint32_t pid)
{
	pthread_mutex_lock(&box->lock);
	struct inherit_set *set = unlink_set(box, thread_id, 0);
	if (set && pid) {
		set->pid = pid;
		set->next = box->newest;
		box->newest = set;
		pthread_cond_broadcast(&box->changed);
		set = NULL;
	}
	pthread_mutex_unlock(&box->lock);
	inherit_set_free(set);
}

void inherit_box_close(struct inherit_box *box)
{
	pthread_mutex_lock(&box->lock);
	box->closed = true;
	pthread_cond_broadcast(&box->changed);
	pthread_mutex_unlock(&box->lock);
}

struct inherit_set *inherit_box_take(struct inherit_box *box, uint32_t pid)
{
	struct timespec deadline;
	struct inherit_set *set;
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += WAIT_S;
	pthread_mutex_lock(&box->lock);
	while (!(set = unlink_set(box, 0, pid)) && !box->closed)
		if (pthread_cond_timedwait(&box->changed, &box->lock, &deadline))
			break;
	pthread_mutex_unlock(&box->lock);
	return set;
}

/* ---- the child ---- */

void inherit_set_sums(const struct inherit_set *set, uint64_t *ret_blocks, uint64_t *ret_bytes)
{
	*ret_blocks = *ret_bytes = 0;
	for (size_t i = 0; i < set->block_count; i++) {
		struct trace_weight weight = trace_weigh(set->blocks[i].size_bytes, i);
		*ret_blocks += weight.count;
		*ret_bytes += weight.bytes;
	}
}

uint64_t inherit_set_interval(const struct inherit_set *set)
{
	unsigned most = 0;
	for (size_t i = 0; i < set->block_count; i++) {
		unsigned log2 = trace_word_interval_log2(set->blocks[i].size_bytes);
		most = log2 > most ? log2 : most;
	}
	return most ? 1ull << most : 0;
}

void inherit_apply(const struct inherit_set *set, struct feed *feed, uint32_t tid)
{
	for (size_t i = 0; i < set->module_count; i++)
		modules_seen_adopt(&feed->modules, &set->modules[i]);
	for (size_t i = 0; i < set->stack_count; i++) {
		uint32_t id;
		if (stack_ids_add(&feed->stacks, &set->stacks[i], &id))
			return;
	}
	uint32_t thread_id = feed_thread(feed, tid, 0);
	for (size_t i = 0; i < set->block_count; i++) {
		const struct model_block *block = &set->blocks[i];
		*feed_place(feed, thread_id) = (struct trace_event){.op = TRACE_ALLOC,
								    .address = block->address,
								    .size_bytes = block->size_bytes,
								    .block_id = TRACE_NO_BLOCK,
								    .stack_id = block->stack_id,
								    .thread_id = thread_id};
	}
	feed_flush(feed, true);
}
