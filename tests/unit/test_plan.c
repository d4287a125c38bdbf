/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points found in the allocators of this machine, and in lists that users write. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "harness/tap.h"
#include "inject/plan.h"
#include "inject/plan_hook.h"
#include "inject/plan_names.h"

static struct plan *plan_of(const char *path, const struct plan_hooks *hooks)
{
	struct plan *plan = NULL;
	struct tm_error err = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		tap_skip(path);
	struct plan_source source = {.fd = fd, .bias = 0x10000, .what = PLAN_ALL, .hooks = hooks};
	if (!CHECK_EQ_I64(plan_new(&source, &plan, &err), 0))
		tap_note("%s: %s", path, err.text);
	close(fd);
	return plan;
}

static const struct plan_entry *entry_named(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->entry_count; i++)
		if (!strcmp(plan->entries[i].name, name))
			return &plan->entries[i];
	return NULL;
}

struct expected {
	const char *path;
	const char *allocator;
	const char *const *names;
};

static void check_library(const struct expected *expected)
{
	struct plan *plan = plan_of(expected->path, NULL);

	REQUIRE(plan);
	CHECK(plan->has_symbols);
	CHECK(plan->has_malloc);
	for (size_t i = 0; i < plan->refusal_count; i++) {
		CHECK(!"refused");
		tap_note("%s: %s", plan->refusals[i].name, plan->refusals[i].reason);
	}
	for (size_t i = 0; expected->names[i]; i++) {
		const struct plan_entry *entry = entry_named(plan, expected->names[i]);
		if (!CHECK(entry != NULL) || !CHECK_STR(entry->allocator, expected->allocator))
			tap_note("%s in %s", expected->names[i], expected->path);
	}
	for (size_t i = 1; i < plan->entry_count; i++)
		CHECK(plan->entries[i - 1].reloc.address < plan->entries[i].reloc.address);
	plan_free(plan);
}

static void glibc(void)
{
	static const char *const names[] = {
		"malloc",         "calloc",   "realloc", "free",    "reallocarray",
		"posix_memalign", "memalign", "valloc",  "pvalloc", NULL};
	check_library(&(struct expected){"/lib/x86_64-linux-gnu/libc.so.6", "malloc", names});
}

static void musl(void)
{
	static const char *const names[] = {"malloc",         "calloc",        "realloc",  "free",
					    "posix_memalign", "aligned_alloc", "memalign", NULL};
	check_library(&(struct expected){"/usr/lib/x86_64-linux-musl/libc.so", "malloc", names});
}

static void jemalloc(void)
{
	static const char *const names[] = {"malloc",         "calloc",  "realloc",       "free",
					    "posix_memalign", "mallocx", "aligned_alloc", "rallocx",
					    "xallocx",        "dallocx", "sdallocx",      "_Znwm",
					    "_ZdlPv",         NULL};
	check_library(&(struct expected){"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "jemalloc",
					 names});
}

static void mimalloc(void)
{
	static const char *const names[] = {
		"mi_malloc", "mi_calloc",      "mi_realloc",         "mi_free",        "mi_new",
		"mi_zalloc", "mi_heap_malloc", "mi_realloc_aligned", "mi_heap_strdup", NULL};
	check_library(&(struct expected){"/usr/lib/x86_64-linux-gnu/libmimalloc.so.2", "mimalloc",
					 names});
}

static void tcmalloc(void)
{
	static const char *const names[] = {"tc_malloc", "tc_calloc",   "tc_realloc",
					    "tc_new",    "tc_memalign", NULL};
	static const char *const paths[] = {
		"/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
		"/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
		"/usr/lib/x86_64-linux-gnu/libtcmalloc_debug.so.4",
	};
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		check_library(&(struct expected){paths[i], "tcmalloc", names});
}

/* mi_new may throw: its twin is to be tried first. */
static void twins(void)
{
	struct plan *plan = plan_of("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", NULL);
	const struct plan_entry *entry = plan ? entry_named(plan, "_Znwm") : NULL;

	REQUIRE(entry && entry->twin < plan->entry_count);
	CHECK_EQ_U64(entry->site.hook, WIRE_HOOK_NEW);
	CHECK_STR(plan->entries[entry->twin].name, "_ZnwmRKSt9nothrow_t");
	plan_free(plan);
}

/* operator new of the C++ library calls malloc: hooked twice it would be counted twice. */
static void plain_operators(void)
{
	struct plan *plan = plan_of("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", NULL);

	REQUIRE(plan);
	CHECK_EQ_U64(plan->entry_count, 0);
	CHECK_EQ_U64(plan->refusal_count, 0);
	plan_free(plan);
}

/* ---- symbols of this very program ---- */

int plan_test_data = 1;
void *plan_test_short(void);
void *plan_test_one(size_t bytes);
void plan_test_release(void *block);

/* One byte, and the next function right behind it. */
__asm__(".text\n.globl plan_test_short\n.type plan_test_short,@function\n"
	"plan_test_short: ret\n.size plan_test_short,1\n"
	".globl plan_test_behind\n.type plan_test_behind,@function\n"
	"plan_test_behind: xor %eax,%eax\nret\n.size plan_test_behind,3\n"
	".globl plan_test_one\n.type plan_test_one,@function\n"
	".globl plan_test_alias\n.type plan_test_alias,@function\n"
	"plan_test_one: plan_test_alias: lea 1(%rdi),%rax\nnop\nnop\nret\n"
	".size plan_test_one,7\n.size plan_test_alias,7\n"
	".globl plan_test_chosen\n.type plan_test_chosen,@gnu_indirect_function\n"
	"plan_test_chosen: lea plan_test_one(%rip),%rax\nret\n.size plan_test_chosen,8\n"
	".type plan_test_gone.constprop.0,@function\n"
	"plan_test_gone.constprop.0: lea 1(%rdi),%rax\nnop\nnop\nret\n"
	".size plan_test_gone.constprop.0,7\n");

static const char *reason_for(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->refusal_count; i++)
		if (!strcmp(plan->refusals[i].name, name))
			return plan->refusals[i].reason;
	return "";
}

static void kinds_of_symbols(void)
{
	struct plan_hooks hooks = {0};
	struct tm_error err = {0};

	REQUIRE(plan_hooks_add(&hooks,
			       "alloc=plan_test_one alloc=plan_test_alias alloc=plan_test_data "
			       "alloc=plan_test_short alloc=plan_test_chosen "
			       "alloc=plan_test_gone alloc=plan_test_missing name=pool",
			       &err) == 0);
	struct plan *plan = plan_of("/proc/self/exe", &hooks);
	REQUIRE(plan);
	CHECK_EQ_U64(plan->hooks_found, 0x3f); /* all but the last */
	/* Two names of one function are one hook. */
	const struct plan_entry *entry = entry_named(plan, "plan_test_one");
	REQUIRE(entry);
	CHECK_STR(entry->allocator, "pool");
	CHECK(!entry_named(plan, "plan_test_alias"));
	CHECK_HAS(reason_for(plan, "plan_test_data"), "data, not a function");
	CHECK_HAS(reason_for(plan, "plan_test_short"), "shorter than the jump");
	CHECK_HAS(reason_for(plan, "plan_test_chosen"), "ifunc");
	CHECK_HAS(reason_for(plan, "plan_test_gone.constprop.0"), "arguments differ");
	CHECK_STR(reason_for(plan, "plan_test_missing"), "");
	plan_free(plan);
	plan_hooks_done(&hooks);
}

/* Names that are looked for must all pass the sieve, by whatever they are known. */
static void names_that_pass(void)
{
	static const char *const known[] = {"plan_mallocx", "plan_dallocx", "plan_malloc",
					    "malloc",       "_Znwm",        "mi_malloc",
					    "brk",          "rawAlloc__u1", "tc_free"};
	struct plan_prefixes prefixes = {0};
	struct plan_sieve sieve = {0};
	struct plan_match match;

	plan_prefixes_add(&prefixes, "plan_mallocx");
	plan_names_sieve(&prefixes, &sieve);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		CHECK(plan_names_find(known[i], &prefixes, &match));
		if (!CHECK(plan_sieve_passes(&sieve, known[i])))
			tap_note("%s", known[i]);
	}
	CHECK(!plan_sieve_passes(&sieve, "_ZN4llvm5ValueD1Ev"));
	CHECK(!plan_sieve_passes(&sieve, ""));
	plan_sieve_add(&sieve, "ab");
	CHECK(plan_sieve_passes(&sieve, "ab.constprop.0"));
}

/* ---- lists ---- */

static void lists(void)
{
	struct plan_hooks hooks = {0};
	struct tm_error err = {0};

	REQUIRE(plan_hooks_add(&hooks,
			       "alloc=a(size=1) free=f(ptr=2)  realloc=r(ptr=1, size=2,align=3) "
			       "alloc=c(count=0,size=1) alloc=o(out=0,size=2)",
			       &err) == 0);
	REQUIRE(plan_hooks_add(&hooks, " alloc=x name=arena free=y ", &err) == 0);
	CHECK_EQ_U64(hooks.count, 7);
	CHECK_STR(hooks.list[0].name.name, "a");
	CHECK_STR(hooks.list[2].allocator, "a");
	CHECK_EQ_U64(hooks.list[0].name.site.size, 1);
	CHECK_EQ_U64(hooks.list[1].name.site.hook, WIRE_HOOK_FREE);
	CHECK_EQ_U64(hooks.list[1].name.site.pointer, 2);
	CHECK_EQ_U64(hooks.list[2].name.site.pointer, 1);
	CHECK_EQ_U64(hooks.list[2].name.site.alignment, 3);
	CHECK_EQ_U64(hooks.list[3].name.site.count, 0);
	CHECK_EQ_U64(hooks.list[4].name.site.hook, WIRE_HOOK_OUT);
	CHECK_EQ_U64(hooks.list[4].name.site.pointer, 0);
	CHECK_STR(hooks.list[5].allocator, "arena");
	CHECK_EQ_U64(hooks.list[6].name.site.pointer, 0);
	CHECK_STR(plan_hooks_find(&hooks, "y")->allocator, "arena");
	CHECK(!plan_hooks_find(&hooks, "z"));
	plan_hooks_done(&hooks);
}

static void wrong_lists(void)
{
	static const struct {
		const char *text;
		const char *message;
	} wrong[] = {
		{"", "at its end, a function"},
		{"   ", "at its end, a function"},
		{"malloc", "character 1 ('malloc'): expected alloc=, free=, realloc= or name="},
		{"alloc", "at its end, '=' and a function is missing"},
		{"alloc=", "at its end, a function's name is missing"},
		{"alloc=(size=1)", "character 7 ('(size=1)'): expected a function's name"},
		{"alloc=a(size=1", "at its end, ',' or ')' is missing"},
		{"alloc=a(size=6)", "character 14 ('6)'): expected an argument's number, 0 to 5"},
		{"alloc=a(size=x)", "character 14 ('x)')"},
		{"alloc=a(bytes=1)", "character 9 ('bytes=1)'): expected size, count, align"},
		{"alloc=a(size)", "character 13 (')'): expected '='"},
		{"alloc=a(size=1,size=2)", "character 16 ('size=2)'): expected each word once"},
		{"alloc=a()", "character 9 (')')"},
		{"alloc=a(size=1)free=b", "character 16 ('free=b'): expected a blank"},
		{"alloc=a free=b(size=1)", "character 15 ('(size=1)'): expected only ptr"},
		{"alloc=a(ptr=1)", "no ptr for an alloc"},
		{"realloc=a(out=1)", "no out for a realloc"},
		{"free=a", "at its end, a function that allocates"},
		{"alloc=a =b", "character 9 ('=b')"},
	};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct plan_hooks hooks = {0};
		struct tm_error err = {0};
		CHECK_EQ_I64(plan_hooks_add(&hooks, wrong[i].text, &err), -EINVAL);
		CHECK_HAS(err.text, wrong[i].message);
		CHECK_EQ_U64(hooks.count, 0);
		plan_hooks_done(&hooks);
	}
}

static void no_memory(void)
{
	static const char text[] = "alloc=plan_test_one free=plan_test_short";

	for (long n = 0;; n++) {
		struct plan_hooks hooks = {0};
		struct plan *plan = NULL;
		struct tm_error err = {0};
		int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		tm_alloc_fail_at(n);
		int error = plan_hooks_add(&hooks, text, &err);
		struct plan_source source = {.fd = fd, .what = PLAN_ALL, .hooks = &hooks};
		if (!error)
			error = plan_new(&source, &plan, &err);
		tm_alloc_fail_at(-1);
		bool whole = plan && plan->entry_count;
		plan_free(plan);
		plan_hooks_done(&hooks);
		close(fd);
		if (!error && whole)
			break;
		REQUIRE(n < 1000);
	}
}

static void no_program(void)
{
	struct plan *plan = NULL;
	struct tm_error err = {0};
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct plan_source source = {.fd = fd, .what = PLAN_ALL};

	CHECK_EQ_I64(plan_new(&source, &plan, &err), -ENOEXEC);
	CHECK(!plan);
	close(fd);
}

static const struct tap_case cases[] = {
	{.name = "every entry point of glibc can be patched", .run = glibc},
	{.name = "every entry point of musl can be patched", .run = musl},
	{.name = "every entry point of jemalloc can be patched", .run = jemalloc},
	{.name = "every entry point of mimalloc can be patched", .run = mimalloc},
	{.name = "every entry point of tcmalloc can be patched", .run = tcmalloc},
	{.name = "no name that is looked for is sieved out", .run = names_that_pass},
	{.name = "a function that throws has its twin", .run = twins},
	{.name = "operator new that calls malloc is left to malloc", .run = plain_operators},
	{.name = "data, ifuncs, aliases, short functions and variants", .run = kinds_of_symbols},
	{.name = "a user's list is understood", .run = lists},
	{.name = "a mistake in a list is shown where it is", .run = wrong_lists},
	{.name = "memory runs out at any moment", .run = no_memory},
	{.name = "what is no program is refused", .run = no_program},
};
TAP_MAIN(cases)
