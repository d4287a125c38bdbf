/* SPDX-License-Identifier: Apache-2.0 */
#include "server/answer.h"

#include <errno.h>

#include "server/pipe.h"

enum { PIECE_BYTES = 32 * 1024 };

struct json *answer_json(struct answer *answer)
{
	answer->json = (struct json){.out = &answer->body};
	return &answer->json;
}

void answer_fail(struct answer *answer, unsigned status, const char *sentence)
{
	text_clear(&answer->body);
	answer->status = status;
	answer->type = answer->cache = answer->encoding = NULL;
	answer->disposition[0] = '\0';
	answer->fixed = NULL;
	struct json *json = answer_json(answer);
	json_begin_object(json, NULL);
	json_begin_object(json, "error");
	json_u64(json, "status", status);
	json_string(json, "message", sentence);
	json_end(json);
	json_end(json);
}

unsigned answer_status(int code)
{
	switch (-code) {
	case EINVAL:
	case ERANGE:
		return 400;
	case ENOENT:
		return 404;
	case EOPNOTSUPP:
	case ENODATA:
	case EBADMSG:
		return 422;
	case ENOMEM:
	case EBUSY:
	case EAGAIN:
	case ETIMEDOUT:
		return 503;
	case ECANCELED:
		return 499;
	default:
		return 500;
	}
}

int answer_flush(struct answer *answer)
{
	if (!answer->out || answer->body.length < PIECE_BYTES)
		return 0;
	int code = pipe_write(answer->out, answer->body.data, answer->body.length);
	text_clear(&answer->body);
	return code;
}
