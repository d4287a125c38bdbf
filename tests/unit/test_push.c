/* SPDX-License-Identifier: Apache-2.0 */
/* Where profiles are pushed to, and what waits to be pushed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "harness/tap.h"
#include "server/post.h"
#include "server/push_queue.h"

static void addresses_are_read(void)
{
	static const struct {
		const char *text, *host, *port, *authority, *target;
	} good[] = {
		{"http://127.0.0.1", "127.0.0.1", "80", "127.0.0.1", "/"},
		{"http://pyro.example:4040/ingest?name=a", "pyro.example", "4040",
		 "pyro.example:4040", "/ingest?name=a"},
		{"HTTP://[::1]:9/x#part", "::1", "9", "[::1]:9", "/x"},
		{"http://[::1]/", "::1", "80", "[::1]", "/"},
		{"http://host?q={program}", "host", "80", "host", "/?q={program}"},
		{"http://host:65535", "host", "65535", "host:65535", "/"},
	};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		struct post_url url;
		struct tm_error err = {0};
		CHECK_EQ_I64(post_url_parse(good[i].text, &url, &err), 0);
		CHECK_STR(url.host, good[i].host);
		CHECK_STR(url.port, good[i].port);
		CHECK_STR(url.authority, good[i].authority);
		CHECK_STR(url.target, good[i].target);
	}
}

static void wrong_addresses_are_refused(void)
{
	static const char *const bad[] = {"",
					  "host",
					  "http:",
					  "http://",
					  "http:///x",
					  "http://:80/",
					  "http://host:/",
					  "http://host:0/",
					  "http://host:65536/",
					  "http://host:123456/",
					  "http://host:8x/",
					  "http://[::1",
					  "http://[::1]x/",
					  "http://[]/",
					  "http://a b/",
					  "http://a/\r\nX: y",
					  "http://a/\x7f",
					  "https://host/",
					  "ftp://host/",
					  "http://me@host/",
					  "http://me:word@host/"};
	char longest[POST_TARGET_BYTES + 32] = "http://host/";
	struct post_url url;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct tm_error err = {0};
		CHECK_EQ_I64(post_url_parse(bad[i], &url, &err), -EINVAL);
		CHECK(err.text[0]);
	}
	memset(longest + 12, 'x', POST_TARGET_BYTES);
	CHECK_EQ_I64(post_url_parse(longest, &url, NULL), -EINVAL);
	snprintf(longest, sizeof longest, "http://%0*d/", POST_HOST_BYTES, 1);
	CHECK_EQ_I64(post_url_parse(longest, &url, NULL), -EINVAL);
}

static struct push_item item_of(unsigned number, size_t bytes)
{
	char name[16];
	snprintf(name, sizeof name, "/%u", number);
	return (struct push_item){
		.target = tm_strdup(name), .body = tm_strdup("body"), .bytes = bytes};
}

static void check_next(struct push_queue *queue, unsigned number)
{
	char name[16];
	struct push_item item;
	snprintf(name, sizeof name, "/%u", number);
	CHECK(push_queue_take(queue, &item));
	CHECK_STR(item.target, name);
	push_item_done(&item);
}

static void the_oldest_go_when_many_wait(void)
{
	struct push_queue queue;
	size_t dropped = 0;
	push_queue_init(&queue);
	for (unsigned i = 0; i < PUSH_QUEUE_ITEMS + 5; i++) {
		struct push_item item = item_of(i, 4);
		dropped += push_queue_put(&queue, &item);
	}
	CHECK_EQ_U64(dropped, 5);
	CHECK_EQ_U64(push_queue_count(&queue), PUSH_QUEUE_ITEMS);
	check_next(&queue, 5);
	check_next(&queue, 6);
	push_queue_done(&queue);
}

static void the_oldest_go_when_much_waits(void)
{
	struct push_queue queue;
	const size_t bytes[] = {10, PUSH_QUEUE_BYTES / 2, PUSH_QUEUE_BYTES / 2 - 10,
				PUSH_QUEUE_BYTES / 2, PUSH_QUEUE_BYTES * 2ul};
	const size_t dropped[] = {0, 0, 0, 2, 2};
	struct push_item item;
	push_queue_init(&queue);
	for (unsigned i = 0; i < 5; i++) {
		item = item_of(i, bytes[i]);
		CHECK_EQ_U64(push_queue_put(&queue, &item), dropped[i]);
	}
	/* What is larger than all of it still goes, alone. */
	CHECK_EQ_U64(push_queue_count(&queue), 1);
	push_queue_close(&queue);
	check_next(&queue, 4);
	CHECK(!push_queue_take(&queue, &item));
	push_queue_done(&queue);
}

static void nothing_answers_at_a_closed_port(void)
{
	struct post_url url;
	struct tm_error err = {0};
	int status = 0;
	CHECK_EQ_I64(post_url_parse("http://127.0.0.1:1/", &url, &err), 0);
	const struct post post = {.url = &url,
				  .type = "text/plain",
				  .body = "x",
				  .bytes = 1,
				  .timeout_ms = 0,
				  .cancel_fd = -1};
	int code = post_send(&post, &status, &err);
	CHECK(code == -ECONNREFUSED || code == -ETIMEDOUT);
	CHECK(strstr(err.text, "127.0.0.1:1"));
}

static const struct tap_case cases[] = {
	{.name = "profiles go to the address that was named", .run = addresses_are_read},
	{.name = "a wrong address is explained", .run = wrong_addresses_are_refused},
	{.name = "memory stays bounded while nobody takes profiles",
	 .run = the_oldest_go_when_many_wait},
	{.name = "memory stays bounded when profiles are large",
	 .run = the_oldest_go_when_much_waits},
	{.name = "a receiver that is gone is named", .run = nothing_answers_at_a_closed_port},
};
TAP_MAIN(cases)
