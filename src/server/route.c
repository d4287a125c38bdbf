/* SPDX-License-Identifier: Apache-2.0 */
#include "server/route.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "server/api.h"
#include "server/catalog.h"
#include "server/kept.h"
#include "server/pipe.h"

const struct request_rule *route_rule(const struct route *route, size_t index)
{
	if (index < route->rule_count)
		return &route->rules[index];
	index -= route->rule_count;
	return route->selects && index < api_selection_rule_count ? &api_selection_rules[index]
								  : NULL;
}

/* One element of a path, up to the next slash, into a name of the request. */
static bool take_name(const char **path, char *ret_name, size_t room)
{
	size_t bytes = strcspn(*path, "/");
	if (!bytes || bytes >= room)
		return false;
	memcpy(ret_name, *path, bytes);
	ret_name[bytes] = '\0';
	*path += bytes;
	return true;
}

static bool matches(const char *pattern, const char *path, struct request *request)
{
	request->names[0][0] = request->names[1][0] = '\0';
	while (*pattern) {
		if (*pattern == '{') {
			char *name = request->names[pattern[1] == 't' ? 0 : 1];
			if (!take_name(&path, name, sizeof request->names[0]))
				return false;
			pattern = strchr(pattern, '}') + 1;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return !*path || !strcmp(path, "/");
}

const struct route *route_find(const char *path, struct request *request)
{
	for (size_t i = 0; i < route_count; i++)
		if (matches(route_list[i].path, path, request)) {
			request->trace = request->names[0];
			request->item = request->names[1];
			return &route_list[i];
		}
	request->trace = request->item = "";
	return NULL;
}

int route_check(const struct route *route, const struct request *request, struct tm_error *err)
{
	for (size_t i = 0; i < request->param_count; i++) {
		const struct request_rule *rule;
		size_t k = 0;
		while ((rule = route_rule(route, k)) &&
		       strcmp(rule->name, request->params[i].name) != 0)
			k++;
		if (!rule)
			return tm_fail(err, -EINVAL,
				       "there is no parameter '%.60s' here; GET /api/v1 lists all "
				       "requests with theirs",
				       request->params[i].name);
		int code = request_check(&request->params[i], rule, err);
		if (code)
			return code;
	}
	return 0;
}

static int run_handler(const struct route *route, struct call *call, struct tm_error *err)
{
	bool locks = call->facts && !route->streams && !route->unlocked;
	if (locks)
		shown_lock(call->facts);
	int code = route->handle(call, err);
	if (locks)
		shown_unlock(call->facts);
	return code;
}

static int handle(const struct route *route, struct call *call, struct tm_error *err)
{
	int code = route_check(route, call->request, err);
	if (!code && call->request->trace[0] && !route->unread)
		code = catalog_enter(call->catalog, call->request->trace, &call->facts, err);
	if (code)
		return code;
	bool keeps = call->facts && !route->streams && !route->changes;
	if (!keeps ||
	    !kept_find(call->facts->kept, route->path, call->request, &call->answer->body)) {
		code = run_handler(route, call, err);
		if (keeps && !code && !text_error(&call->answer->body))
			kept_put(call->facts->kept, route->path, call->request,
				 &call->answer->body);
	}
	shown_leave(call->facts);
	call->facts = NULL;
	return code;
}

bool call_is_left(const struct call *call)
{
	char byte;
	if (call->is_ending && atomic_load(call->is_ending))
		return true;
	if (call->answer->out && pipe_is_left(call->answer->out))
		return true;
	struct pollfd client = {.fd = call->client_fd, .events = POLLIN};
	return call->client_fd && poll(&client, 1, 0) > 0 &&
	       recv(call->client_fd, &byte, 1, MSG_PEEK) == 0;
}

static int watch(void *ctx, uint64_t done, uint64_t total)
{
	const struct call *call = ctx;
	(void)done;
	(void)total;
	if (call->deadline_ns && clock_steady_ns() > call->deadline_ns)
		return -ECANCELED;
	return call_is_left(call) ? -ECANCELED : 0;
}

struct query_progress call_progress(const struct call *call)
{
	return (struct query_progress){.fn = watch, .ctx = (void *)(uintptr_t)call};
}

int call_given_up(const struct call *call, int code, struct tm_error *err)
{
	if (code == -ECANCELED && call->deadline_ns && clock_steady_ns() > call->deadline_ns)
		return tm_fail(err, -ETIMEDOUT,
			       "this would take longer than %llu s: choose a shorter range, or a "
			       "filter on functions instead of one on single blocks",
			       CALL_TIME_MAX_NS / 1000000000ull);
	return code;
}

unsigned route_run(const struct route *route, struct call *call, struct tm_error *err)
{
	if (!route->streams)
		call->deadline_ns = clock_steady_ns() + CALL_TIME_MAX_NS;
	int code = call_given_up(call, handle(route, call, err), err);
	if (!code)
		code = text_error(&call->answer->body);
	if (!code)
		return call->answer->status ? call->answer->status : 200;
	answer_fail(call->answer, answer_status(code), err->text[0] ? err->text : strerror(-code));
	return call->answer->status;
}
