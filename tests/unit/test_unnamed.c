/* SPDX-License-Identifier: Apache-2.0 */
/* What the last lines of a recording say of missing names is what the report says of its trace. */
#include "collector/unnamed.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "nameless_heap.h"
#include "views/missing.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 200 };

static bool is_share(uint64_t part, uint64_t whole, unsigned per_cent)
{
	return whole && part >= whole / 100 * per_cent && part > 0;
}

/* From the rows of the report, in their order. */
static const struct view_missing_row *choose(const struct view_missing *missing, bool *ret_lines)
{
	const struct view_missing_row *lines = NULL;
	*ret_lines = false;
	for (size_t i = 0; i < missing->count; i++) {
		const struct view_missing_row *row = &missing->rows[i];
		if (row->cure != CURE_MAP && is_share(row->unnamed_bytes, missing->bytes, 5))
			return row;
		if (row->cure != CURE_PACKAGE && row->module[0] == '/' && !lines &&
		    is_share(row->unlined_bytes, missing->bytes, 50))
			lines = row;
	}
	*ret_lines = true;
	return lines;
}

static void judge(const struct nameless *heap, struct unnamed_answer *ret_answer)
{
	struct unnamed *unnamed;
	REQUIRE(!unnamed_new(&unnamed));
	for (size_t i = 0; i < heap->symbol_count; i++)
		unnamed_symbol(unnamed, &heap->modules, &heap->symbols[i]);
	unnamed_weigh(unnamed, heap->model);
	unnamed_judge(unnamed, &heap->stacks, &heap->modules, ret_answer);
	unnamed_free(unnamed);
}

static void agrees(void)
{
	size_t with_names = 0, with_lines = 0, with_nothing = 0;
	struct nameless *heap = malloc(sizeof *heap);
	REQUIRE(heap);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct view_data *data;
		struct view_missing missing;
		struct unnamed_answer answer;
		bool lines;
		nameless_make(heap, seed);
		judge(heap, &answer);
		REQUIRE(!view_data_new(&heap->input, &data, NULL));
		REQUIRE(!view_missing(data, &heap->input, &missing, NULL));
		const struct view_missing_row *wanted = choose(&missing, &lines);
		CHECK(answer.cure == (wanted ? wanted->cure : CURE_NONE));
		if (wanted) {
			CHECK_STR(answer.module, view_module_name(wanted->module));
			CHECK(answer.lines_only == lines);
			CHECK_EQ_U64(answer.bytes,
				     lines ? wanted->unlined_bytes : wanted->unnamed_bytes);
			CHECK_EQ_U64(answer.of_bytes, missing.bytes);
		}
		with_nothing += !wanted;
		with_lines += wanted && lines;
		with_names += wanted && !lines;
		view_missing_done(&missing);
		view_data_free(data);
		nameless_done(heap);
	}
	free(heap);
	tap_note("%zu lack names, %zu lines, %zu nothing", with_names, with_lines, with_nothing);
	CHECK(with_names && with_lines && with_nothing);
}

/* A program whose functions have names and lines is told nothing. */
static void nothing_lacks(void)
{
	struct nameless *heap = malloc(sizeof *heap);
	struct unnamed_answer answer;
	REQUIRE(heap);
	nameless_make(heap, 0);
	for (size_t i = 0; i < heap->symbol_count; i++) {
		heap->symbols[i].function = "known";
		heap->symbols[i].file = "/src/shop.c";
		heap->symbols[i].source = TRACE_SYM_DWARF;
	}
	judge(heap, &answer);
	CHECK(answer.cure == CURE_NONE);
	nameless_done(heap);
	free(heap);
}

static void out_of_memory(void)
{
	struct nameless *heap = malloc(sizeof *heap);
	struct unnamed_answer answer, whole;
	REQUIRE(heap);
	nameless_make(heap, 3);
	judge(heap, &whole);
	REQUIRE(whole.cure != CURE_NONE);
	for (long n = 0, quiet = 1; quiet; n++) {
		struct unnamed *unnamed;
		tm_alloc_fail_at(n);
		if (!unnamed_new(&unnamed)) {
			for (size_t i = 0; i < heap->symbol_count; i++)
				unnamed_symbol(unnamed, &heap->modules, &heap->symbols[i]);
			unnamed_weigh(unnamed, heap->model);
			unnamed_judge(unnamed, &heap->stacks, &heap->modules, &answer);
			unnamed_free(unnamed);
			quiet = answer.cure == CURE_NONE;
		}
		tm_alloc_fail_at(-1);
	}
	CHECK_STR(answer.module, whole.module);
	nameless_done(heap);
	free(heap);
}

static const struct tap_case cases[] = {
	{.name = "the module that is named lacks most, as the report says", .run = agrees},
	{.name = "nothing is said where nothing is missing", .run = nothing_lacks},
	{.name = "without memory nothing is said", .run = out_of_memory},
};
TAP_MAIN(cases)
