/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/extra.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "model/resume.h"

enum {
	BUILD_ID_MAX = 64,
	PATH_BYTES_MAX = 4096,
};

/* An event, copied out of shared memory. */
struct copied {
	uint64_t words[WIRE_EXTRA_WORDS_MAX - 2];
	unsigned count; /* payload words */
	uint64_t time_ns;
	struct cursor *cursor;
};

static void take_module(struct extra *extra, const struct copied *in)
{
	struct wire_ev_module head;
	if (in->count * 8 < sizeof head) {
		extra->feed->bad_events++;
		return;
	}
	memcpy(&head, in->words, sizeof head);
	size_t id_bytes = head.build_id_bytes, path_bytes = head.path_bytes;
	size_t id_padded = (id_bytes + 7) & ~(size_t)7;
	size_t room = in->count * 8 - sizeof head;
	if (id_bytes > BUILD_ID_MAX || path_bytes > PATH_BYTES_MAX ||
	    id_padded + path_bytes > room || head.start > head.end) {
		extra->feed->bad_events++;
		return;
	}
	const char *tail = (const char *)in->words + sizeof head;
	struct trace_module facts = {
		.bias = head.bias,
		.start = head.start,
		.end = head.end,
		.mapped_ns = in->time_ns,
		.build_id_bytes = (uint32_t)id_bytes,
	};
	memcpy(facts.build_id, tail, id_bytes);
	const char *path = tail + id_padded;
	path_bytes = strnlen(path, path_bytes);
	char whole[2 * PATH_BYTES_MAX];
	if (path_bytes && *path != '/' && *path != '[' && extra->folder && *extra->folder) {
		int length = snprintf(whole, sizeof whole, "%s/%.*s", extra->folder,
				      (int)path_bytes, path);
		if (length > 0 && (size_t)length < sizeof whole) {
			path = whole;
			path_bytes = (size_t)length;
		}
	}
	modules_seen_add(&extra->feed->modules,
			 head.instance > UINT32_MAX ? 0 : (uint32_t)head.instance, &facts, path,
			 path_bytes);
}

static uint32_t stack_of(struct extra *extra, uint32_t node)
{
	return node ? feed_stack(extra->feed, node) : 0;
}

static void put_map(struct extra *extra, const struct copied *in, struct trace_map_event event)
{
	event.time_ns = in->time_ns;
	event.thread_id = in->cursor->thread_id;
	feed_map_event(extra->feed, &event);
}

static void take_map(struct extra *extra, const struct copied *in, uint64_t moved_from)
{
	struct wire_ev_map map;
	memcpy(&map, in->words, sizeof map);
	bool file = (uint32_t)map.node_and_fd != 0 && !(map.flags & MAP_ANONYMOUS);
	put_map(extra, in,
		(struct trace_map_event){
			.op = TRACE_MAP,
			.address = map.address,
			.bytes = map.bytes,
			.moved_from = moved_from,
			.stack_id = stack_of(extra, (uint32_t)(map.node_and_fd >> 32)),
			.prot_or_advice = map.prot,
			.flags = (map.flags & ~(TRACE_MAP_FILE | TRACE_MAP_RESTATED)) |
				 (file ? TRACE_MAP_FILE : 0),
		});
}

static struct heaps_caller caller_of(const struct copied *in)
{
	return (struct heaps_caller){.time_ns = in->time_ns, .thread_id = in->cursor->thread_id};
}

static int keep_map(void *ctx, const struct trace_map_event *event)
{
	struct extra_unmapped *unmapped = ctx;
	if (unmapped->count == unmapped->room) {
		size_t room = unmapped->room ? unmapped->room * 2 : 4;
		struct trace_map_event *grown = tm_grow_array(unmapped->maps, room, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		unmapped->maps = grown;
		unmapped->room = room;
	}
	unmapped->maps[unmapped->count++] = *event;
	return 0;
}

/* The call that this thread is in; NULL: none is known. */
static struct extra_unmapped *unmapped_by(struct extra *extra, uint32_t thread_id)
{
	for (unsigned i = 0; i < EXTRA_UNMAPPING; i++)
		if (extra->unmapped[i].thread_id == thread_id && extra->unmapped[i].bytes)
			return &extra->unmapped[i];
	return NULL;
}

/* What it takes away: it may fail. Without memory less of it comes back. */
static void keep_unmapped(struct extra *extra, const struct copied *in)
{
	uint32_t thread_id = in->cursor->thread_id;
	struct extra_unmapped *unmapped = unmapped_by(extra, thread_id);
	if (!unmapped)
		unmapped = &extra->unmapped[extra->unmapped_next++ % EXTRA_UNMAPPING];
	unmapped->thread_id = thread_id;
	unmapped->address = in->words[0];
	unmapped->bytes = in->words[1];
	unmapped->count = 0;
	resume_maps_within(extra->feed->model, in->words[0], in->words[1], keep_map, unmapped);
}

static void take_unmap(struct extra *extra, const struct copied *in)
{
	keep_unmapped(extra, in);
	heaps_unmapped(extra->feed, caller_of(in), in->words[0], in->words[1]);
	put_map(extra, in,
		(struct trace_map_event){
			.op = TRACE_UNMAP, .address = in->words[0], .bytes = in->words[1]});
}

/* The call failed: what was taken away before it is there again, and nothing else. */
static void take_unmap_undo(struct extra *extra, const struct copied *in)
{
	struct extra_unmapped *unmapped = unmapped_by(extra, in->cursor->thread_id);
	if (!unmapped || unmapped->address != in->words[0] || unmapped->bytes != in->words[1])
		return;
	for (size_t i = 0; i < unmapped->count; i++)
		put_map(extra, in, unmapped->maps[i]);
	unmapped->bytes = 0;
}

void extra_take_over(struct extra *extra, struct extra *before)
{
	for (unsigned i = 0; i < EXTRA_UNMAPPING; i++) {
		extra->unmapped[i] = before->unmapped[i];
		before->unmapped[i] = (struct extra_unmapped){0};
	}
	extra->unmapped_next = before->unmapped_next;
}

void extra_done(struct extra *extra)
{
	for (unsigned i = 0; i < EXTRA_UNMAPPING; i++)
		tm_free(extra->unmapped[i].maps);
}

static void take_range(struct extra *extra, const struct copied *in, enum trace_map_op op)
{
	put_map(extra, in,
		(struct trace_map_event){.op = (uint8_t)op,
					 .address = in->words[0],
					 .bytes = in->words[1],
					 .prot_or_advice = (uint32_t)in->words[2]});
}

static void take_brk(struct extra *extra, const struct copied *in)
{
	put_map(extra, in,
		(struct trace_map_event){.op = TRACE_MAP_BRK,
					 .address = in->words[0],
					 .bytes = in->words[1],
					 .stack_id = stack_of(extra, (uint32_t)in->words[2])});
}

static void take_fork(struct extra *extra, const struct copied *in, bool done)
{
	uint32_t pid = done ? (uint32_t)in->words[0] : 0;
	extra->forks += pid != 0;
	if (!extra->fork)
		return;
	feed_flush(extra->feed, true);
	extra->fork(extra->ctx, in->cursor->thread_id, pid, done);
}

/* The first that there is room for; an allocator is told of once. */
static void take_unhooked(struct extra *extra, const struct copied *in)
{
	char text[sizeof extra->unhooked] = "";
	size_t at = strlen(extra->unhooked), bytes = in->count * 8;
	memcpy(text, in->words, bytes < sizeof text ? bytes : sizeof text - 1);
	size_t length = strlen(text), gap = at ? 2 : 0;
	if (strstr(extra->unhooked, text) || at + gap + length >= sizeof extra->unhooked)
		return;
	memcpy(extra->unhooked + at, ". ", gap);
	memcpy(extra->unhooked + at + gap, text, length + 1);
}

/* The program names this moment. Control characters are the reader's business. */
static void take_mark(struct extra *extra, const struct copied *in)
{
	char text[TRACE_MOMENT_TEXT_MAX + 1];
	size_t bytes = in->count * 8;
	if (bytes >= sizeof text)
		bytes = sizeof text - 1;
	memcpy(text, in->words, bytes);
	text[bytes] = '\0';
	feed_moment(extra->feed, &(struct trace_moment){.time_ns = in->time_ns,
							.kind = TRACE_MOMENT_MARK,
							.text = text});
}

static void take_kind(struct extra *extra, enum wire_extra kind, const struct copied *in)
{
	switch (kind) {
	case WIRE_EV_MODULE:
		take_module(extra, in);
		break;
	case WIRE_EV_UNMODULE:
		modules_seen_gone(&extra->feed->modules, (uint32_t)in->words[0], in->time_ns);
		break;
	case WIRE_EV_THREAD_NAME:
		feed_thread_name(extra->feed, in->cursor->thread_id, (const char *)in->words);
		break;
	case WIRE_EV_MMAP:
		take_map(extra, in, 0);
		break;
	case WIRE_EV_MUNMAP:
	case WIRE_EV_MREMAP_BEGIN:
		take_unmap(extra, in);
		break;
	case WIRE_EV_MUNMAP_FAIL:
	case WIRE_EV_MREMAP_FAIL:
		take_unmap_undo(extra, in);
		break;
	case WIRE_EV_MREMAP_END:
		take_map(extra, in, in->words[5]);
		break;
	case WIRE_EV_MPROTECT:
		take_range(extra, in, TRACE_MAP_PROTECT);
		break;
	case WIRE_EV_MADVISE:
		take_range(extra, in, TRACE_MAP_ADVISE);
		break;
	case WIRE_EV_BRK:
		take_brk(extra, in);
		break;
	case WIRE_EV_FORK:
	case WIRE_EV_FORKED:
		take_fork(extra, in, kind == WIRE_EV_FORKED);
		break;
	case WIRE_EV_SPAWNED:
		extra->forks++;
		break;
	case WIRE_EV_EXIT:
		extra->exiting = true;
		extra->exit_status = (int32_t)in->words[0];
		extra->exit_how = (uint32_t)in->words[1];
		break;
	case WIRE_EV_THREAD_EXIT:
		feed_thread_end(extra->feed, in->cursor->thread_id, in->time_ns);
		break;
	case WIRE_EV_UNHOOKED:
		take_unhooked(extra, in);
		break;
	case WIRE_EV_THREAD:
		feed_thread_end(extra->feed, in->cursor->thread_id, in->time_ns);
		in->cursor->tid = (uint32_t)in->words[0];
		in->cursor->ended = false;
		in->cursor->thread_id = feed_thread(extra->feed, in->cursor->tid, in->time_ns);
		break;
	case WIRE_EV_MARK:
		take_mark(extra, in);
		break;
	case WIRE_EV_EXEC:
	case WIRE_EV_EXEC_FAIL:
		extra->executing = kind == WIRE_EV_EXEC;
		break;
	case WIRE_EV_HEAP_DISCARD:
		heaps_discard(extra->feed, caller_of(in), in->words[0], in->words[1], in->words[2]);
		break;
	case WIRE_EV_HEAP_GROW:
		heaps_grow(extra->feed, caller_of(in), in->words, in->words[2], in->words[3]);
		break;
	}
}

void extra_take(struct extra *extra, struct cursor *cursor, uint64_t stamp, const uint64_t *at,
		unsigned words)
{
	/* Payload words that the shortest event of a kind has; 0xff: no such kind. */
	static const uint8_t least[] = {
		[0] = 0xff,
		[WIRE_EV_MODULE] = sizeof(struct wire_ev_module) / 8,
		[WIRE_EV_UNMODULE] = 1,
		[WIRE_EV_THREAD_NAME] = 2,
		[WIRE_EV_MMAP] = sizeof(struct wire_ev_map) / 8,
		[WIRE_EV_MUNMAP] = 2,
		[WIRE_EV_MUNMAP_FAIL] = 2,
		[WIRE_EV_MREMAP_BEGIN] = 2,
		[WIRE_EV_MREMAP_END] = sizeof(struct wire_ev_map) / 8 + 2,
		[WIRE_EV_MREMAP_FAIL] = 2,
		[WIRE_EV_MPROTECT] = 3,
		[WIRE_EV_MADVISE] = 3,
		[WIRE_EV_BRK] = 3,
		[WIRE_EV_FORK] = 0,
		[WIRE_EV_FORKED] = 1,
		[WIRE_EV_EXEC] = 0,
		[WIRE_EV_EXEC_FAIL] = 0,
		[WIRE_EV_EXIT] = 2,
		[WIRE_EV_THREAD_EXIT] = 0,
		[WIRE_EV_UNHOOKED] = 0,
		[WIRE_EV_THREAD] = 2,
		[WIRE_EV_HEAP_DISCARD] = 3,
		[WIRE_EV_HEAP_GROW] = 4,
		[WIRE_EV_MARK] = 0,
		[WIRE_EV_SPAWNED] = 0,
	};
	struct copied in;
	const volatile uint64_t *shared = at;
	uint64_t kind = shared[1] & 0xffff;
	in.count = words - 2;
	for (unsigned i = 0; i < in.count; i++)
		in.words[i] = shared[2 + i];
	if (kind >= sizeof least || in.count < least[kind]) {
		extra->feed->bad_events++;
		return;
	}
	in.time_ns = feed_time(extra->feed, stamp);
	in.cursor = cursor;
	take_kind(extra, (enum wire_extra)kind, &in);
}
