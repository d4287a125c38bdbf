/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"
#include "symbols/resolve.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct seen {
	size_t requests, named;
	char last[256];
};

static int note(void *ctx, size_t request, const struct symbols_frame *frames, size_t count)
{
	struct seen *seen = ctx;
	CHECK_EQ_U64(request, seen->requests);
	seen->requests++;
	seen->named += count > 0;
	if (count)
		snprintf(seen->last, sizeof seen->last, "%s", frames[count - 1].function);
	return 0;
}

__attribute__((noinline)) static int known_function(int x)
{
	return x * 3 + getppid();
}

static uint64_t own_bias(void)
{
	return (uint64_t)_r_debug.r_map->l_addr;
}

static const char *own_path(void)
{
	static char path[4096];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
	REQUIRE(bytes > 0);
	path[bytes] = '\0';
	return path;
}

/* Reading the second module's path is a segmentation fault, in the worker alone. */
static void crash(void)
{
	const struct trace_module modules[] = {
		{0},
		{.module_id = 1, .bias = own_bias(), .path = own_path()},
		{.module_id = 2, .path = (const char *)8},
		{.module_id = 3, .bias = own_bias(), .path = own_path()},
	};
	uint64_t address = (uintptr_t)known_function + 1;
	const struct symbols_request requests[] = {
		{1, address}, {1, address + 1}, {2, 5}, {3, address}};
	struct resolve_batch batch = {
		.modules = modules,
		.module_count = 4,
		.requests = requests,
		.request_count = 4,
	};
	REQUIRE(symbols_new(&(struct symbols_options){0}, &batch.symbols, NULL) == 0);
	struct seen seen = {0};
	size_t done = 99;
	CHECK_EQ_I64(worker_resolve(&batch, 0, note, &seen, &done), 0);
	CHECK_EQ_U64(done, 2);
	CHECK_EQ_U64(seen.requests, 2);
	CHECK_EQ_U64(seen.named, 2);
	CHECK_HAS(seen.last, "known_function");
	CHECK(known_function(1) != 0);
	/* Nobody is left behind. */
	CHECK_EQ_I64(waitpid(-1, NULL, WNOHANG), -1);
	symbols_free(batch.symbols);
}

static void all_answered(void)
{
	const struct trace_module modules[] = {
		{0},
		{.module_id = 1, .bias = own_bias(), .path = own_path()},
	};
	enum { COUNT = 20000 };
	static struct symbols_request requests[COUNT];
	for (size_t i = 0; i < COUNT; i++)
		requests[i] = (struct symbols_request){1, (uintptr_t)known_function + i / 5000};
	struct resolve_batch batch = {
		.modules = modules,
		.module_count = 2,
		.requests = requests,
		.request_count = COUNT,
	};
	REQUIRE(symbols_new(&(struct symbols_options){0}, &batch.symbols, NULL) == 0);
	struct seen seen = {0};
	size_t done = 0;
	CHECK_EQ_I64(worker_resolve(&batch, 0, note, &seen, &done), 0);
	CHECK_EQ_U64(done, COUNT);
	CHECK_EQ_U64(seen.named, COUNT);
	symbols_free(batch.symbols);
}

static const struct tap_case cases[] = {
	{.name = "a file that crashes the reader costs its own lines only", .run = crash},
	{.name = "many addresses are all answered, in order", .run = all_answered},
};
TAP_MAIN(cases)
