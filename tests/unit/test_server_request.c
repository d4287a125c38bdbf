/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"
#include "server/fine_sizes.h"
#include "server/pipe.h"
#include "server/route.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static void paths_lead_to_routes(void)
{
	struct request request = {0};
	const struct route *route = route_find("/traces/last/summary", &request);
	REQUIRE(route != NULL);
	CHECK_STR(route->path, "/traces/{trace}/summary");
	CHECK_STR(request.trace, "last");
	route = route_find("/traces/0123456789ab/stacks/17", &request);
	REQUIRE(route != NULL);
	CHECK_STR(request.trace, "0123456789ab");
	CHECK_STR(request.item, "17");
	CHECK(route_find("", &request) != NULL);
	CHECK(route_find("/", &request) != NULL);
	CHECK(route_find("/traces/", &request) != NULL);
	CHECK(route_find("/traces//summary", &request) == NULL);
	CHECK(route_find("/traces/../../etc/passwd", &request) == NULL);
	CHECK(route_find("/tracesx", &request) == NULL);
	char longest[400];
	memset(longest, 'a', sizeof longest);
	memcpy(longest, "/traces/", 8);
	longest[sizeof longest - 1] = '\0';
	CHECK(route_find(longest, &request) == NULL);
}

static int check(const char *path, const char *name, const char *value)
{
	struct request request = {.param_count = 1, .params = {{name, value}}};
	struct tm_error err = {0};
	const struct route *route = route_find(path, &request);
	REQUIRE(route != NULL);
	int code = route_check(route, &request, &err);
	if (code)
		CHECK(strstr(err.text, name) != NULL);
	return code;
}

static void parameters_are_checked(void)
{
	const char *tree = "/traces/last/tree";
	CHECK_EQ_I64(check(tree, "nodes", "100"), 0);
	CHECK_EQ_I64(check(tree, "nodes", "0"), 0);
	CHECK_EQ_I64(check(tree, "nodes", "-1"), -EINVAL);
	CHECK_EQ_I64(check(tree, "nodes", "1e3"), -EINVAL);
	CHECK_EQ_I64(check(tree, "nodes", ""), -EINVAL);
	CHECK_EQ_I64(check(tree, "nodes", "99999999999999999999999"), -EINVAL);
	CHECK_EQ_I64(check(tree, "nodes", "200001"), -EINVAL);
	CHECK_EQ_I64(check(tree, "direction", "bottom_up"), 0);
	CHECK_EQ_I64(check(tree, "direction", "top"), -EINVAL);
	CHECK_EQ_I64(check(tree, "direction", "top_down|bottom_up"), -EINVAL);
	CHECK_EQ_I64(check(tree, "lines", "yes"), 0);
	CHECK_EQ_I64(check(tree, "lines", "maybe"), -EINVAL);
	CHECK_EQ_I64(check(tree, "from", "40%"), 0);
	CHECK_EQ_I64(check(tree, "colour", "red"), -EINVAL);
	CHECK_EQ_I64(check("/traces", "from", "40%"), -EINVAL);
}

/* ---- pipes ---- */

enum { MANY_BYTES = 3 * 1000 * 1000 };

static void *write_many(void *arg)
{
	struct pipe_out *pipe = arg;
	unsigned char piece[7919];
	size_t sent = 0;
	while (sent < MANY_BYTES) {
		size_t bytes = MANY_BYTES - sent < sizeof piece ? MANY_BYTES - sent : sizeof piece;
		for (size_t i = 0; i < bytes; i++)
			piece[i] = (unsigned char)((sent + i) * 31);
		if (pipe_write(pipe, piece, bytes))
			break;
		sent += bytes;
	}
	pipe_close_writer(pipe);
	return (void *)sent;
}

static void everything_arrives_in_order(void)
{
	struct pipe_out *pipe = pipe_new();
	pthread_t thread;
	unsigned char piece[4093];
	size_t got = 0, bytes, wrong = 0;
	REQUIRE(pipe != NULL && !pthread_create(&thread, NULL, write_many, pipe));
	while ((bytes = pipe_read(pipe, piece, sizeof piece))) {
		for (size_t i = 0; i < bytes; i++)
			wrong += piece[i] != (unsigned char)((got + i) * 31);
		got += bytes;
	}
	pthread_join(thread, NULL);
	pipe_close_reader(pipe);
	CHECK_EQ_U64(got, MANY_BYTES);
	CHECK_EQ_U64(wrong, 0);
}

static void a_reader_that_leaves_stops_the_maker(void)
{
	struct pipe_out *pipe = pipe_new();
	pthread_t thread;
	unsigned char piece[100];
	void *sent;
	REQUIRE(pipe != NULL && !pthread_create(&thread, NULL, write_many, pipe));
	CHECK(pipe_read(pipe, piece, sizeof piece) > 0);
	pipe_close_reader(pipe);
	pthread_join(thread, &sent);
	CHECK((size_t)sent < MANY_BYTES);
}

static void fine_steps_meet(void)
{
	/* Every size is within its step, and steps follow each other without a gap. */
	for (uint32_t bucket = 0; bucket < fine_bucket(UINT64_MAX); bucket++) {
		CHECK_EQ_U64(fine_most(bucket) + 1, fine_least(bucket + 1));
		CHECK_EQ_U64(fine_bucket(fine_least(bucket)), bucket);
		CHECK_EQ_U64(fine_bucket(fine_most(bucket)), bucket);
	}
	CHECK_EQ_U64(fine_most(fine_bucket(UINT64_MAX)), UINT64_MAX);
	CHECK_EQ_U64(fine_least(fine_bucket(100)), 96);
	CHECK_EQ_U64(fine_most(fine_bucket(100)), 103);
}

static const struct tap_case cases[] = {
	{.name = "sizes in fine steps leave none out", .run = fine_steps_meet},
	{.name = "paths lead to routes", .run = paths_lead_to_routes},
	{.name = "parameters are checked", .run = parameters_are_checked},
	{.name = "everything arrives in order", .run = everything_arrives_in_order},
	{.name = "a reader that leaves stops the maker",
	 .run = a_reader_that_leaves_stops_the_maker},
};
TAP_MAIN(cases)
