/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"
#include "server/guard.h"
#include "server/listen.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* 0: may pass; else the status of the refusal. */
static unsigned ask(const struct guard *guard, struct guard_request request)
{
	unsigned status = 0;
	return guard_check(guard, &request, &status) ? status : 0;
}

static void names_of_strangers_are_refused(void)
{
	const struct guard guard = {.is_loopback = true, .own_name = "box"};
	static const char *const good[] = {"localhost",  "localhost:8080", "127.0.0.1:8080",
					   "[::1]:8080", "LOCALHOST:1",    "192.168.1.5"};
	static const char *const bad[] = {
		"evil.example", "evil.example:8080", "box", "localhost.evil.me", "[::1", "",
		"[::1]x",       "127.0.0.1.evil.me"};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = good[i]}), 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = bad[i]}), 403);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){0}), 403);
}

static void allowed_names_pass(void)
{
	const struct guard guard = {
		.is_loopback = true, .own_name = "box", .allow_host = "traces.example"};
	const struct guard open = {.own_name = "box"};
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = "traces.example:80"}), 0);
	CHECK_EQ_U64(ask(&open, (struct guard_request){.host = "box:8080"}), 0);
}

static void other_sites_are_refused(void)
{
	const struct guard guard = {.is_loopback = true};
	const char *host = "127.0.0.1:8080";
	CHECK_EQ_U64(ask(&guard, (struct guard_request){host, "http://127.0.0.1:8080", 0, 0, 0}),
		     0);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){host, "http://127.0.0.1:9", 0, 0, 0}), 403);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){host, "http://evil.example", 0, 0, 0}),
		     403);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){host, "null", 0, 0, 0}), 403);
}

static void the_token_is_needed(void)
{
	struct guard guard = {0};
	REQUIRE(guard_make_token(&guard));
	CHECK_EQ_U64(strlen(guard.token), GUARD_TOKEN_CHARS);
	char bearer[64] = "Bearer ", wrong[64];
	strcat(bearer, guard.token);
	strcpy(wrong, guard.token);
	wrong[3] = wrong[3] == 'a' ? 'b' : 'a';
	const char *host = "10.0.0.1";
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = host}), 401);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = host, .cookie = guard.token}), 0);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = host, .cookie = wrong}), 401);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = host, .cookie = ""}), 401);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = host, .authorization = bearer}), 0);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = host, .authorization = "Bearer "}),
		     401);
	CHECK_EQ_U64(ask(&guard, (struct guard_request){.host = host, .query_token = guard.token}),
		     0);
	struct guard other = {0};
	REQUIRE(guard_make_token(&other));
	CHECK(strcmp(guard.token, other.token) != 0);
}

static void equality_is_whole(void)
{
	CHECK(guard_equal("abc", "abc"));
	CHECK(!guard_equal("abc", "abcabc"));
	CHECK(!guard_equal("abc", "ab"));
	CHECK(!guard_equal("abc", ""));
	CHECK(!guard_equal("", "a"));
	CHECK(guard_equal("", ""));
}

static void check_listen(const char *text, const char *host, unsigned port, bool loopback)
{
	struct listen_address address;
	struct tm_error err = {0};
	REQUIRE(listen_parse(text, &address, &err) == 0);
	CHECK_STR(address.host, host);
	CHECK_EQ_U64(address.port, port);
	CHECK_EQ_U64(address.is_loopback, loopback);
}

static void addresses_are_understood(void)
{
	static const char *const bad[] = {
		"127.0.0.1:",    "127.0.0.1:99999", "example.org:80", "[::1",
		"127.0.0.1:80x", "a:b:c:d:z",       "1.2.3:80",       "-1"};
	check_listen("127.0.0.1:9000", "127.0.0.1", 9000, true);
	check_listen("9000", "127.0.0.1", 9000, true);
	check_listen(":9000", "127.0.0.1", 9000, true);
	check_listen("localhost:1", "127.0.0.1", 1, true);
	check_listen("0.0.0.0", "0.0.0.0", 8080, false);
	check_listen("[::1]:7", "::1", 7, true);
	check_listen("::", "::", 8080, false);
	check_listen("127.9.9.9:1", "127.9.9.9", 1, true);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct listen_address address;
		struct tm_error err = {0};
		CHECK_EQ_I64(listen_parse(bad[i], &address, &err), -EINVAL);
		CHECK(strstr(err.text, "127.0.0.1") != NULL);
	}
}

static void a_busy_port_gives_the_next(void)
{
	struct listen_address first, second;
	struct tm_error err = {0};
	int fds[2];
	REQUIRE(listen_parse("127.0.0.1:0", &first, &err) == 0);
	REQUIRE(listen_open(&first, 20, &fds[0], &err) == 0);
	CHECK(first.port != 0);
	second = first;
	CHECK_EQ_I64(listen_open(&second, 1, &fds[1], &err), -EADDRINUSE);
	CHECK(strstr(err.text, "--listen") != NULL);
	second = first;
	REQUIRE(listen_open(&second, 50, &fds[1], &err) == 0);
	CHECK(second.port > first.port && second.port < first.port + 50);
	close(fds[0]);
	close(fds[1]);
}

static const struct tap_case cases[] = {
	{.name = "names of strangers are refused", .run = names_of_strangers_are_refused},
	{.name = "allowed names pass", .run = allowed_names_pass},
	{.name = "pages of other sites are refused", .run = other_sites_are_refused},
	{.name = "who comes from outside shows the token", .run = the_token_is_needed},
	{.name = "tokens are compared as a whole", .run = equality_is_whole},
	{.name = "addresses to listen on are understood", .run = addresses_are_understood},
	{.name = "a busy port gives the next one", .run = a_busy_port_gives_the_next},
};
TAP_MAIN(cases)
