/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handler gives back: JSON or another text, whole, or in pieces while it
 * is still being made (answer_flush() in a handler of a route that streams).
 */
#pragma once

#include "base/json.h"
#include "base/text.h"

struct pipe_out;

struct answer {
	unsigned status;       /* HTTP; 0 = 200 */
	const char *type;      /* content type; NULL = application/json */
	const char *cache;     /* Cache-Control; NULL = no-store */
	const char *encoding;  /* Content-Encoding; NULL = none */
	char disposition[160]; /* Content-Disposition; "" = none */
	struct text body;
	struct json json;  /* writes into body */
	const void *fixed; /* body that lives as long as the server, instead of `body` */
	size_t fixed_bytes;
	struct pipe_out *out; /* of a streaming route; else NULL */
};

/* Starts a JSON answer. */
struct json *answer_json(struct answer *answer);
/* An error as {"error": {"status": ..., "message": ...}}; what was written is dropped. */
void answer_fail(struct answer *answer, unsigned status, const char *sentence);
/* What -errno of the layers below is in HTTP: 400, 404, 503 ... */
unsigned answer_status(int code);
/*
 * Sends what is in the body so far when it is large enough. Not 0: the client
 * is gone, stop. Does nothing where the route does not stream.
 */
int answer_flush(struct answer *answer);
