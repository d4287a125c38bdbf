/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of the server: traces over HTTP, as JSON for programs and as a page
 * for people. docs/http-api.md describes the requests.
 *
 *   connection -> guard (who asks, from where) -> route -> trace -> answer
 *
 * Reachable from this machine only unless told otherwise, and then with a token
 * that every request must show. No path of a request reaches the file system:
 * traces are known by ids that the server gave out.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;

/* A trace that is being written, as its recorder says. */
struct server_recording {
	const char *path;                /* real and absolute */
	uint64_t lost_events, waited_ns; /* the program waited for it so long */
	uint64_t bytes_per_hour;         /* by which the file grows */
	uint64_t full_in_ns;             /* until disk or limit are full; 0 not known, or never */
	uint64_t disk_free_bytes;
};
typedef void (*server_recording_fn)(void *ctx, const struct server_recording *recording);

struct server_options {
	const char *const *paths; /* trace files and folders; borrowed during server_start() */
	const char *const *names; /* what to call them where the path says nothing; NULL = none */
	size_t path_count;
	const char *listen;     /* "127.0.0.1:8080", "[::1]:0", "8080"; NULL = the first */
	const char *allow_host; /* one more name by which browsers may call us; NULL = none */
	const char *token;      /* NULL: made when `listen` is not a loopback address */
	/* For the text of source files; all borrowed for the life of the server. */
	const char *const *source_maps; /* "FROM=TO" */
	size_t source_map_count;
	const char *const *source_folders;
	size_t source_folder_count;
	const char *editor; /* "vscode://file/{file}:{line}"; NULL = none */
	uint32_t ports;     /* how many ports to try when the first is busy; 0 = 20 */
	/* While a file is read that has no index: its name, events done and in all; at the end
	 * done == total. NULL = nobody listens. The thread that reads. */
	void (*progress)(void *ctx, const char *path, uint64_t done_events, uint64_t total_events);
	void *progress_ctx;
	bool metrics_only; /* answers nothing but /metrics */
	bool push_only;    /* does not listen at all */
	/* CPU time and memory of the process that records, for /metrics; NULL = not known. Any
	 * thread. */
	bool (*recorder)(void *ctx, uint64_t *ret_cpu_ns, uint64_t *ret_bytes);
	/* What it is writing now: these are traces, too. NULL = not known. Any thread. */
	void (*recordings)(void *ctx, server_recording_fn fn, void *fn_ctx);
	void *recorder_ctx;
	/* Where profiles are sent, and how often (push.h); NULL = nowhere. */
	const char *push_url;
	uint64_t push_interval_ns; /* 0 = a minute */
	/* One line per request that failed on our side; NULL = silent. Any thread. */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
};

/*
 * Listens and answers in threads of its own until server_stop(). Traces are
 * opened when they are first asked for. -EADDRINUSE: all ports are busy;
 * -EINVAL: `listen` or `push_url` makes no sense; -ENOENT: a path does not exist.
 */
TM_MUST_CHECK int server_start(const struct server_options *options, struct server **ret_server,
			       struct tm_error *err);
/*
 * Waits for requests that are being answered, a second at most; and some seconds for
 * the last profile to be pushed. Accepts NULL; returns NULL.
 */
struct server *server_stop(struct server *server);

/*
 * The page over the whole run of a trace as one file that needs no server: all
 * views but single blocks, source and ranges. Bounded: the largest nodes and rows.
 * write() gets it in pieces; not 0 stops with that. -ENODATA: built without the page.
 */
typedef int (*server_write_fn)(void *ctx, const void *data, size_t bytes);
TM_MUST_CHECK int server_save_page(const char *trace_path, const char *name, server_write_fn write,
				   void *ctx, struct tm_error *err);

/* "http://127.0.0.1:8080/", with the token where one is needed; "" with push_only. Borrowed. */
const char *server_address(const struct server *server);
uint16_t server_port(const struct server *server);
/* How many traces it knows. */
size_t server_trace_count(const struct server *server);
