/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of requests. A path may have {trace}, an id of the catalog or "last",
 * and {item}. Routes of a trace get its facts, locked unless they stream.
 */
#pragma once

#include "model/query.h"
#include "server/answer.h"
#include "server/request.h"

struct catalog;
struct shown_facts;
struct sources;

/* Answers that take longer than this are given up. */
#define CALL_TIME_MAX_NS 60000000000ull

/* What a handler works on. */
struct call {
	struct catalog *catalog;
	struct shown_facts *facts; /* of a route with {trace} */
	const struct sources *sources;
	const struct request *request;
	struct answer *answer;
	uint64_t deadline_ns;          /* of clock_steady_ns(); 0 = none */
	int client_fd;                 /* its socket, to see whether it has left; 0 = none */
	const _Atomic bool *is_ending; /* the server stops; NULL = never */
};

/* For questions that may take long: gives up when the time is over or the client has left. */
struct query_progress call_progress(const struct call *call);
/* The sentence of a question that was given up. */
TM_MUST_CHECK int call_given_up(const struct call *call, int code, struct tm_error *err);
/* Whether the client has closed the connection, or the server stops. */
bool call_is_left(const struct call *call);

struct route {
	const char *path; /* below /api/v1; "" = /api/v1 itself */
	const char *help; /* one sentence */
	const struct request_rule *rules;
	size_t rule_count;
	const char *type; /* of a streaming route; NULL = JSON */
	bool selects;     /* also takes the parameters of a selection: api_selection_rules */
	bool streams;     /* the body is sent while it is made; it locks the facts itself */
	bool unlocked;    /* it locks the facts itself */
	bool unread;      /* has {trace}, but the trace need not be read */
	bool changes;     /* the same request may have another answer: it is not kept */
	/* Of a streaming route whose type depends on the request: type and disposition into the
	 * answer. False: there is no such thing, and the handler says so. */
	bool (*head)(const struct request *request, struct answer *answer);
	/* 0 or -errno with a sentence in *err, which becomes the answer. */
	int (*handle)(struct call *call, struct tm_error *err);
};
extern const struct route route_list[];
extern const size_t route_count;

/*
 * The route of a path below /api/v1, its {trace} and {item} put into the
 * request; NULL if there is none.
 */
const struct route *route_find(const char *path, struct request *request);
/* Whether the request's parameters are ones of the route. -EINVAL. */
TM_MUST_CHECK int route_check(const struct route *route, const struct request *request,
			      struct tm_error *err);
/*
 * Checks the request, reads the trace it is about and calls the handler. The
 * answer is whole in any case: of a failure it is the sentence. Returns the HTTP
 * status; *err has the sentence of a failure.
 */
unsigned route_run(const struct route *route, struct call *call, struct tm_error *err);
/* All rules of a route, the selection's included, one after the other; NULL at the end. */
const struct request_rule *route_rule(const struct route *route, size_t index);
