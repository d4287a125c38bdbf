/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread per connection, so that an answer may take its time; the number of
 * connections, the bytes of a request and the time of silence are bounded.
 */
#include "server/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/page.h"
#include "server/pipe.h"
#include "server/route.h"

enum {
	CONNECTIONS_MAX = 512,
	REQUEST_BYTES_MAX = 32 * 1024,
	SILENCE_SECONDS = 60,
	STACK_BYTES = 512 * 1024,
	PIECE_BYTES = 32 * 1024,
};

struct http {
	struct MHD_Daemon *daemon;
	struct guard guard;
	struct catalog *catalog;
	const struct sources *sources;
	struct metrics metrics;
	bool metrics_only;
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
	_Atomic bool stopping;
	_Atomic int streams; /* makers at work */
};

static const char api_prefix[] = "/api/v1";

static void add_headers(struct MHD_Response *response, const struct answer *answer)
{
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
				answer->type ? answer->type : "application/json; charset=utf-8");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
				answer->cache ? answer->cache : "no-store");
	if (answer->encoding)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING,
					answer->encoding);
	if (answer->disposition[0])
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION,
					answer->disposition);
	/* Names in a trace are hostile: nothing that came from one may run or load. */
	MHD_add_response_header(response, "Content-Security-Policy",
				"default-src 'none'; script-src 'self'; style-src 'self'; "
				"img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; "
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
}

static void add_time(struct MHD_Response *response, uint64_t began_ns)
{
	char text[48];
	snprintf(text, sizeof text, "total;dur=%.3f", (double)(clock_steady_ns() - began_ns) / 1e6);
	MHD_add_response_header(response, "Server-Timing", text);
}

/* Once shown in the address, the token travels as a cookie that scripts cannot read. */
static void add_cookie(struct MHD_Response *response, const struct http *http, const char *query)
{
	char text[128];
	if (!http->guard.has_token || !query || !guard_equal(http->guard.token, query))
		return;
	snprintf(text, sizeof text, "tidemark_token=%s; Path=/; HttpOnly; SameSite=Strict",
		 http->guard.token);
	MHD_add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, text);
}

/* ---- requests ---- */

static enum MHD_Result take_param(void *ctx, enum MHD_ValueKind kind, const char *name,
				  const char *value)
{
	struct request *request = ctx;
	(void)kind;
	if (!strcmp(name, "token"))
		return MHD_YES;
	/* One more than there is room for is kept as a count: it is refused below. */
	if (request->param_count < REQUEST_PARAMS_MAX)
		request->params[request->param_count] =
			(struct request_param){.name = name, .value = value ? value : ""};
	request->param_count++;
	return MHD_YES;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static const char *refuse(const struct http *http, struct MHD_Connection *connection,
			  unsigned *ret_status)
{
	const struct guard_request asked = {
		.host = header(connection, MHD_HTTP_HEADER_HOST),
		.origin = header(connection, MHD_HTTP_HEADER_ORIGIN),
		.authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION),
		.cookie =
			MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, "tidemark_token"),
		.query_token =
			MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token"),
	};
	return guard_check(&http->guard, &asked, ret_status);
}

/* ---- answers in pieces ---- */

struct stream {
	struct http *http;
	const struct route *route;
	struct request request; /* its strings are copies, in `kept` */
	struct text kept;
	struct answer answer;
};

static ssize_t send_piece(void *ctx, uint64_t position, char *buffer, size_t room)
{
	(void)position;
	size_t bytes = pipe_read(ctx, buffer, room);
	if (bytes)
		return (ssize_t)bytes;
	return pipe_has_failed(ctx) ? MHD_CONTENT_READER_END_WITH_ERROR
				    : MHD_CONTENT_READER_END_OF_STREAM;
}

static void stop_reading(void *ctx)
{
	pipe_close_reader(ctx);
}

static void run_route(struct http *http, const struct route *route, const struct request *request,
		      struct answer *answer, int client_fd)
{
	struct tm_error err = {0};
	struct call call = {.catalog = http->catalog,
			    .sources = http->sources,
			    .request = request,
			    .answer = answer,
			    .client_fd = client_fd,
			    .is_ending = &http->stopping};
	if (route_run(route, &call, &err) == 500 && http->log)
		http->log(http->log_ctx, err.text);
}

static void *make_stream(void *ctx)
{
	struct stream *stream = ctx;
	struct http *http = stream->http;
	run_route(http, stream->route, &stream->request, &stream->answer, 0);
	if (stream->answer.body.length)
		pipe_write(stream->answer.out, stream->answer.body.data,
			   stream->answer.body.length);
	pipe_close_writer(stream->answer.out);
	text_done(&stream->answer.body);
	text_done(&stream->kept);
	tm_free(stream);
	atomic_fetch_sub(&http->streams, 1);
	return NULL;
}

/* The parameters live in the connection, which may be gone before the maker is done. */
static bool copy_request(struct stream *stream, const struct request *request)
{
	size_t offsets[REQUEST_PARAMS_MAX][2];
	stream->request = *request;
	for (size_t i = 0; i < request->param_count; i++) {
		offsets[i][0] = stream->kept.length;
		text_put_bytes(&stream->kept, request->params[i].name,
			       strlen(request->params[i].name) + 1);
		offsets[i][1] = stream->kept.length;
		text_put_bytes(&stream->kept, request->params[i].value,
			       strlen(request->params[i].value) + 1);
	}
	if (text_error(&stream->kept))
		return false;
	for (size_t i = 0; i < request->param_count; i++)
		stream->request.params[i] = (struct request_param){
			.name = stream->kept.data + offsets[i][0],
			.value = stream->kept.data + offsets[i][1],
		};
	stream->request.trace = stream->request.names[0];
	stream->request.item = stream->request.names[1];
	stream->request.path = "";
	stream->request.method = "GET";
	return true;
}

/* A response whose body another thread makes; NULL when that cannot be. */
static struct MHD_Response *start_stream(struct http *http, const struct route *route,
					 const struct request *request)
{
	struct stream *stream = tm_alloc(sizeof *stream);
	struct pipe_out *pipe = stream ? pipe_new() : NULL;
	if (!pipe || !copy_request(stream, request)) {
		if (pipe) {
			pipe_close_writer(pipe);
			pipe_close_reader(pipe);
		}
		if (stream)
			text_done(&stream->kept);
		tm_free(stream);
		return NULL;
	}
	stream->http = http;
	stream->route = route;
	stream->answer.out = pipe;
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, PIECE_BYTES, send_piece, pipe, stop_reading);
	pthread_t thread;
	atomic_fetch_add(&http->streams, 1);
	if (response && !pthread_create(&thread, NULL, make_stream, stream)) {
		pthread_detach(thread);
		return response;
	}
	atomic_fetch_sub(&http->streams, 1);
	pipe_close_writer(pipe);
	if (response)
		MHD_destroy_response(response); /* closes the reader */
	else
		pipe_close_reader(pipe);
	text_done(&stream->kept);
	tm_free(stream);
	return NULL;
}

/* ---- the way of a request ---- */

static enum MHD_Result send_answer(struct http *http, struct MHD_Connection *connection,
				   struct answer *answer, uint64_t began_ns)
{
	struct MHD_Response *response;
	if (answer->fixed) {
		response = MHD_create_response_from_buffer(answer->fixed_bytes,
							   (void *)(uintptr_t)answer->fixed,
							   MHD_RESPMEM_PERSISTENT);
	} else {
		response = MHD_create_response_from_buffer(
			answer->body.length, (void *)(uintptr_t)text_string(&answer->body),
			MHD_RESPMEM_MUST_COPY);
	}
	text_done(&answer->body);
	if (!response)
		return MHD_NO;
	add_headers(response, answer);
	add_time(response, began_ns);
	add_cookie(response, http,
		   MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token"));
	enum MHD_Result sent =
		MHD_queue_response(connection, answer->status ? answer->status : 200, response);
	MHD_destroy_response(response);
	return sent;
}

static enum MHD_Result send_stream(struct http *http, struct MHD_Connection *connection,
				   const struct route *route, const struct request *request,
				   uint64_t began_ns)
{
	struct answer answer = {.type = route->type};
	if (route->head)
		route->head(request, &answer);
	struct MHD_Response *response = start_stream(http, route, request);
	if (!response) {
		answer_fail(&answer, 503, "There is no memory for this answer now.");
		return send_answer(http, connection, &answer, began_ns);
	}
	add_headers(response, &answer);
	add_time(response, began_ns);
	enum MHD_Result sent = MHD_queue_response(connection, 200, response);
	MHD_destroy_response(response);
	return sent;
}

/* 0: not known. */
static int client_socket(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	return info && info->connect_fd > 0 ? info->connect_fd : 0;
}

static const struct route *find_route(const char *path, struct request *request,
				      struct answer *answer)
{
	const struct route *route = route_find(path + sizeof api_prefix - 1, request);
	if (!route)
		answer_fail(answer, 404,
			    "There is no such request. GET /api/v1 lists all that there are.");
	return route;
}

static enum MHD_Result answer_request(struct http *http, struct MHD_Connection *connection,
				      const char *path, const char *method)
{
	struct answer answer = {0};
	struct request request = {.method = method, .path = path, .trace = "", .item = ""};
	uint64_t began_ns = clock_steady_ns();
	unsigned status;
	const char *refused = refuse(http, connection, &status);
	bool is_api = !strncmp(path, api_prefix, sizeof api_prefix - 1);
	MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_param, &request);
	if (refused) {
		answer_fail(&answer, status, refused);
	} else if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
		answer_fail(&answer, 405, "Only GET is understood here.");
	} else if (request.param_count > REQUEST_PARAMS_MAX) {
		answer_fail(&answer, 400, "The request has too many parameters.");
	} else if (!strcmp(path, "/metrics")) {
		metrics_answer(&http->metrics, &request, &answer);
	} else if (http->metrics_only) {
		answer_fail(&answer, 404, "Only /metrics is answered here.");
	} else if (!is_api) {
		page_answer(path, header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING), &answer);
	} else {
		const struct route *route = find_route(path, &request, &answer);
		/* What has no head is answered in one piece: with a status that says so. */
		if (route && route->streams && !strcmp(method, "GET") &&
		    (!route->head || route->head(&request, &answer)))
			return send_stream(http, connection, route, &request, began_ns);
		if (route)
			run_route(http, route, &request, &answer, client_socket(connection));
	}
	return send_answer(http, connection, &answer, began_ns);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_bytes, void **state)
{
	static const char seen;
	(void)version;
	(void)upload;
	/* The first call comes with the headers; nothing that is uploaded is kept. */
	if (!*state) {
		*state = (void *)(uintptr_t)&seen;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	return answer_request(ctx, connection, url, method);
}

int http_start(const struct http_options *options, struct http **ret_http, struct tm_error *err)
{
	struct http *http = tm_alloc(sizeof *http);
	if (!http) {
		close(options->listen_fd);
		return tm_fail(err, -ENOMEM, "no memory for the server");
	}
	http->guard = *options->guard;
	http->catalog = options->catalog;
	http->sources = options->sources;
	http->metrics = options->metrics;
	http->metrics_only = options->metrics_only;
	http->log = options->log;
	http->log_ctx = options->log_ctx;
	http->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
			MHD_USE_ITC,
		0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, options->listen_fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_SECONDS,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
	if (!http->daemon) {
		int code = -(errno ? errno : EIO);
		close(options->listen_fd);
		tm_free(http);
		return tm_fail(err, code, "the server cannot be started: %s", strerror(-code));
	}
	*ret_http = http;
	return 0;
}

struct http *http_stop(struct http *http)
{
	if (!http)
		return NULL;
	atomic_store(&http->stopping, true);
	MHD_stop_daemon(http->daemon);
	/* All readers have left by now, so the makers of streams end at their next piece. */
	while (atomic_load(&http->streams))
		nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
	return tm_free(http);
}
