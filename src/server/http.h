/* SPDX-License-Identifier: Apache-2.0 */
/* Between libmicrohttpd and the routes. */
#pragma once

#include "server/guard.h"
#include "server/metrics.h"
#include "server/server.h"

struct catalog;
struct http;
struct sources;

struct http_options {
	int listen_fd; /* taken over, also on failure */
	const struct guard *guard;
	struct catalog *catalog;
	const struct sources *sources;
	struct metrics metrics;
	bool metrics_only; /* answers nothing but /metrics */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
};

TM_MUST_CHECK int http_start(const struct http_options *options, struct http **ret_http,
			     struct tm_error *err);
struct http *http_stop(struct http *http);
