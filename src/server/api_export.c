/* SPDX-License-Identifier: Apache-2.0 */
/* A trace, or a part of it, in the formats of other tools: a file to be saved. */
#include "server/api.h"

#include <errno.h>
#include <stdio.h>

#include "export/export.h"
#include "server/pipe.h"
#include "views/select.h"

bool api_export_head(const struct request *request, struct answer *answer)
{
	const struct export_format *format = export_find(request->item);
	if (!format || !format->write)
		return false;
	answer->type = format->type;
	/* To be saved, never shown: a page of this server must not run what is in a trace. */
	snprintf(answer->disposition, sizeof answer->disposition,
		 "attachment; filename=\"trace%s\"", format->suffix);
	return true;
}

struct download {
	struct answer *answer;
	bool has_sent;
};

static int send_bytes(void *ctx, const void *data, size_t bytes)
{
	struct download *download = ctx;
	struct answer *answer = download->answer;
	if (!bytes)
		return 0;
	download->has_sent = true;
	if (answer->out)
		return pipe_write(answer->out, data, bytes);
	text_put_bytes(&answer->body, data, bytes);
	return text_error(&answer->body);
}

/* The client may have left while nothing was found that could be sent. */
static int watch_client(void *ctx, uint64_t done, uint64_t total)
{
	const struct answer *answer = ctx;
	(void)done;
	(void)total;
	return answer->out && pipe_is_left(answer->out) ? -ECANCELED : 0;
}

/* Views of its own, so that a slow client holds up nobody; the facts are locked. */
static int make_data(const struct call *call, const struct selection *selection,
		     struct export_input *input, struct view_data **ret_data, struct tm_error *err)
{
	const struct query query = {
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.filter = selection->bound,
		.want = QUERY_PEAK | QUERY_KEPT,
	};
	struct query_answer answer;
	struct view_data *data;
	int code = view_data_new(&call->facts->input, &data, err);
	if (code)
		return code;
	code = query_ask(call->facts->section, &query, &answer, err);
	if (!code) {
		code = view_data_select(data, &answer, err);
		input->first_event = answer.first_event;
		input->end_event = answer.first_event + answer.event_count;
		query_answer_done(&answer);
	}
	if (!code && selection->fold)
		code = view_data_fold(data, selection->fold, err);
	if (code)
		view_data_free(data);
	else
		*ret_data = data;
	return code;
}

static int send_export(struct call *call, const struct selection *selection,
		       const struct export_input *range, const struct view_data *data,
		       struct tm_error *err)
{
	const struct export_format *format = export_find(call->request->item);
	struct download download = {.answer = call->answer};
	const struct export_input input = {
		.facts = &call->facts->input,
		.data = data,
		.section = call->facts->section,
		.filter = selection->bound,
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.first_event = range->first_event,
		.end_event = range->end_event,
		.is_part = !selection->is_whole,
		.mode = selection->mode,
		.cost = api_order(call, selection),
		.limit = request_number(call->request, "limit", 0),
		.view = format->takes_view ? request_find(call->request, "view") : NULL,
		.progress = {.fn = watch_client, .ctx = call->answer},
	};
	struct outlet outlet;
	int code = outlet_open(&outlet, outlet_packing_of(format->suffix), send_bytes, &download);
	if (code)
		return tm_fail(err, code, "no memory for the export");
	code = export_write(format, &input, &outlet, err);
	if (code) /* what is gathered is not sent after all */
		outlet.error = code;
	int closed = outlet_close(&outlet);
	code = code ? code : closed;
	if (!code || !download.has_sent)
		return code;
	/* Half a file must not look whole: the connection breaks off. */
	if (call->answer->out)
		pipe_fail(call->answer->out);
	return 0;
}

int api_export(struct call *call, struct tm_error *err)
{
	struct selection selection;
	struct view_data *data = NULL;
	struct export_input range = {0};
	const struct export_format *format = export_find(call->request->item);
	if (!format || !format->write)
		return tm_fail(err, -ENOENT,
			       "there is no format '%.40s' to be sent; 'tidemark "
			       "export --format list' names all",
			       call->request->item);
	shown_lock(call->facts);
	int code = selection_init(&selection, call, err);
	if (!code) {
		code = make_data(call, &selection, &range, &data, err);
		if (code)
			selection_done(&selection);
	}
	shown_unlock(call->facts);
	if (code)
		return code;
	code = send_export(call, &selection, &range, data, err);
	view_data_free(data);
	selection_done(&selection);
	return code;
}
