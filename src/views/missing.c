/* SPDX-License-Identifier: Apache-2.0 */
#include "views/missing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/memory.h"

/* While counting: what was noted for a row, so that a stack counts once. */
struct mark {
	size_t unnamed, unlined; /* the stack that was noted last, from 1 */
	bool rust;
	bool mapped; /* a frame of it has a name by a map that the program wrote */
};

struct counting {
	struct view_missing *missing;
	struct mark *marks;
	size_t room;
	struct idmap by_text; /* of a module's path: the same path may be there several times */
	struct idmap frames;  /* seen already */
	const struct view_frame **seen;
	size_t seen_count, seen_room;
};

static bool same_module(const void *ctx, uint32_t id, const void *key)
{
	return !strcmp(((const struct counting *)ctx)->missing->rows[id].module, key);
}

static int add_row(struct counting *counting, const char *module, uint32_t *ret_id)
{
	struct view_missing *missing = counting->missing;
	if (missing->count == counting->room) {
		size_t room = counting->room * 2 + 32;
		void *rows = tm_grow_array(missing->rows, room, sizeof *missing->rows);
		if (!rows)
			return -ENOMEM;
		missing->rows = rows;
		void *marks = tm_grow_array(counting->marks, room, sizeof *counting->marks);
		if (!marks)
			return -ENOMEM;
		counting->marks = marks;
		counting->room = room;
	}
	uint32_t id = (uint32_t)missing->count;
	if (idmap_add(&counting->by_text, hash_bytes(module, strlen(module)), id))
		return -ENOMEM;
	missing->rows[id] = (struct view_missing_row){.module = module};
	counting->marks[id] = (struct mark){0};
	missing->count++;
	*ret_id = id;
	return 0;
}

static int row_of(struct counting *counting, const char *module, uint32_t *ret_id)
{
	uint64_t hash = hash_bytes(module, strlen(module));
	*ret_id = idmap_find(&counting->by_text, hash, same_module, counting, module);
	return *ret_id == IDMAP_NONE ? add_row(counting, module, ret_id) : 0;
}

static bool same_frame(const void *ctx, uint32_t id, const void *key)
{
	return ((const struct counting *)ctx)->seen[id] == key;
}

/* Is it the first time that this frame is met? */
static int is_new_frame(struct counting *counting, const struct view_frame *frame, bool *ret)
{
	uint64_t hash = hash_u64((uint64_t)(uintptr_t)frame);
	*ret = idmap_find(&counting->frames, hash, same_frame, counting, frame) == IDMAP_NONE;
	if (!*ret)
		return 0;
	if (counting->seen_count == counting->seen_room) {
		size_t room = counting->seen_room * 2 + 256;
		void *grown = tm_grow_array((void *)counting->seen, room, sizeof *counting->seen);
		if (!grown)
			return -ENOMEM;
		counting->seen = grown;
		counting->seen_room = room;
	}
	counting->seen[counting->seen_count] = frame;
	return idmap_add(&counting->frames, hash, (uint32_t)counting->seen_count++);
}

static bool is_rust(const struct view_frame *frame)
{
	size_t bytes = frame->file ? strlen(frame->file) : 0;
	return (bytes > 3 && !strcmp(frame->file + bytes - 3, ".rs")) ||
	       (frame->function && (!strncmp(frame->function, "core::", 6) ||
				    !strncmp(frame->function, "alloc::", 7)));
}

static bool is_unnamed(const struct view_frame *frame)
{
	return !frame->function || frame->source == TRACE_SYM_NONE;
}

static int count_frame(struct counting *counting, const struct view_frame *frame, size_t stack,
		       uint64_t bytes)
{
	uint32_t id = 0;
	bool first = false;
	bool unnamed = is_unnamed(frame), unlined = !frame->file;
	int code = row_of(counting, frame->module, &id);
	if (!code && (unnamed || unlined))
		code = is_new_frame(counting, frame, &first);
	if (code)
		return code;
	struct view_missing_row *row = &counting->missing->rows[id];
	struct mark *mark = &counting->marks[id];
	mark->rust |= is_rust(frame);
	mark->mapped |= frame->source == TRACE_SYM_JIT;
	row->unnamed += first && unnamed;
	row->unlined += first && unlined;
	if (unnamed && mark->unnamed != stack) {
		row->unnamed_bytes += bytes;
		mark->unnamed = stack;
	}
	if (unlined && mark->unlined != stack) {
		row->unlined_bytes += bytes;
		mark->unlined = stack;
	}
	return 0;
}

static int count_stack(struct counting *counting, const struct view_data *data,
		       const struct view_stack_row *row, size_t stack)
{
	uint64_t bytes = row->figures.of[VIEW_ALLOCATED_BYTES];
	bool unnamed = false, unlined = false;
	uint32_t cursor = row->stack;
	const struct view_frame *frame;
	int code = 0;
	while (!code && (frame = view_next_frame(data, &cursor))) {
		if (frame->is_allocator || !strcmp(frame->module, "[mark]"))
			continue;
		/* Outside of main there is only what starts it. */
		if (frame->is_root && strcmp(frame->function, "main") != 0)
			break;
		code = count_frame(counting, frame, stack, bytes);
		unnamed |= is_unnamed(frame);
		unlined |= !frame->file;
		if (frame->is_root)
			break;
	}
	counting->missing->bytes += bytes;
	counting->missing->unnamed_bytes += unnamed ? bytes : 0;
	counting->missing->unlined_bytes += unlined ? bytes : 0;
	return code;
}

/* ---- what would help ---- */

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool has_module(const struct view_input *input, const char *name, const char *library)
{
	for (size_t i = 1; i < input->module_count; i++) {
		const char *path = input->modules[i].path;
		const char *base = path ? view_module_name(path) : "";
		if (!strcmp(base, name) || begins(base, library))
			return true;
	}
	return false;
}

static enum view_cure choose_cure(const struct view_input *input, const char *module,
				  struct mark mark)
{
	static const char *const system[] = {"/usr/lib",   "/lib",   "/usr/bin/",    "/bin/",
					     "/usr/sbin/", "/sbin/", "/usr/libexec/"};
	size_t bytes = strlen(module);
	if (*module == '[') {
		if (mark.mapped)
			return VIEW_CURE_MAP;
		if (has_module(input, "node", "libnode.so"))
			return VIEW_CURE_NODE;
		return has_module(input, "java", "libjvm.so") ? VIEW_CURE_JAVA : VIEW_CURE_JIT;
	}
	if (bytes > 5 && !strcmp(module + bytes - 5, ".node"))
		return VIEW_CURE_ADDON;
	for (size_t i = 0; i < sizeof system / sizeof system[0]; i++)
		if (begins(module, system[i]))
			return VIEW_CURE_PACKAGE;
	return mark.rust ? VIEW_CURE_RUST : VIEW_CURE_BUILD;
}

const char *view_cure_text(enum view_cure cure)
{
	switch (cure) {
	case VIEW_CURE_NONE:
		return "nothing";
	case VIEW_CURE_NODE:
		return "run node with --perf-basic-prof --interpreted-frames-native-stack";
	case VIEW_CURE_JAVA:
		return "run java with -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions "
		       "-XX:+DumpPerfMapAtExit";
	case VIEW_CURE_JIT:
		return "have the program write /tmp/perf-PID.map or a jitdump";
	case VIEW_CURE_MAP:
		return "record it once more: the map that the program wrote does not name this "
		       "part of its code";
	case VIEW_CURE_ADDON:
		return "build the addon with symbols: npm rebuild --debug";
	case VIEW_CURE_PACKAGE:
		return "install its -dbgsym package and type 'tidemark symbolize', or use "
		       "'tidemark symbolize --debuginfod'";
	case VIEW_CURE_RUST:
		return "build with debug = 2 and strip = false in the Cargo profile";
	case VIEW_CURE_BUILD:
		return "build it with -g and do not strip it, or keep its debug file for "
		       "'tidemark symbolize'";
	}
	return "";
}

static void finish_rows(struct counting *counting, const struct view_input *input)
{
	struct view_missing *missing = counting->missing;
	size_t kept = 0;
	for (size_t i = 0; i < missing->count; i++) {
		struct view_missing_row row = missing->rows[i];
		if (!counting->marks || (!row.unnamed && !row.unlined))
			continue;
		row.cure = choose_cure(input, row.module, counting->marks[i]);
		for (size_t k = 1; k < input->module_count; k++)
			if (input->modules[k].path && !strcmp(input->modules[k].path, row.module)) {
				row.build_id = input->modules[k].build_id;
				row.build_id_bytes = input->modules[k].build_id_bytes;
			}
		missing->rows[kept++] = row;
	}
	missing->count = kept;
}

static int by_weight(const void *a, const void *b)
{
	const struct view_missing_row *x = a, *y = b;
	if (x->unnamed_bytes != y->unnamed_bytes)
		return x->unnamed_bytes > y->unnamed_bytes ? -1 : 1;
	if (x->unlined_bytes != y->unlined_bytes)
		return x->unlined_bytes > y->unlined_bytes ? -1 : 1;
	return strcmp(x->module, y->module);
}

int view_missing(const struct view_data *data, const struct view_input *input,
		 struct view_missing *ret_missing, struct tm_error *err)
{
	*ret_missing = (struct view_missing){0};
	struct counting counting = {.missing = ret_missing};
	size_t count;
	const struct view_stack_row *stacks = view_stacks(data, &count);
	int code = 0;
	for (size_t i = 0; i < count && !code; i++)
		code = count_stack(&counting, data, &stacks[i], i + 1);
	if (!code) {
		finish_rows(&counting, input);
		if (ret_missing->count)
			qsort(ret_missing->rows, ret_missing->count, sizeof *ret_missing->rows,
			      by_weight);
	}
	idmap_done(&counting.by_text);
	idmap_done(&counting.frames);
	tm_free((void *)counting.seen);
	tm_free(counting.marks);
	if (!code)
		return 0;
	view_missing_done(ret_missing);
	return tm_fail(err, code, "out of memory");
}

void view_missing_done(struct view_missing *missing)
{
	tm_free(missing->rows);
	*missing = (struct view_missing){0};
}
