/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backtraces: whole ones, old ones that say what changed since the thread's last,
 * and those of postprocessed files, whose frames have names.
 */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "import/bytehound.h"
#include "trace/texts.h"

enum { IDS_MAX = 1 << 26, NAME_MAX_BYTES = 16 << 10 };

struct bytehound_last { /* a thread's last backtrace, of partial ones */
	uint32_t count;
	uint64_t *addresses;
};

static void *with_room(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	void *grown = tm_grow_array(array, *room + *room / 2 + 256, bytes);
	if (grown)
		*room += *room / 2 + 256;
	return grown;
}

static int end_here(struct bytehound *b)
{
	b->ended = true;
	return 0;
}

/* ---- ids ---- */

static bool same_id(const void *ctx, uint32_t number, const void *key)
{
	return ((const struct bytehound *)ctx)->backtraces[number].id == *(const uint64_t *)key;
}

uint32_t bytehound_stack(struct bytehound *b, uint64_t backtrace)
{
	if (backtrace == 0 && !b->names.backtraces)
		return 0;
	uint32_t found = idmap_find(&b->backtrace_map, hash_u64(backtrace), same_id, b, &backtrace);
	if (found != IDMAP_NONE)
		return b->backtraces[found].stack_id;
	b->unknown_backtraces++;
	return 0;
}

static int keep(struct bytehound *b, uint64_t id, uint32_t stack_id)
{
	uint32_t found = idmap_find(&b->backtrace_map, hash_u64(id), same_id, b, &id);
	if (found != IDMAP_NONE) {
		b->backtraces[found].stack_id = stack_id;
		return 0;
	}
	if (b->backtrace_count >= IDS_MAX)
		return tm_fail(b->err, -EFBIG, "the file has too many backtraces");
	void *grown = with_room(b->backtraces, b->backtrace_count, &b->backtrace_room,
				sizeof *b->backtraces);
	if (!grown)
		return bytehound_no_memory(b);
	b->backtraces = grown;
	b->backtraces[b->backtrace_count] =
		(struct bytehound_backtrace){.id = id, .stack_id = stack_id};
	if (idmap_add(&b->backtrace_map, hash_u64(id), (uint32_t)b->backtrace_count))
		return bytehound_no_memory(b);
	b->backtrace_count++;
	return 0;
}

/* ---- addresses ---- */

/* Up to BYTEHOUND_DEPTH_MAX of them, innermost first; the outermost of more are lost. */
static bool read_addresses(struct bytehound *b, bool narrow, uint32_t *ret_count)
{
	struct bytehound_stream *s = &b->stream;
	size_t bytes = narrow ? 4 : 8;
	if (!bytehound_need(s, 4))
		return false;
	uint32_t count = bytehound_u32(s), kept = count;
	if (kept > BYTEHOUND_DEPTH_MAX) {
		kept = BYTEHOUND_DEPTH_MAX;
		b->frames_cut++;
	}
	if (!bytehound_need(s, kept * bytes))
		return false;
	for (uint32_t i = 0; i < kept; i++)
		b->addresses[i] = narrow ? bytehound_u32(s) : bytehound_u64(s);
	*ret_count = kept;
	return bytehound_skip(s, (uint64_t)(count - kept) * bytes);
}

/* Frames of the profiler itself are left out, but the one that was called. */
static bool is_profiler(const char *path)
{
	return path && (strstr(path, "libbytehound") || strstr(path, "libmemory_profiler"));
}

static int stack_of(struct bytehound *b, const uint64_t *addresses, uint32_t count,
		    uint32_t *ret_stack_id)
{
	uint32_t stack_id = 0, first = 0;
	while (first + 1 < count &&
	       is_profiler(frames_module_path(
		       b->frames, (uint32_t)bytehound_module_at(b, addresses[first]))) &&
	       is_profiler(frames_module_path(
		       b->frames, (uint32_t)bytehound_module_at(b, addresses[first + 1]))))
		first++;
	for (uint32_t i = count; i-- > first;) {
		uint64_t address = addresses[i] ? addresses[i] - 1 : 0;
		int64_t module_id = bytehound_module_at(b, address);
		uint32_t frame_id;
		int code = frames_add(b->frames, (uint32_t)module_id, address, NULL, 0, &frame_id,
				      b->err);
		if (!code)
			code = frames_stack(b->frames, stack_id, frame_id, &stack_id, b->err);
		if (code)
			return code;
	}
	*ret_stack_id = stack_id;
	return 0;
}

int bytehound_backtrace(struct bytehound *b, bool narrow)
{
	uint32_t count, stack_id;
	if (!bytehound_need(&b->stream, 8))
		return end_here(b);
	uint64_t id = bytehound_u64(&b->stream);
	if (!read_addresses(b, narrow, &count))
		return end_here(b);
	int code = stack_of(b, b->addresses, count, &stack_id);
	return code ? code : keep(b, id, stack_id);
}

/* ---- what changed since the last ---- */

static struct bytehound_last *last_of(struct bytehound *b, uint32_t tid)
{
	int64_t thread = bytehound_thread(b, tid);
	if (thread < 0)
		return NULL;
	if ((size_t)thread >= b->last_room) {
		size_t room = (size_t)thread * 2 + 16;
		struct bytehound_last *grown = tm_grow_array(b->last, room, sizeof *grown);
		if (!grown)
			return NULL;
		memset(grown + b->last_room, 0, (room - b->last_room) * sizeof *grown);
		b->last = grown;
		b->last_room = room;
	}
	return &b->last[thread];
}

/* The new frames, then what the thread's last backtrace keeps. */
static int join(struct bytehound *b, struct bytehound_last *last, uint32_t count,
		uint32_t invalidated)
{
	uint32_t kept = invalidated < last->count ? last->count - invalidated : 0;
	if (kept > BYTEHOUND_DEPTH_MAX - count) {
		kept = BYTEHOUND_DEPTH_MAX - count;
		b->frames_cut++;
	}
	if (kept)
		memcpy(b->addresses + count, last->addresses + (last->count - kept),
		       kept * sizeof *b->addresses);
	uint64_t *grown = tm_grow_array(last->addresses, count + kept + 1, sizeof *grown);
	if (!grown)
		return bytehound_no_memory(b);
	memcpy(grown, b->addresses, (count + kept) * sizeof *grown);
	last->addresses = grown;
	last->count = count + kept;
	return 0;
}

int bytehound_partial_backtrace(struct bytehound *b, bool narrow)
{
	uint32_t count, stack_id;
	if (!bytehound_need(&b->stream, 16))
		return end_here(b);
	uint64_t id = bytehound_u64(&b->stream);
	uint32_t tid = bytehound_u32(&b->stream), invalidated = bytehound_u32(&b->stream);
	if (!read_addresses(b, narrow, &count))
		return end_here(b);
	struct bytehound_last *last = last_of(b, tid);
	if (!last)
		return bytehound_no_memory(b);
	int code = join(b, last, count, invalidated);
	if (!code)
		code = stack_of(b, last->addresses, last->count, &stack_id);
	return code ? code : keep(b, id, stack_id);
}

/* ---- postprocessed files ---- */

int bytehound_string(struct bytehound *b)
{
	struct bytehound_names *n = &b->names;
	const char *text;
	size_t kept;
	if (!bytehound_need(&b->stream, 8))
		return end_here(b);
	uint32_t id = bytehound_u32(&b->stream), length = bytehound_u32(&b->stream);
	if (!bytehound_bytes(&b->stream, length, NAME_MAX_BYTES, &text, &kept))
		return end_here(b);
	/* Ids count up; one far ahead of the others is nonsense. */
	if (id > n->string_count + 1024 || id >= IDS_MAX) {
		b->odd++;
		return 0;
	}
	while (n->string_count <= id) {
		void *grown = with_room((void *)n->strings, n->string_count, &n->string_room,
					sizeof *n->strings);
		if (!grown)
			return bytehound_no_memory(b);
		n->strings = grown;
		n->strings[n->string_count++] = NULL;
	}
	n->strings[id] = texts_add(&b->texts, text, kept);
	return n->strings[id] ? 0 : bytehound_no_memory(b);
}

int bytehound_decoded_frame(struct bytehound *b)
{
	struct bytehound_names *n = &b->names;
	struct bytehound_stream *s = &b->stream;
	if (!bytehound_need(s, 33))
		return end_here(b);
	void *grown = with_room(n->frames, n->frame_count, &n->frame_room, sizeof *n->frames);
	if (grown)
		n->frames = grown;
	if (!grown || n->frame_count >= IDS_MAX)
		return bytehound_no_memory(b);
	struct bytehound_frame *frame = &n->frames[n->frame_count++];
	frame->address = bytehound_u64(s);
	frame->library = bytehound_u32(s);
	frame->raw_function = bytehound_u32(s);
	frame->function = bytehound_u32(s);
	frame->source = bytehound_u32(s);
	frame->line = bytehound_u32(s);
	frame->column = bytehound_u32(s);
	frame->inlined = *s->at++;
	return 0;
}

static struct frames_text text_at(const struct bytehound *b, uint32_t id)
{
	const char *text = id < b->names.string_count ? b->names.strings[id] : NULL;
	return frames_text(text, text ? strlen(text) : 0);
}

static struct frames_name name_of(const struct bytehound *b, const struct bytehound_frame *frame)
{
	struct frames_name name = {.function = text_at(b, frame->function),
				   .file = text_at(b, frame->source)};
	if (!name.function.data)
		name.function = text_at(b, frame->raw_function);
	name.line = frame->line == UINT32_MAX ? 0 : frame->line;
	name.column = frame->column == UINT32_MAX ? 0 : frame->column;
	return name;
}

/* One address: those inlined, then the function itself, which is at `last`. */
static int add_place(struct bytehound *b, const uint32_t *ids, uint32_t first, uint32_t last,
		     uint32_t *stack_id)
{
	struct frames_name names[64];
	size_t count = 0;
	uint32_t module_id = 0, frame_id;
	const struct bytehound_frame *self = &b->names.frames[ids[last]];
	for (uint32_t i = first; i <= last && count < 64; i++)
		names[count++] = name_of(b, &b->names.frames[ids[i]]);
	struct frames_module module = {.path = text_at(b, self->library)};
	int code = 0;
	if (module.path.data)
		code = frames_module(b->frames, &module, &module_id, b->err);
	if (!code)
		code = frames_add(b->frames, module_id, 0, names, count, &frame_id, b->err);
	return code ? code : frames_stack(b->frames, *stack_id, frame_id, stack_id, b->err);
}

int bytehound_decoded_backtrace(struct bytehound *b)
{
	uint32_t count, stack_id = 0;
	if (!read_addresses(b, true, &count))
		return end_here(b);
	uint32_t *ids = (uint32_t *)b->addresses, kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = b->addresses[i];
		if (id < b->names.frame_count)
			ids[kept++] = (uint32_t)id; /* never ahead of what is read */
		else
			b->odd++;
	}
	int code = 0;
	for (uint32_t end = kept; end > 0 && !code;) {
		uint32_t first = end - 1;
		while (first > 0 && b->names.frames[ids[first - 1]].inlined)
			first--;
		code = add_place(b, ids, first, end - 1, &stack_id);
		end = first;
	}
	return code ? code : keep(b, b->names.backtraces++, stack_id);
}

void bytehound_stacks_done(struct bytehound *b)
{
	for (size_t i = 0; i < b->last_room; i++)
		tm_free(b->last[i].addresses);
	tm_free(b->last);
	tm_free(b->backtraces);
	idmap_done(&b->backtrace_map);
	tm_free(b->addresses);
	tm_free((void *)b->names.strings);
	tm_free(b->names.frames);
}
