/* SPDX-License-Identifier: Apache-2.0 */
/* The filter language: what it takes, what it chooses, and where it points when it is wrong. */
#include "base/memory.h"
#include "base/text.h"
#include "harness/tap.h"
#include "model/filter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- a small section ---- */

static const struct trace_stack stacks[] = {
	{0}, {.parent_id = 0}, {.parent_id = 1}, {.parent_id = 2}, {.parent_id = 1}};
static const struct trace_thread threads[] = {{.thread_id = 0, .tid = 100, .name = "main"},
					      {.thread_id = 1, .tid = 101, .name = "worker-1"}};

/* 1 main; 2 main > parse; 3 main > parse > malloc; 4 main > std::vector<int>::push_back */
static bool name_frame(void *ctx, uint32_t stack_id, size_t index, struct filter_frame *ret)
{
	static const struct filter_frame frames[] = {
		{.function = NULL},
		{.function = "main", .file = "src/main.c", .module = "/usr/bin/prog"},
		{.function = "parse", .file = "src/parse.c", .module = "/usr/bin/prog"},
		{.function = "malloc", .module = "/usr/lib/libc.so.6", .is_allocator = true},
		{.function = "std::vector<int>::push_back",
		 .module = "/usr/bin/prog",
		 .package = "std"},
	};
	(void)ctx;
	*ret = frames[stack_id];
	return index == 0;
}

/* 1 main; 2 main > [heap] pool; 3 that > [tag] request=a; 4 main > [tag] request=b */
static bool name_label(void *ctx, uint32_t stack_id, size_t index, struct filter_frame *ret)
{
	static const struct filter_frame frames[] = {
		{.function = NULL},
		{.function = "main"},
		{.function = "[heap] pool", .heap = "pool", .is_allocator = true},
		{.function = "[tag] request=a", .tag = "request=a", .is_allocator = true},
		{.function = "[tag] request=b", .tag = "request=b", .is_allocator = true},
	};
	(void)ctx;
	*ret = frames[stack_id];
	return index == 0;
}

static struct filter_bound *bind_names(const char *text, const struct filter_names *names,
				       struct filter **ret_filter)
{
	struct tm_error err = {0};
	struct filter_bound *bound;
	size_t column = 0;
	if (filter_parse(text, ret_filter, &column, &err)) {
		tap_note("'%s' at %zu: %s", text, column, err.text);
		tap_stop();
	}
	struct filter_context context = {.stacks = stacks,
					 .stack_count = 5,
					 .threads = threads,
					 .thread_count = 2,
					 .names = names};
	REQUIRE(filter_bind(*ret_filter, &context, &bound, &err) == 0);
	return bound;
}

static struct filter_bound *bind(const char *text, struct filter **ret_filter)
{
	static const struct filter_names names = {.frame = name_frame};
	return bind_names(text, &names, ret_filter);
}

/* Heaps and tags are known by the stack alone, and never are a site. */
static void labels(void)
{
	static const struct filter_names names = {.frame = name_label};
	static const struct {
		const char *text;
		bool takes[5]; /* by stack */
	} wanted[] = {
		{"heap:pool", {0, 0, 1, 1, 0}},      {"heap=pool", {0, 0, 1, 1, 0}},
		{"heap=poo", {0, 0, 0, 0, 0}},       {"tag:request", {0, 0, 0, 1, 1}},
		{"tag=request=b", {0, 0, 0, 0, 1}},  {"heap:pool and tag:/=a$/", {0, 0, 0, 1, 0}},
		{"not heap:pool", {1, 1, 0, 0, 1}},  {"site=main", {0, 1, 1, 1, 1}},
		{"tag!=request=a", {1, 1, 1, 0, 1}},
	};
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		struct filter *filter;
		struct filter_bound *bound = bind_names(wanted[i].text, &names, &filter);
		CHECK(!filter_needs_blocks(bound));
		for (uint32_t stack = 0; stack < 5; stack++)
			if (!CHECK_EQ_U64(filter_stack(bound, stack),
					  wanted[i].takes[stack] ? FILTER_YES : FILTER_NO))
				tap_note("'%s', stack %u", wanted[i].text, stack);
		filter_bound_free(bound);
		filter_free(filter);
	}
}

static enum filter_verdict judge(const char *text, const struct filter_block *block)
{
	struct filter *filter;
	struct filter_bound *bound = bind(text, &filter);
	enum filter_verdict verdict = filter_block(bound, block);
	filter_bound_free(bound);
	filter_free(filter);
	return verdict;
}

static enum filter_verdict judge_stack(const char *text, uint32_t stack_id)
{
	struct filter *filter;
	struct filter_bound *bound = bind(text, &filter);
	enum filter_verdict verdict = filter_stack(bound, stack_id);
	filter_bound_free(bound);
	filter_free(filter);
	return verdict;
}

/* ---- cases ---- */

static void names_choose_stacks(void)
{
	CHECK_EQ_U64(judge_stack("function:pars", 3), FILTER_YES);
	CHECK_EQ_U64(judge_stack("function:pars", 4), FILTER_NO);
	CHECK_EQ_U64(judge_stack("function=pars", 3), FILTER_NO);
	CHECK_EQ_U64(judge_stack("function!=parse", 4), FILTER_YES);
	CHECK_EQ_U64(judge_stack("parse", 2), FILTER_YES);
	CHECK_EQ_U64(judge_stack("fn:p*e", 2), FILTER_YES);
	CHECK_EQ_U64(judge_stack("/^PARSE$/i", 2), FILTER_YES);
	CHECK_EQ_U64(judge_stack("/^PARSE$/", 2), FILTER_NO);
	CHECK_EQ_U64(judge_stack("std::vector", 4), FILTER_YES);
	CHECK_EQ_U64(judge_stack("\"vector<int>\"", 4), FILTER_YES);
	CHECK_EQ_U64(judge_stack("package=std", 4), FILTER_YES);
	CHECK_EQ_U64(judge_stack("site=parse", 3), FILTER_YES); /* malloc is no site */
	CHECK_EQ_U64(judge_stack("site=main", 3), FILTER_NO);
	CHECK_EQ_U64(judge_stack("module=libc.so.6", 3), FILTER_YES);
	CHECK_EQ_U64(judge_stack("file:parse.c", 3), FILTER_YES);
	CHECK_EQ_U64(judge_stack("", 1), FILTER_YES);
}

static void words_combine(void)
{
	CHECK_EQ_U64(judge_stack("main and not parse", 4), FILTER_YES);
	CHECK_EQ_U64(judge_stack("main and not parse", 3), FILTER_NO);
	CHECK_EQ_U64(judge_stack("main parse", 2), FILTER_YES);
	CHECK_EQ_U64(judge_stack("main -parse", 2), FILTER_NO);
	CHECK_EQ_U64(judge_stack("main !parse", 4), FILTER_YES);
	CHECK_EQ_U64(judge_stack("nothing or parse", 2), FILTER_YES);
	/* and binds closer than or */
	CHECK_EQ_U64(judge_stack("main or nothing and parse", 1), FILTER_YES);
	CHECK_EQ_U64(judge_stack("(main or nothing) and parse", 1), FILTER_NO);
	CHECK_EQ_U64(judge_stack("main and size>4", 1), FILTER_DEPENDS);
	CHECK_EQ_U64(judge_stack("parse and size>4", 1), FILTER_NO);
	CHECK_EQ_U64(judge_stack("main or size>4", 1), FILTER_YES);
}

static void numbers_choose_blocks(void)
{
	struct filter_block block = {.stack_id = 2,
				     .thread_id = 1,
				     .free_thread_id = 0,
				     .end_known = true,
				     .ended = true,
				     .size_bytes = 65536,
				     .address = 0x1000,
				     .birth_ns = 2000000,
				     .end_ns = 5000000,
				     .now_ns = 4000000,
				     .live_now = true};
	static const char *const yes[] = {"size>=64K",
					  "size=64KiB",
					  "size:65536",
					  "size=1..64K",
					  "size=64K..",
					  "size=..64K",
					  "lifetime=3ms",
					  "lifetime<4ms",
					  "life>=3000us",
					  "age=2ms",
					  "age>1ms",
					  "thread:worker",
					  "thread=101",
					  "foreign",
					  "freed-elsewhere",
					  "kind=heap",
					  "api=malloc",
					  "address=0x1000",
					  "address=0x1fff",
					  "addr=0..0x2000",
					  "not temporary",
					  "not unfreed",
					  "kind!=custom",
					  "size!=1",
					  "age=..2ms and lifetime=2ms.."};
	static const char *const no[] = {
		"size>64K",        "size<64K",      "lifetime>3ms", "age>2ms",     "thread:main",
		"temporary",       "unfreed",       "kind=mapped",  "kind=custom", "api=calloc",
		"address=0x11000", "address=0xfff", "thread=worker"};
	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		if (!CHECK_EQ_U64(judge(yes[i], &block), FILTER_YES))
			tap_note("%s", yes[i]);
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		if (!CHECK_EQ_U64(judge(no[i], &block), FILTER_NO))
			tap_note("%s", no[i]);
	block.ended = false;
	block.end_ns = 9000000; /* of the run */
	CHECK_EQ_U64(judge("unfreed", &block), FILTER_YES);
	CHECK_EQ_U64(judge("lifetime>=7ms", &block), FILTER_YES);
	CHECK_EQ_U64(judge("lifetime<100s", &block), FILTER_NO); /* nobody knows */
	block.end_known = false;
	CHECK_EQ_U64(judge("unfreed", &block), FILTER_DEPENDS);
	CHECK_EQ_U64(judge("unfreed and size=1", &block), FILTER_NO);
}

static void mistakes_are_pointed_at(void)
{
	static const struct {
		const char *text;
		size_t column;
		const char *says;
	} wrong[] = {
		{"size>", 5, "value is missing"},
		{"size>=12q", 6, "not a size"},
		{"main and", 8, "term is missing"},
		{"main and and x", 9, "term is missing"},
		{"(main", 0, "never closed"},
		{"main)", 4, "never opened"},
		{"colour:red", 0, "no term 'colour'"},
		{"main kind=stack", 10, "kind is heap"},
		{"function:/a(b/", 9, "regular expression"},
		{"/abc", 0, "no closing /"},
		{"\"abc", 0, "never closed"},
		{"size=5..2", 5, "ends before it begins"},
		{"size<2..5", 5, "range goes with"},
		{"temporary=1", 10, "stands alone"},
		{"size", 4, "comparison is missing"},
		{"/(a)\\1/", 0, "reference back"},
		{"/((a{99}){99}){99}/", 0, "repeats too often"},
		{"address=zz", 8, "no address"},
		{"size<0", 5, "nothing can be there"},
		{"function:", 9, "name is missing"},
		{"thread>main", 6, ": = != only"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct filter *filter;
		struct tm_error err = {0};
		size_t column = 999;
		CHECK_EQ_I64(filter_parse(wrong[i].text, &filter, &column, &err), -EINVAL);
		if (!CHECK_EQ_U64(column, wrong[i].column) || !CHECK_HAS(err.text, wrong[i].says))
			tap_note("%s", wrong[i].text);
	}
}

static void a_caret_stands_below(void)
{
	struct filter *filter;
	struct tm_error err;
	size_t column;
	struct text out = {0};
	const char *text = "grün and size>x";
	REQUIRE(filter_parse(text, &filter, &column, &err) == -EINVAL);
	filter_explain(&out, text, column, &err);
	CHECK_HAS(text_string(&out), "\n  grün and size>x\n                ^\n");
	text_done(&out);
}

static void long_filters_end(void)
{
	char text[5000] = "";
	struct filter *filter;
	struct tm_error err;
	size_t column;
	for (int i = 0; i < 70; i++)
		strcat(text, "a ");
	CHECK_EQ_I64(filter_parse(text, &filter, &column, &err), -EINVAL);
	CHECK_HAS(err.text, "at most 64 terms");
	memset(text, '(', 200);
	text[200] = 0;
	CHECK_EQ_I64(filter_parse(text, &filter, &column, &err), -EINVAL);
	CHECK_HAS(err.text, "too deep");
	memset(text, 'a', 4900);
	text[4900] = 0;
	CHECK_EQ_I64(filter_parse(text, &filter, &column, &err), -EINVAL);
}

static void printing_keeps_the_meaning(void)
{
	static const char *const texts[] = {"main or not (size>=4K and thread=101)",
					    "time=10%..peak file:/x y/i fn!=\"a \\\" b\"",
					    "kind!=heap api=new -temporary lifetime<5ms",
					    "time>5s time<10s glob*"};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct filter *filter, *again;
		struct text once = {0}, twice = {0};
		REQUIRE(filter_parse(texts[i], &filter, NULL, NULL) == 0);
		filter_print(&once, filter);
		if (!CHECK(filter_parse(text_string(&once), &again, NULL, NULL) == 0)) {
			tap_note("%s", text_string(&once));
			tap_stop();
		}
		filter_print(&twice, again);
		CHECK_STR(text_string(&twice), text_string(&once));
		text_done(&once);
		text_done(&twice);
		filter_free(filter);
		filter_free(again);
	}
}

static void memory_may_run_out(void)
{
	for (long n = 0;; n++) {
		struct filter *filter = NULL;
		struct filter_bound *bound = NULL;
		struct filter_names names = {.frame = name_frame};
		struct filter_context context = {.stacks = stacks,
						 .stack_count = 5,
						 .threads = threads,
						 .thread_count = 2,
						 .names = &names};
		tm_alloc_fail_at(n);
		int rc =
			filter_parse("main and /x/ or \"y\" size=1..2 time>0", &filter, NULL, NULL);
		if (!rc)
			rc = filter_bind(filter, &context, &bound, NULL);
		tm_alloc_fail_at(-1);
		filter_bound_free(bound);
		filter_free(filter);
		if (rc != -ENOMEM) {
			CHECK_EQ_I64(rc, -EINVAL); /* moments are not known here */
			CHECK(n > 5);
			return;
		}
	}
}

static const struct tap_case cases[] = {
	{.name = "names choose stacks", .run = names_choose_stacks},
	{.name = "heaps and tags choose stacks", .run = labels},
	{.name = "and, or, not and brackets combine terms", .run = words_combine},
	{.name = "sizes, times, threads and kinds choose blocks", .run = numbers_choose_blocks},
	{.name = "a mistake is pointed at", .run = mistakes_are_pointed_at},
	{.name = "the caret stands below the character", .run = a_caret_stands_below},
	{.name = "endless filters are refused", .run = long_filters_end},
	{.name = "a filter printed is the same filter", .run = printing_keeps_the_meaning},
	{.name = "a filter without memory fails cleanly", .run = memory_may_run_out},
};
TAP_MAIN(cases)
