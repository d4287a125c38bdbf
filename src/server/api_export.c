/* SPDX-License-Identifier: Apache-2.0 */
/* A trace, or a part of it, in the formats of other tools: a file to be saved. */
#include "server/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/export.h"
#include "server/pipe.h"
#include "server/server.h"
#include "views/select.h"

/* The page itself is none of the formats of src/export, which cannot know the server. */
static bool is_page(const struct request *request)
{
	return !strcmp(request->item, "html");
}

bool api_export_head(const struct request *request, struct answer *answer)
{
	const struct export_format *format = export_find(request->item);
	if (!format && !is_page(request))
		return false;
	answer->type = format ? format->type : "text/html";
	/* To be saved, never shown: a page of this server must not run what is in a trace. */
	snprintf(answer->disposition, sizeof answer->disposition,
		 "attachment; filename=\"trace%s\"", format ? format->suffix : ".html");
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

/* A format that can only be a file becomes one without a name, then is sent. */
static int send_file(const struct export_format *format, const struct export_input *input,
		     struct download *download, struct tm_error *err)
{
	const char *folder = getenv("TMPDIR");
	char path[4096], piece[32768];
	int used = snprintf(path, sizeof path, "%s/tidemark-export-XXXXXX",
			    folder && folder[0] == '/' ? folder : "/tmp");
	int fd = used < (int)sizeof path ? mkstemp(path) : -1;
	if (fd < 0)
		return tm_fail(err, -EIO, "there is no place for a temporary file: set TMPDIR");
	int code = format->write_file(input, path, err);
	ssize_t got = 0;
	while (!code && (got = read(fd, piece, sizeof piece)) > 0)
		code = send_bytes(download, piece, (size_t)got);
	if (!code && got < 0)
		code = tm_fail(err, -errno, "the temporary file cannot be read: %s",
			       strerror(errno));
	unlink(path);
	close(fd);
	return code;
}

static int send_stream(const struct export_format *format, const struct export_input *input,
		       struct download *download, struct tm_error *err)
{
	struct outlet outlet;
	int code = outlet_open(&outlet, outlet_packing_of(format->suffix), send_bytes, download);
	if (code)
		return tm_fail(err, code, "no memory for the export");
	code = export_write(format, input, &outlet, err);
	if (code) /* what is gathered is not sent after all */
		outlet.error = code;
	int closed = outlet_close(&outlet);
	return code ? code : closed;
}

/* Half a file must not look whole: the connection breaks off. */
static int end_download(const struct download *download, int code)
{
	if (!code || !download->has_sent)
		return code;
	if (download->answer->out)
		pipe_fail(download->answer->out);
	return 0;
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
		.progress = call_progress(call),
	};
	int code = format->write_file ? send_file(format, &input, &download, err)
				      : send_stream(format, &input, &download, err);
	return end_download(&download, code);
}

static int send_page(struct call *call, struct tm_error *err)
{
	struct download download = {.answer = call->answer};
	int code = server_save_page(call->facts->path, NULL, send_bytes, &download, err);
	return end_download(&download, code);
}

int api_export(struct call *call, struct tm_error *err)
{
	struct selection selection;
	struct view_data *data = NULL;
	struct export_input range = {0};
	const struct export_format *format = export_find(call->request->item);
	if (is_page(call->request))
		return send_page(call, err);
	if (!format)
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

int api_formats(struct call *call, struct tm_error *err)
{
	struct json *json = answer_json(call->answer);
	(void)err;
	json_begin_object(json, NULL);
	json_begin_array(json, "formats");
	for (size_t i = 0; i <= export_format_count; i++) {
		const struct export_format *format = i ? export_formats[i - 1] : NULL;
		json_begin_object(json, NULL);
		json_string(json, "name", format ? format->name : "html");
		json_string(json, "help", format ? format->help : "the page over the whole run");
		json_string(json, "suffix", format ? format->suffix : ".html");
		json_end(json);
	}
	json_end(json);
	json_end(json);
	return 0;
}
