/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules lack names and lines, held against a plain walk along every stack. */
#include "views/missing.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "nameless_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 60, ROWS_MAX = 32, SEEN_MAX = 4096 };

struct plain_row {
	const char *module;
	uint64_t unnamed_bytes, unlined_bytes, unnamed, unlined;
	bool in_unnamed, in_unlined; /* the stack at hand has been added */
};

struct plain {
	struct plain_row rows[ROWS_MAX];
	size_t count;
	const struct view_frame *seen[SEEN_MAX];
	size_t seen_count;
	uint64_t bytes, unnamed_bytes, unlined_bytes;
};

static struct plain_row *row_of(struct plain *plain, const char *module)
{
	for (size_t i = 0; i < plain->count; i++)
		if (!strcmp(plain->rows[i].module, module))
			return &plain->rows[i];
	REQUIRE(plain->count < ROWS_MAX);
	plain->rows[plain->count] = (struct plain_row){.module = module};
	return &plain->rows[plain->count++];
}

static bool is_new(struct plain *plain, const struct view_frame *frame)
{
	for (size_t i = 0; i < plain->seen_count; i++)
		if (plain->seen[i] == frame)
			return false;
	REQUIRE(plain->seen_count < SEEN_MAX);
	plain->seen[plain->seen_count++] = frame;
	return true;
}

static void count_frame(struct plain *plain, const struct view_frame *frame, uint64_t bytes)
{
	struct plain_row *row = row_of(plain, frame->module);
	bool unnamed = !frame->function || frame->source == TRACE_SYM_NONE;
	bool first = is_new(plain, frame);
	row->unnamed += first && unnamed;
	row->unlined += first && !frame->file;
	row->unnamed_bytes += unnamed && !row->in_unnamed ? bytes : 0;
	row->unlined_bytes += !frame->file && !row->in_unlined ? bytes : 0;
	row->in_unnamed |= unnamed;
	row->in_unlined |= !frame->file;
}

static void count_stack(struct plain *plain, const struct view_data *data,
			const struct view_stack_row *stack)
{
	uint64_t bytes = stack->figures.of[VIEW_ALLOCATED_BYTES];
	uint32_t cursor = stack->stack;
	const struct view_frame *frame;
	bool unnamed = false, unlined = false;
	for (size_t i = 0; i < plain->count; i++)
		plain->rows[i].in_unnamed = plain->rows[i].in_unlined = false;
	while ((frame = view_next_frame(data, &cursor))) {
		if (frame->is_allocator || !strcmp(frame->module, "[mark]"))
			continue;
		if (frame->is_root && strcmp(frame->function, "main") != 0)
			break;
		count_frame(plain, frame, bytes);
		unnamed |= !frame->function || frame->source == TRACE_SYM_NONE;
		unlined |= !frame->file;
		if (frame->is_root)
			break;
	}
	plain->bytes += bytes;
	plain->unnamed_bytes += unnamed ? bytes : 0;
	plain->unlined_bytes += unlined ? bytes : 0;
}

static void compare(const struct plain *plain, const struct view_missing *missing)
{
	size_t lacking = 0;
	for (size_t i = 0; i < plain->count; i++)
		lacking += plain->rows[i].unnamed || plain->rows[i].unlined;
	CHECK_EQ_U64(missing->count, lacking);
	CHECK_EQ_U64(missing->bytes, plain->bytes);
	CHECK_EQ_U64(missing->unnamed_bytes, plain->unnamed_bytes);
	CHECK_EQ_U64(missing->unlined_bytes, plain->unlined_bytes);
	for (size_t i = 0; i < missing->count; i++) {
		const struct view_missing_row *got = &missing->rows[i];
		const struct plain_row *wanted = NULL;
		for (size_t k = 0; k < plain->count; k++)
			if (!strcmp(plain->rows[k].module, got->module))
				wanted = &plain->rows[k];
		REQUIRE(wanted);
		CHECK_EQ_U64(got->unnamed_bytes, wanted->unnamed_bytes);
		CHECK_EQ_U64(got->unlined_bytes, wanted->unlined_bytes);
		CHECK_EQ_U64(got->unnamed, wanted->unnamed);
		CHECK_EQ_U64(got->unlined, wanted->unlined);
	}
}

static void agrees(void)
{
	struct nameless *heap = malloc(sizeof *heap);
	struct plain *plain = malloc(sizeof *plain);
	REQUIRE(heap && plain);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct view_data *data;
		struct view_missing missing;
		size_t count;
		nameless_make(heap, seed);
		REQUIRE(!view_data_new(&heap->input, &data, NULL));
		REQUIRE(!view_missing(data, &heap->input, &missing, NULL));
		*plain = (struct plain){0};
		const struct view_stack_row *stacks = view_stacks(data, &count);
		for (size_t i = 0; i < count; i++)
			count_stack(plain, data, &stacks[i]);
		compare(plain, &missing);
		view_missing_done(&missing);
		view_data_free(data);
		nameless_done(heap);
	}
	free(plain);
	free(heap);
}

static const struct view_missing_row *find(const struct view_missing *missing, const char *module)
{
	for (size_t i = 0; i < missing->count; i++)
		if (!strcmp(missing->rows[i].module, module))
			return &missing->rows[i];
	return NULL;
}

static void cures(void)
{
	struct nameless *heap = malloc(sizeof *heap);
	struct view_data *data;
	struct view_missing missing;
	REQUIRE(heap);
	nameless_make(heap, 3);
	REQUIRE(!view_data_new(&heap->input, &data, NULL));
	REQUIRE(!view_missing(data, &heap->input, &missing, NULL));
	static const struct {
		const char *module;
		enum cure cure;
	} wanted[] = {
		{"/opt/app/shop", CURE_BUILD}, {"/usr/lib/libwidget.so.3", CURE_PACKAGE},
		{"/opt/app/tool", CURE_RUST},  {"/opt/app/addon.node", CURE_ADDON},
		{"[anonymous]", CURE_MAP},
	};
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		const struct view_missing_row *row = find(&missing, wanted[i].module);
		if (CHECK(row))
			CHECK(row->cure == wanted[i].cure);
	}
	CHECK(!find(&missing, "[heap] pool")); /* no code */
	view_missing_done(&missing);
	view_data_free(data);
	nameless_done(heap);
	free(heap);
}

static void out_of_memory(void)
{
	struct nameless *heap = malloc(sizeof *heap);
	struct view_data *data;
	struct view_missing missing;
	int code = -ENOMEM;
	REQUIRE(heap);
	nameless_make(heap, 3);
	REQUIRE(!view_data_new(&heap->input, &data, NULL));
	for (long n = 0; code; n++) {
		tm_alloc_fail_at(n);
		code = view_missing(data, &heap->input, &missing, NULL);
		tm_alloc_fail_at(-1);
		if (code)
			CHECK_EQ_I64(code, -ENOMEM);
	}
	view_missing_done(&missing);
	view_data_free(data);
	nameless_done(heap);
	free(heap);
}

static const struct tap_case cases[] = {
	{.name = "modules without names or lines weigh what their stacks allocated", .run = agrees},
	{.name = "what would help fits the module", .run = cures},
	{.name = "without memory there is an error, not a crash", .run = out_of_memory},
};
TAP_MAIN(cases)
