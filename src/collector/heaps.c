/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/heaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "collector/feed.h"

enum {
	HEAP_KEYS = 1 << (64 - WIRE_HEAP_SHIFT),
	PAGE_SHIFT = 12,
	PAGES_FIRST = 1024,
	REGIONS_FIRST = 64,
	FREES_AT_ONCE = 256,
};

/* A live block of a heap that discards; the others of its page follow. */
struct piece {
	uint64_t address; /* with the heap's key */
	uint32_t next;    /* index + 1; of a free piece: the next free one */
};

struct page {
	uint64_t number; /* address >> PAGE_SHIFT, + 1; 0: free place */
	uint32_t first;  /* piece index + 1; 0: none at present */
};

/* Memory of one heap that another hands out. */
struct region {
	uint64_t address; /* with the parent's key; 0: free place */
	uint64_t bytes;
	uint32_t key; /* of the heap that has it */
	bool mapped;  /* no block of malloc's, so a mapping */
};

struct heaps {
	uint64_t tracked[HEAP_KEYS / 64]; /* a bit per key */
	struct page *pages;
	struct piece *pieces;
	struct region *regions;
	size_t page_room, page_count; /* room: a power of two */
	size_t piece_room, piece_count;
	uint32_t free_piece;
	size_t region_room, region_count;
	size_t odd_count; /* mapped regions that do not begin with a page */
};

struct heaps *heaps_free(struct heaps *heaps)
{
	if (!heaps)
		return NULL;
	tm_free(heaps->pages);
	tm_free(heaps->pieces);
	tm_free(heaps->regions);
	return tm_free(heaps);
}

static struct heaps *heaps_new(void)
{
	struct heaps *heaps = tm_alloc(sizeof *heaps);
	if (!heaps)
		return NULL;
	heaps->page_room = PAGES_FIRST;
	heaps->region_room = REGIONS_FIRST;
	heaps->pages = tm_alloc_array(heaps->page_room, sizeof *heaps->pages);
	heaps->regions = tm_alloc_array(heaps->region_room, sizeof *heaps->regions);
	return heaps->pages && heaps->regions ? heaps : heaps_free(heaps);
}

/* The feed's, made if need be; NULL: no memory, which the feed then says. */
static struct heaps *heaps_of(struct feed *feed)
{
	if (!feed->heaps)
		feed->heaps = heaps_new();
	if (!feed->heaps)
		feed_out_of_memory(feed);
	return feed->heaps;
}

static bool is_tracked(const struct heaps *heaps, uint64_t key)
{
	return heaps->tracked[key / 64] >> key % 64 & 1;
}

/* ---- pieces by page ---- */

static struct page *find_page(const struct heaps *heaps, uint64_t number)
{
	size_t at = hash_u64(number) & (heaps->page_room - 1);
	while (heaps->pages[at].number && heaps->pages[at].number != number + 1)
		at = (at + 1) & (heaps->page_room - 1);
	return &heaps->pages[at];
}

/* Pages without pieces are left behind. */
static bool grow_pages(struct heaps *heaps)
{
	size_t old_room = heaps->page_room, used = 0;
	struct page *old = heaps->pages;
	for (size_t i = 0; i < old_room; i++)
		used += old[i].first != 0;
	size_t room = used * 4 > old_room ? old_room * 2 : old_room;
	struct page *grown = tm_alloc_array(room, sizeof *grown);
	if (!grown)
		return false;
	heaps->pages = grown;
	heaps->page_room = room;
	heaps->page_count = used;
	for (size_t i = 0; i < old_room; i++)
		if (old[i].first)
			*find_page(heaps, old[i].number - 1) = old[i];
	tm_free(old);
	return true;
}

static uint32_t take_piece(struct heaps *heaps)
{
	uint32_t index = heaps->free_piece;
	if (index) {
		heaps->free_piece = heaps->pieces[index - 1].next;
		return index;
	}
	if (heaps->piece_count == heaps->piece_room) {
		size_t room = heaps->piece_room ? heaps->piece_room * 2 : PAGES_FIRST;
		struct piece *grown = room < UINT32_MAX
					      ? tm_grow_array(heaps->pieces, room, sizeof *grown)
					      : NULL;
		if (!grown)
			return 0;
		heaps->pieces = grown;
		heaps->piece_room = room;
	}
	return (uint32_t)++heaps->piece_count;
}

static bool add_piece(struct heaps *heaps, uint64_t address)
{
	if (heaps->page_count * 2 >= heaps->page_room && !grow_pages(heaps))
		return false;
	struct page *page = find_page(heaps, address >> PAGE_SHIFT);
	uint32_t index = take_piece(heaps);
	if (!index)
		return false;
	heaps->page_count += !page->number;
	page->number = (address >> PAGE_SHIFT) + 1;
	heaps->pieces[index - 1] = (struct piece){.address = address, .next = page->first};
	page->first = index;
	return true;
}

static void remove_piece(struct heaps *heaps, uint64_t address)
{
	struct page *page = find_page(heaps, address >> PAGE_SHIFT);
	for (uint32_t *at = &page->first; *at; at = &heaps->pieces[*at - 1].next) {
		uint32_t index = *at;
		struct piece *piece = &heaps->pieces[index - 1];
		if (piece->address != address)
			continue;
		*at = piece->next;
		piece->next = heaps->free_piece;
		heaps->free_piece = index;
		return;
	}
}

/* After events were applied. */
static void note_events(struct feed *feed, const struct trace_event *events, size_t count)
{
	struct heaps *heaps = feed->heaps;
	for (size_t i = 0; i < count; i++) {
		uint64_t key = events[i].address >> WIRE_HEAP_SHIFT;
		if (!key || !is_tracked(heaps, key))
			continue;
		if (events[i].op != TRACE_ALLOC && events[i].op != TRACE_REALLOC_ALLOC)
			remove_piece(heaps, events[i].address);
		else if (!add_piece(heaps, events[i].address))
			feed_out_of_memory(feed);
	}
}

struct tracking {
	struct heaps *heaps;
	uint64_t key;
};

static int track_block(void *ctx, const struct model_block *block)
{
	const struct tracking *tracking = ctx;
	if (block->address >> WIRE_HEAP_SHIFT != tracking->key)
		return 0;
	return add_piece(tracking->heaps, block->address) ? 0 : -1;
}

/* From now on the heap's blocks are known by page. */
static void track(struct feed *feed, uint64_t key)
{
	struct tracking tracking = {.heaps = feed->heaps, .key = key};
	if (is_tracked(feed->heaps, key))
		return;
	feed->heaps->tracked[key / 64] |= 1ull << key % 64;
	if (model_live_blocks(feed->model, track_block, &tracking))
		feed_out_of_memory(feed);
}

/* ---- ending pieces ---- */

struct found {
	uint64_t *list;
	size_t count, room;
	bool failed;
};

static void collect_page(const struct heaps *heaps, const struct page *page, uint64_t first,
			 uint64_t last, struct found *found)
{
	for (uint32_t at = page->first; at; at = heaps->pieces[at - 1].next) {
		uint64_t address = heaps->pieces[at - 1].address;
		if (address < first || address > last)
			continue;
		if (found->count == found->room) {
			size_t room = found->room * 2 + FREES_AT_ONCE;
			uint64_t *grown = tm_grow_array(found->list, room, sizeof *grown);
			if (!grown) {
				found->failed = true;
				return;
			}
			found->list = grown;
			found->room = room;
		}
		found->list[found->count++] = address;
	}
}

/* Pieces from first to last, both keyed. Looks at the fewer: pages between, or pages there are. */
static void collect(const struct heaps *heaps, uint64_t first, uint64_t last, struct found *found)
{
	uint64_t from = first >> PAGE_SHIFT, to = last >> PAGE_SHIFT;
	if (to - from < heaps->page_room) {
		for (uint64_t number = from; number <= to; number++)
			collect_page(heaps, find_page(heaps, number), first, last, found);
		return;
	}
	for (size_t i = 0; i < heaps->page_room; i++)
		collect_page(heaps, &heaps->pages[i], first, last, found);
}

static int by_value(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

static void end_blocks(struct feed *feed, struct heaps_caller caller, const uint64_t *addresses,
		       size_t count)
{
	struct trace_event frees[FREES_AT_ONCE];
	for (size_t done = 0; done < count;) {
		size_t part = count - done < FREES_AT_ONCE ? count - done : FREES_AT_ONCE;
		for (size_t i = 0; i < part; i++)
			frees[i] = (struct trace_event){.time_ns = caller.time_ns,
							.address = addresses[done + i],
							.thread_id = caller.thread_id,
							.op = TRACE_FREE,
							.api = TRACE_API_CUSTOM};
		feed_apply(feed, frees, part);
		note_events(feed, frees, part);
		done += part;
	}
}

static void end_range(struct feed *feed, struct heaps_caller caller, uint64_t key, uint64_t start,
		      uint64_t bytes)
{
	struct found found = {0};
	uint64_t base = key << WIRE_HEAP_SHIFT, low = start & WIRE_ADDRESS_MASK;
	uint64_t high =
		bytes && bytes - 1 < WIRE_ADDRESS_MASK - low ? low + bytes - 1 : WIRE_ADDRESS_MASK;
	track(feed, key);
	collect(feed->heaps, base | low, base | high, &found);
	if (found.failed)
		feed_out_of_memory(feed);
	if (found.count)
		qsort(found.list, found.count, sizeof *found.list, by_value);
	end_blocks(feed, caller, found.list, found.count);
	tm_free(found.list);
}

void heaps_discard(struct feed *feed, struct heaps_caller caller, uint64_t key, uint64_t start,
		   uint64_t bytes)
{
	feed_flush(feed, true);
	if (key && key < HEAP_KEYS && heaps_of(feed))
		end_range(feed, caller, key, start, bytes);
}

/* ---- regions ---- */

static struct region *find_region(const struct heaps *heaps, uint64_t address)
{
	size_t at = hash_u64(address) & (heaps->region_room - 1);
	while (heaps->regions[at].address && heaps->regions[at].address != address)
		at = (at + 1) & (heaps->region_room - 1);
	return &heaps->regions[at];
}

static bool grow_regions(struct heaps *heaps)
{
	struct region *old = heaps->regions;
	size_t old_room = heaps->region_room;
	struct region *grown = tm_alloc_array(old_room * 2, sizeof *grown);
	if (!grown)
		return false;
	heaps->regions = grown;
	heaps->region_room = old_room * 2;
	for (size_t i = 0; i < old_room; i++)
		if (old[i].address)
			*find_region(heaps, old[i].address) = old[i];
	tm_free(old);
	return true;
}

static bool is_odd(const struct region *region)
{
	return region->mapped && region->address & ((1u << PAGE_SHIFT) - 1);
}

/* What follows in the same run of places moves up. */
static void drop_region(struct heaps *heaps, struct region *region)
{
	size_t mask = heaps->region_room - 1, at = (size_t)(region - heaps->regions);
	heaps->odd_count -= is_odd(region);
	heaps->regions[at] = (struct region){0};
	heaps->region_count--;
	for (at = (at + 1) & mask; heaps->regions[at].address; at = (at + 1) & mask) {
		struct region moved = heaps->regions[at];
		heaps->regions[at] = (struct region){0};
		*find_region(heaps, moved.address) = moved;
	}
}

/* The parent has it back: what is left of its pieces is gone. */
static void end_region(struct feed *feed, struct heaps_caller caller, struct region *region)
{
	struct region ended = *region;
	drop_region(feed->heaps, region);
	end_range(feed, caller, ended.key, ended.address, ended.bytes);
}

void heaps_grow(struct feed *feed, struct heaps_caller caller, const uint64_t keys[2],
		uint64_t start, uint64_t bytes)
{
	feed_flush(feed, true);
	struct heaps *heaps = heaps_of(feed);
	if (!heaps || !keys[0] || keys[0] >= HEAP_KEYS || keys[1] >= HEAP_KEYS || !start || !bytes)
		return;
	uint64_t address = (start & WIRE_ADDRESS_MASK) | keys[1] << WIRE_HEAP_SHIFT;
	if (heaps->region_count * 2 >= heaps->region_room && !grow_regions(heaps)) {
		feed_out_of_memory(feed);
		return;
	}
	bool live = model_is_live(feed->model, address);
	if (live)
		end_blocks(feed, caller, &address, 1);
	else if (!keys[1])
		feed_map_event(feed, &(struct trace_map_event){.op = TRACE_UNMAP,
							       .time_ns = caller.time_ns,
							       .thread_id = caller.thread_id,
							       .address = start,
							       .bytes = bytes});
	struct region *region = find_region(heaps, address);
	heaps->odd_count -= is_odd(region);
	heaps->region_count += !region->address;
	*region = (struct region){.address = address,
				  .bytes = bytes,
				  .key = (uint32_t)keys[0],
				  .mapped = !live && !keys[1]};
	heaps->odd_count += is_odd(region);
}

/* The next mapped region that begins in the range, or NULL. Few pages are looked up one by one. */
static struct region *find_mapped(const struct heaps *heaps, uint64_t start, uint64_t bytes)
{
	uint64_t first = start >> PAGE_SHIFT, last = (start + bytes - 1) >> PAGE_SHIFT;
	if (!heaps->odd_count && last - first < heaps->region_room) {
		for (uint64_t page = first; page <= last; page++) {
			struct region *region = find_region(heaps, page << PAGE_SHIFT);
			if (region->address && region->mapped)
				return region;
		}
		return NULL;
	}
	for (size_t i = 0; i < heaps->region_room; i++)
		if (heaps->regions[i].address && heaps->regions[i].mapped &&
		    heaps->regions[i].address - start < bytes)
			return &heaps->regions[i];
	return NULL;
}

void heaps_unmapped(struct feed *feed, struct heaps_caller caller, uint64_t start, uint64_t bytes)
{
	struct heaps *heaps = feed->heaps;
	struct region *region;
	if (!heaps || !heaps->region_count || !bytes || start > WIRE_ADDRESS_MASK ||
	    bytes > WIRE_ADDRESS_MASK)
		return;
	feed_flush(feed, true);
	while ((region = find_mapped(heaps, start, bytes)))
		end_region(feed, caller, region);
}

void heaps_apply(struct feed *feed, struct trace_event *events, size_t count)
{
	struct heaps *heaps = feed->heaps;
	size_t done = 0;
	for (size_t i = 0; i < count && heaps->region_count; i++) {
		const struct trace_event *event = &events[i];
		struct region *region = NULL;
		if (event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE)
			region = find_region(heaps, event->address);
		if (!region || !region->address)
			continue;
		struct heaps_caller caller = {event->time_ns, event->thread_id};
		feed_apply(feed, events + done, i - done);
		note_events(feed, events + done, i - done);
		end_region(feed, caller, region);
		done = event->op == TRACE_FREE ? i + 1 : i;
	}
	feed_apply(feed, events + done, count - done);
	note_events(feed, events + done, count - done);
}
