/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients at once, as the server's threads answer them, while the file is
 * read anew again and again: for ThreadSanitizer, and for AddressSanitizer, which
 * sees whether facts are gone before the last who uses them.
 */
#include "harness/tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "golden/scenario.h"
#include "server/catalog.h"
#include "server/route.h"
#include "server/sources.h"

enum { CLIENTS = 6, READINGS = 3 };

static const struct asked {
	const char *path, *name, *value;
} asked[] = {
	{"/traces/last/summary", NULL, NULL},
	{"/traces/last/timeline", "top", "4"},
	{"/traces/last/timeline", "from", "40%"},
	{"/traces/last/sites", "mode", "allocated"},
	{"/traces/last/functions", "to", "60%"},
	{"/traces/last/functions", "search", "a"},
	{"/traces/last/tree", "direction", "bottom_up"},
	{"/traces/last/tree", "fold", "recursion"},
	{"/traces/last/modules", NULL, NULL},
	{"/traces/last/sizes", "fine", "1"},
	{"/traces/last/lifetimes", "filter", "size>10"},
	{"/traces/last/threads", NULL, NULL},
	{"/traces/last/stacks", "mode", "held"},
	{"/traces/last/diff", "base_to", "50%"},
	{"/traces/last/growth", NULL, NULL},
	{"/traces", NULL, NULL},
};
enum { ASKED = sizeof asked / sizeof asked[0] };

struct crowd {
	struct catalog *catalog;
	const char *path;
	_Atomic unsigned next, bad;
	_Atomic bool is_over;
};

static void ask(struct crowd *crowd, const struct asked *what)
{
	static const struct sources no_sources;
	struct request request = {.method = "GET", .path = "", .trace = "", .item = ""};
	struct answer answer = {0};
	struct tm_error err = {0};
	const struct route *route = route_find(what->path, &request);
	if (what->name)
		request.params[request.param_count++] =
			(struct request_param){.name = what->name, .value = what->value};
	struct call call = {.catalog = crowd->catalog,
			    .sources = &no_sources,
			    .request = &request,
			    .answer = &answer};
	if (!route || route_run(route, &call, &err) != 200 || !answer.body.length) {
		atomic_fetch_add(&crowd->bad, 1);
		tap_note("%s %s: %s", what->path, what->name ? what->name : "", err.text);
	}
	text_done(&answer.body);
}

static void *client(void *ctx)
{
	struct crowd *crowd = ctx;
	unsigned at = atomic_fetch_add(&crowd->next, 1) * 5;
	while (!atomic_load(&crowd->is_over))
		ask(crowd, &asked[at++ % ASKED]);
	return NULL;
}

/* Until the file has been read some times, since it has another time of change each time. */
static void change_file(struct crowd *crowd)
{
	for (uint64_t version = 0; version < READINGS;) {
		struct shown_facts *facts;
		struct tm_error err;
		utimensat(AT_FDCWD, crowd->path, NULL, 0);
		REQUIRE(catalog_enter(crowd->catalog, "last", &facts, &err) == 0);
		version = facts->version;
		shown_leave(facts);
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
}

static void many_clients_at_once(void)
{
	char path[] = "/tmp/tidemark-threads-XXXXXX";
	const char *const paths[] = {path};
	const struct trace_writer_options options = {.addresses = true};
	struct crowd crowd = {.path = path};
	struct trace_writer *writer;
	struct tm_error err;
	pthread_t clients[CLIENTS];
	int fd = mkstemp(path);
	REQUIRE(fd >= 0 && trace_writer_open(fd, &options, &writer, &err) == 0);
	scenario_write(writer);
	REQUIRE(trace_writer_close(writer, &err) == 0);
	REQUIRE(catalog_new(paths, NULL, 1, &crowd.catalog, &err) == 0);
	for (size_t i = 0; i < CLIENTS; i++)
		REQUIRE(pthread_create(&clients[i], NULL, client, &crowd) == 0);
	change_file(&crowd);
	atomic_store(&crowd.is_over, true);
	for (size_t i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	CHECK_EQ_U64(crowd.bad, 0);
	catalog_free(crowd.catalog);
	unlink(path);
}

static const struct tap_case cases[] = {
	{.name = "many clients at once see whole answers", .run = many_clients_at_once},
};
TAP_MAIN(cases)
