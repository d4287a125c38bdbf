/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes, told when it does (server-sent events): traces that come and go, and
 * a trace whose file grows, is replaced or begins to be read. A page that has lost
 * the server asks again, and is first told the present state; so nothing is missed.
 */
#include "server/api.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "server/catalog.h"
#include "server/pipe.h"

/* How often one looks; how often something is said even if nothing changes. */
#define LOOK_NS  200000000ull
#define ALIVE_NS 15000000000ull

struct watching {
	struct call *call;
	uint64_t list, file; /* what was told last, as hashes; 0 = nothing yet */
	uint64_t told_ns;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return hash_bytes(&(uint64_t[]){hash, value}, 2 * sizeof hash);
}

/* One event; not 0: the client has left. */
static int tell(struct watching *w, const char *name, const struct text *data)
{
	struct text *body = &w->call->answer->body;
	text_clear(body);
	text_print(body, "event: %s\ndata: ", name);
	text_put_bytes(body, data->data, data->length);
	text_put(body, "\n\n");
	w->told_ns = clock_steady_ns();
	int code = text_error(body);
	if (!code && w->call->answer->out)
		code = pipe_write(w->call->answer->out, body->data, body->length);
	text_clear(body);
	return code;
}

static int tell_list(struct watching *w, size_t count, const char *newest)
{
	struct text data = {0};
	struct json json = {.out = &data};
	json_begin_object(&json, NULL);
	json_u64(&json, "count", count);
	json_string(&json, "newest", newest[0] ? newest : NULL);
	json_end(&json);
	int code = text_error(&data);
	if (!code)
		code = tell(w, "traces", &data);
	text_done(&data);
	return code;
}

static int tell_file(struct watching *w, const struct catalog_entry *entry)
{
	struct text data = {0};
	struct json json = {.out = &data};
	uint64_t done = 0, total = 0;
	struct shown *shown = catalog_find(w->call->catalog, entry->id);
	if (shown)
		shown_progress(shown, &done, &total);
	json_begin_object(&json, NULL);
	json_string(&json, "id", entry->id);
	json_u64(&json, "file_bytes", entry->bytes);
	json_i64(&json, "changed_unix_ns", entry->changed_unix_ns);
	json_string(&json, "state", shown_state_name(entry->state));
	json_u64(&json, "done_events", done);
	json_u64(&json, "total_events", total);
	json_end(&json);
	int code = text_error(&data);
	if (!code)
		code = tell(w, "trace", &data);
	text_done(&data);
	return code;
}

static int look(struct watching *w, const char *trace)
{
	struct catalog_entry entry, watched = {0};
	char newest[CATALOG_ID_CHARS + 1] = "";
	uint64_t list = 1, file = 1;
	size_t count = catalog_refresh(w->call->catalog);
	for (size_t i = 0; catalog_entry(w->call->catalog, i, &entry); i++) {
		/* The order changes while several grow; that alone is no news. */
		list += hash_bytes(entry.id, sizeof entry.id);
		if (!i)
			memcpy(newest, entry.id, sizeof newest);
		if (strcmp(trace, entry.id) != 0 && (i || strcmp(trace, "last") != 0))
			continue;
		watched = entry;
		file = mix(mix(mix(hash_bytes(entry.id, sizeof entry.id), entry.bytes),
			       (uint64_t)entry.changed_unix_ns),
			   entry.state);
		uint64_t done = 0, total = 0;
		struct shown *shown = catalog_find(w->call->catalog, entry.id);
		if (shown && entry.state == SHOWN_LOADING)
			shown_progress(shown, &done, &total);
		file = mix(file, done);
	}
	int code = list == w->list ? 0 : tell_list(w, count, newest);
	w->list = list;
	if (!code && file != w->file && watched.name)
		code = tell_file(w, &watched);
	w->file = file;
	return code;
}

int api_events(struct call *call, struct tm_error *err)
{
	struct watching w = {.call = call};
	const char *trace = request_text(call->request, "watch", "");
	const struct text nothing = {0};
	(void)err;
	call->answer->type = "text/event-stream";
	/* A browser that lost us tries again after a second. */
	text_put(&call->answer->body, "retry: 1000\n\n");
	if (!call->answer->out)
		return 0;
	int code =
		pipe_write(call->answer->out, call->answer->body.data, call->answer->body.length);
	text_clear(&call->answer->body);
	while (!code && !call_is_left(call)) {
		code = look(&w, trace);
		if (!code && clock_steady_ns() - w.told_ns > ALIVE_NS)
			code = tell(&w, "alive", &nothing);
		nanosleep(&(struct timespec){.tv_nsec = (long)LOOK_NS}, NULL);
	}
	return 0;
}
