/* SPDX-License-Identifier: Apache-2.0 */
/* Names of heaps and tags in the paths of modules: hostile ones, too. */
#include "harness/tap.h"
#include "trace/labels.h"

static void labels_are_told(void)
{
	const char *name = "none";
	CHECK(trace_label_of("[heap] pool", &name) == TRACE_LABEL_HEAP);
	CHECK_STR(name, "pool");
	CHECK(trace_label_of("[tag] request=GET /a b", &name) == TRACE_LABEL_TAG);
	CHECK_STR(name, "request=GET /a b");
	CHECK(trace_label_of("[heap] ", &name) == TRACE_LABEL_HEAP);
	CHECK_STR(name, "");
	CHECK(trace_label_of("[heap] pool", NULL) == TRACE_LABEL_HEAP);
}

static void others_are_none(void)
{
	static const char *const paths[] = {"",          "[heap]", "[vdso]",       "[tag]x",
					    "[heap",     "/lib/a", "x[heap] pool", "[HEAP] pool",
					    "[tags] a=b"};
	const char *name = "kept";
	CHECK(trace_label_of(NULL, &name) == TRACE_LABEL_NONE);
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		CHECK(trace_label_of(paths[i], &name) == TRACE_LABEL_NONE);
	CHECK_STR(name, "kept");
}

static const struct tap_case cases[] = {
	{.name = "the name of a heap or tag is found", .run = labels_are_told},
	{.name = "a file is not taken for a heap", .run = others_are_none},
};
TAP_MAIN(cases)
