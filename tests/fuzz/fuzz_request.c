/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile requests: any path and any parameters through the parsers of the server (paths,
 * numbers, choices, times, filters, kinds to fold, paths of nodes), on a small real trace.
 * The input is "PATH\nNAME\nVALUE\nNAME\nVALUE..."; answers are made whole and dropped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "golden/scenario.h"
#include "server/catalog.h"
#include "server/guard.h"
#include "server/listen.h"
#include "server/route.h"
#include "server/sources.h"

enum { INPUT_MAX = 8192 };

/* Made once: opening a trace for each input would be all that is measured. */
static struct catalog *catalog;
static struct catalog_entry trace;

static void open_catalog(void)
{
	char path[] = "/tmp/tidemark-fuzz-XXXXXX";
	const char *const paths[] = {path};
	const struct trace_writer_options options = {.addresses = true};
	struct trace_writer *writer;
	struct shown_facts *facts;
	struct tm_error err;
	int fd = mkstemp(path);
	if (fd < 0 || trace_writer_open(fd, &options, &writer, &err))
		abort();
	scenario_write(writer);
	if (trace_writer_close(writer, &err) || catalog_new(paths, NULL, 1, &catalog, &err) ||
	    !catalog_entry(catalog, 0, &trace) || catalog_enter(catalog, trace.id, &facts, &err))
		abort();
	/* It has been read, so its file is not needed any more. */
	shown_leave(facts);
	unlink(path);
}

/* The next line of the text, with its end cut off; NULL at the end. */
static char *next_line(char **text)
{
	char *line = *text;
	if (!line)
		return NULL;
	char *end = strchr(line, '\n');
	*text = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return line;
}

static void ask(char *text)
{
	static const struct sources no_sources;
	struct request request = {.method = "GET", .path = "", .trace = "", .item = ""};
	struct answer answer = {0};
	struct tm_error err = {0};
	const char *path = next_line(&text);
	const struct route *route = route_find(path, &request);
	if (!strcmp(request.names[0], "last"))
		request.trace = trace.id;
	char *name;
	while (request.param_count < REQUEST_PARAMS_MAX && (name = next_line(&text))) {
		const char *value = next_line(&text);
		request.params[request.param_count++] =
			(struct request_param){.name = name, .value = value ? value : ""};
	}
	struct call call = {
		.catalog = catalog, .sources = &no_sources, .request = &request, .answer = &answer};
	/* The page as a file and temporary files have no parsers. */
	if (route && strcmp(request.item, "html") != 0 && strcmp(request.item, "sqlite") != 0)
		route_run(route, &call, &err);
	text_done(&answer.body);
}

/* Headers and addresses are parsed before all that. */
static void knock(const char *text)
{
	struct listen_address address;
	struct tm_error err = {0};
	unsigned status;
	const struct guard guard = {.has_token = true, .token = "abc", .own_name = "me"};
	const struct guard_request request = {.host = text,
					      .origin = text,
					      .authorization = text,
					      .cookie = text,
					      .query_token = text};
	if (!guard_check(&guard, &request, &status) && !strstr(text, "abc"))
		abort();
	(void)!listen_parse(text, &address, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!catalog)
		open_catalog();
	if (size > INPUT_MAX)
		return 0;
	char *text = tm_alloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	knock(text);
	ask(text);
	tm_free(text);
	return 0;
}
