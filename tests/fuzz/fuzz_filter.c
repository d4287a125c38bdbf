/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile filters: parse, print, parse again, bind, judge. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "model/filter.h"

static bool name_frame(void *ctx, uint32_t stack_id, size_t index, struct filter_frame *ret)
{
	(void)ctx;
	*ret = (struct filter_frame){.function = stack_id % 2 ? "std::vector<int>::push_back" : "f",
				     .file = "src/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab.c",
				     .module = "/usr/lib/libx.so",
				     .package = "x"};
	return index < 2;
}

static int moment(void *ctx, const char *text, uint64_t *ret_ns, struct tm_error *err)
{
	(void)ctx;
	(void)err;
	*ret_ns = strlen(text) * 1000;
	return 0;
}

static void judge(const struct filter *filter)
{
	static const struct trace_stack stacks[4] = {{0}, {.parent_id = 0}, {.parent_id = 1}};
	static const struct trace_thread threads[2] = {{.name = "main"}, {.name = "worker"}};
	struct filter_names names = {.frame = name_frame};
	struct filter_context context = {.stacks = stacks,
					 .stack_count = 4,
					 .threads = threads,
					 .thread_count = 2,
					 .names = &names,
					 .moment = moment};
	struct filter_bound *bound;
	if (filter_bind(filter, &context, &bound, NULL))
		return;
	struct filter_block block = {.stack_id = 3, .size_bytes = 5, .address = UINT64_MAX};
	struct filter_span span = {.max_size_bytes = 9, .end_ns = 9, .min_address = 1};
	enum filter_verdict early = filter_block(bound, &block);
	bool may = filter_span_may_match(bound, &span);
	block.end_known = block.ended = true;
	/* What is certain before the end is certain after it; a block within the span is in it. */
	enum filter_verdict late = filter_block(bound, &block);
	if (late == FILTER_DEPENDS || (early != FILTER_DEPENDS && early != late) ||
	    (late == FILTER_YES && !may))
		abort();
	filter_bound_free(bound);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct filter *filter, *again;
	struct text printed = {0}, explained = {0};
	struct tm_error err = {0};
	size_t column = 0;
	char *text = tm_alloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	if (filter_parse(text, &filter, &column, &err)) {
		if (err.code == -22 && (column > strlen(text) || !err.text[0]))
			abort();
		filter_explain(&explained, text, column, &err);
	} else {
		judge(filter);
		filter_print(&printed, filter);
		if (!filter_parse(text_string(&printed), &again, &column, &err))
			filter_free(again);
		filter_free(filter);
	}
	text_done(&printed);
	text_done(&explained);
	tm_free(text);
	return 0;
}
