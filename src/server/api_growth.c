/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks grow, and when the memory is full. */
#include "server/api.h"

#include "server/look.h"
#include "views/growth.h"

enum { LIMIT_DEFAULT = 50 };

int api_growth(struct call *call, struct tm_error *err)
{
	struct selection selection;
	const struct view_data *data = call->facts->data;
	struct growth growth;
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	if (selection.fold)
		code = look_at(call, &selection, &data, NULL, err);
	const struct growth_options options = {
		.from_ns = selection.from_ns,
		.to_ns = selection.to_ns,
		.filter = selection.bound,
		.limit_bytes = request_number(call->request, "limit_bytes", 0),
		.progress = call_progress(call),
	};
	if (!code)
		code = growth_make(call->facts->section, data, &options, &growth, err);
	if (!code) {
		struct json *json = answer_json(call->answer);
		json_begin_object(json, NULL);
		growth_json(json, &growth, data,
			    request_number(call->request, "limit", LIMIT_DEFAULT));
		json_end(json);
		growth_done(&growth);
	}
	selection_done(&selection);
	return code;
}
