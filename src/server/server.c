/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/catalog.h"
#include "server/http.h"
#include "server/listen.h"
#include "server/push.h"
#include "server/sources.h"

enum { PORTS_DEFAULT = 20 };

struct server {
	struct catalog *catalog;
	struct http *http;
	struct push *push;
	struct sources sources;
	struct metrics metrics;
	uint16_t port;
	char address[160];
};

static int make_guard(const struct server_options *options, const struct listen_address *listen,
		      struct guard *guard, struct tm_error *err)
{
	guard->is_loopback = listen->is_loopback;
	if (gethostname(guard->own_name, sizeof guard->own_name))
		guard->own_name[0] = '\0';
	guard->own_name[sizeof guard->own_name - 1] = '\0';
	if (options->allow_host)
		snprintf(guard->allow_host, sizeof guard->allow_host, "%s", options->allow_host);
	if (options->token) {
		if (strlen(options->token) > GUARD_TOKEN_CHARS || !options->token[0])
			return tm_fail(err, -EINVAL, "a token has 1 to %d letters or digits",
				       GUARD_TOKEN_CHARS);
		strcpy(guard->token, options->token);
		guard->has_token = true;
		return 0;
	}
	if (!listen->is_loopback && !guard_make_token(guard))
		return tm_fail(err, -EIO, "the system has no random numbers for a token");
	return 0;
}

static void write_address(struct server *server, const struct listen_address *listen,
			  const struct guard *guard)
{
	const char *host = listen->host;
	bool is_any = !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
	if (is_any && guard->own_name[0])
		host = guard->own_name;
	bool brackets = listen->is_ipv6 && !is_any;
	snprintf(server->address, sizeof server->address, "http://%s%.80s%s:%u/%s%s",
		 brackets ? "[" : "", host, brackets ? "]" : "", (unsigned)listen->port,
		 guard->has_token ? "?token=" : "", guard->has_token ? guard->token : "");
}

/* What the recorder writes now may be a new file. */
static void look_for_new(void *ctx)
{
	const struct server *server = ctx;
	metrics_follow(&server->metrics);
}

static int start_push(struct server *server, const struct server_options *options,
		      struct tm_error *err)
{
	const struct push_options push = {.catalog = server->catalog,
					  .url = options->push_url,
					  .interval_ns = options->push_interval_ns,
					  .before = look_for_new,
					  .before_ctx = server,
					  .log = options->log,
					  .log_ctx = options->log_ctx};
	int code = options->push_url ? push_start(&push, &server->push, err) : 0;
	server->metrics.push = server->push;
	return code;
}

static int start_http(struct server *server, const struct server_options *options,
		      struct listen_address *listen, const struct guard *guard,
		      struct tm_error *err)
{
	int fd;
	int code = listen_open(listen, options->ports ? options->ports : PORTS_DEFAULT, &fd, err);
	if (code)
		return code;
	const struct http_options http = {.listen_fd = fd,
					  .guard = guard,
					  .catalog = server->catalog,
					  .sources = &server->sources,
					  .metrics = server->metrics,
					  .metrics_only = options->metrics_only,
					  .log = options->log,
					  .log_ctx = options->log_ctx};
	server->sources = (struct sources){.maps = options->source_maps,
					   .map_count = options->source_map_count,
					   .folders = options->source_folders,
					   .folder_count = options->source_folder_count,
					   .editor = options->editor};
	server->port = listen->port;
	write_address(server, listen, guard);
	return http_start(&http, &server->http, err);
}

static int start(struct server *server, const struct server_options *options, struct tm_error *err)
{
	struct listen_address listen;
	struct guard guard = {0};
	int code = listen_parse(options->listen ? options->listen : "127.0.0.1:8080", &listen, err);
	if (!code)
		code = make_guard(options, &listen, &guard, err);
	if (!code)
		code = catalog_new(options->paths, options->names, options->path_count,
				   &server->catalog, err);
	if (code)
		return code;
	catalog_watch(server->catalog,
		      (struct shown_watcher){options->progress, options->progress_ctx});
	server->metrics = (struct metrics){.catalog = server->catalog,
					   .recorder = options->recorder,
					   .recordings = options->recordings,
					   .recorder_ctx = options->recorder_ctx};
	code = start_push(server, options, err);
	if (!code && !options->push_only)
		code = start_http(server, options, &listen, &guard, err);
	return code;
}

int server_start(const struct server_options *options, struct server **ret_server,
		 struct tm_error *err)
{
	struct server *server = tm_alloc(sizeof *server);
	if (!server)
		return tm_fail(err, -ENOMEM, "no memory for the server");
	int code = start(server, options, err);
	if (code) {
		server_stop(server);
		return code;
	}
	*ret_server = server;
	return 0;
}

struct server *server_stop(struct server *server)
{
	if (!server)
		return NULL;
	if (server->catalog && !server->push)
		catalog_cancel(server->catalog);
	http_stop(server->http);
	push_stop(server->push); /* after those who ask how it goes */
	catalog_free(server->catalog);
	return tm_free(server);
}

const char *server_address(const struct server *server)
{
	return server->address;
}

uint16_t server_port(const struct server *server)
{
	return server->port;
}

size_t server_trace_count(const struct server *server)
{
	return catalog_refresh(server->catalog);
}
