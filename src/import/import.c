/* SPDX-License-Identifier: Apache-2.0 */
#include "import/import.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "import/events.h"
#include "import/formats.h"
#include "import/reader.h"

enum {
	HEAD_BYTES = 64 << 10, /* that a format is known by */
	FACTS_MAX = 64 << 10, /* bytes of facts: a hostile file does not fill the trace with them */
	SUPPRESSIONS_MAX = 1 << 20,
	QUEUE_BLOCKS = 3, /* that wait for the disk: a file can wait, a program could not */
	UNPACKED_RATIO = 16,
	UNPACKED_BYTES = 64 << 20, /* a trace does not become smaller */
	TICK_BYTES = 1 << 20,      /* of the file, between two looks at the progress */
};

/* The first that says yes is taken: those with a clear mark come first. */
static const struct import_format *const formats[] = {
	&import_heaptrack, &import_heapprofile, &import_heapsnapshot, &import_pprof,
	&import_jemalloc,  &import_gperftools,  &import_massif,       &import_dhat,
	&import_bytehound, &import_collapsed,
};
enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

struct import_job {
	const struct import_format *format;
	struct import_input *in;
	int out_fd; /* until the writer has it: -1 */
	struct trace_writer *writer;
	struct events *events; /* NULL = none are on their way */
	const struct import_options *options;
	struct text facts, suppressions;
	struct import_result result;
	uint64_t told; /* position of the last tick */
	bool cut_said;
};

bool import_format_at(size_t index, const char **ret_name, const char **ret_title)
{
	if (index >= FORMAT_COUNT)
		return false;
	*ret_name = formats[index]->name;
	*ret_title = formats[index]->title;
	return true;
}

/* ---- what a file is ---- */

static const struct import_format *recognise(const char *head, size_t bytes)
{
	bool whole = bytes < HEAD_BYTES;
	if (!whole)
		bytes = HEAD_BYTES;
	for (size_t i = 0; i < FORMAT_COUNT; i++)
		if (formats[i]->recognise(head, bytes, whole))
			return formats[i];
	return NULL;
}

static bool is_trace(const char *head, size_t bytes)
{
	return bytes >= 8 && !memcmp(head, "TIDE\r\n\x1a\n", 8);
}

int import_probe(int fd, enum import_kind *ret_kind, struct tm_error *err)
{
	struct import_input *in;
	const char *head;
	int code = input_open(fd, &in, err);
	if (code)
		return code;
	size_t bytes = input_peek(in, HEAD_BYTES, &head);
	enum import_kind kind = IMPORT_UNKNOWN;
	if (is_trace(head, bytes))
		kind = input_is_packed(in) ? IMPORT_PACKED : IMPORT_TRACE;
	else if (recognise(head, bytes))
		kind = IMPORT_FOREIGN;
	input_close(in);
	*ret_kind = kind;
	return 0;
}

/* ---- what readers ask for ---- */

struct import_input *import_input(struct import_job *job)
{
	return job->in;
}

struct trace_writer *import_writer(struct import_job *job)
{
	if (job->events)
		events_settle(job->events);
	return job->writer;
}

void import_events(struct import_job *job, struct events *events)
{
	job->events = events;
}

int import_stacks(struct import_job *job, const struct trace_stack *stacks, size_t count,
		  struct tm_error *err)
{
	if (job->events)
		return events_stacks(job->events, stacks, count, err);
	int code = trace_writer_stacks(job->writer, stacks, count);
	return code ? import_write_failed(code, err) : 0;
}

struct symbols_options import_symbols(const struct import_job *job)
{
	return (struct symbols_options){.sysroot = job->options->sysroot,
					.debug_dirs = job->options->debug_dirs,
					.debug_dir_count = job->options->debug_dir_count};
}

int import_write_failed(int code, struct tm_error *err)
{
	return tm_fail(err, code, "the trace cannot be written: %s", strerror(-code));
}

int import_begin(struct import_job *job, const struct trace_meta *meta, struct tm_error *err)
{
	struct trace_meta full = *meta;
	char source[64];
	snprintf(source, sizeof source, "import:%s", job->format->name);
	full.tool_version = TIDEMARK_VERSION;
	full.mode = full.mode ? full.mode : "import";
	full.source = source;
	const struct trace_writer_options how = {.addresses = meta->addresses,
						 .queue_blocks = QUEUE_BLOCKS};
	int fd = job->out_fd;
	job->out_fd = -1;
	int code = trace_writer_open(fd, &how, &job->writer, err);
	if (code)
		return code;
	code = trace_writer_begin(job->writer, &full);
	return code ? import_write_failed(code, err) : 0;
}

void import_fact(struct import_job *job, const char *format, ...)
{
	char line[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	for (char *c = line; *c; c++)
		if (*c == '\n')
			*c = ' ';
	if (job->facts.length + strlen(line) > FACTS_MAX)
		return;
	text_put(&job->facts, line);
	text_put_char(&job->facts, '\n');
}

void import_suppression(struct import_job *job, const char *line, size_t length)
{
	if (job->suppressions.length + length > SUPPRESSIONS_MAX || memchr(line, 0, length))
		return;
	text_put_bytes(&job->suppressions, line, length);
	text_put_char(&job->suppressions, '\n');
}

void import_cut(struct import_job *job)
{
	if (job->cut_said)
		return;
	job->cut_said = job->result.cut = true;
	const char *why = input_problem(job->in);
	import_fact(job, "The file is not whole (%s): what came after is missing.",
		    why ? why : "it ends within a record");
}

int import_end(struct import_job *job, const struct trace_end *end, struct tm_error *err)
{
	struct trace_end full = *end;
	if (input_problem(job->in))
		import_cut(job);
	if (text_error(&job->facts) || text_error(&job->suppressions))
		return tm_fail(err, -ENOMEM, "no memory for the facts about the file");
	full.facts = job->facts.length ? text_string(&job->facts) : NULL;
	full.suppressions = job->suppressions.length ? text_string(&job->suppressions) : NULL;
	int code = trace_writer_end(job->writer, &full);
	return code ? import_write_failed(code, err) : 0;
}

int import_tick(struct import_job *job, struct tm_error *err)
{
	const struct import_options *options = job->options;
	uint64_t at = input_packed_position(job->in);
	uint64_t unpacked = input_position(job->in);
	if (!options->progress || (unpacked - job->told < TICK_BYTES && at))
		return 0;
	job->told = unpacked;
	if (!options->progress(options->ctx, at, input_packed_bytes(job->in)))
		return 0;
	return tm_fail(err, -ECANCELED, "stopped");
}

void import_count(struct import_job *job, uint64_t events, uint64_t stacks)
{
	job->result.events = events;
	job->result.stacks = stacks;
}

/* ---- importing ---- */

static int not_known(struct import_input *in, const char *head, size_t bytes, struct tm_error *err)
{
	if (input_problem(in) && bytes == 0)
		return tm_fail(err, -EBADMSG, "%s", input_problem(in));
	if (bytes == 0)
		return tm_fail(err, -ENODATA, "the file is empty");
	if (is_trace(head, bytes))
		return tm_fail(err, -EBADMSG,
			       "it is a trace already: every command opens it as it is");
	return tm_fail(err, -EBADMSG,
		       "it is neither a trace (*.tide) nor a file that is known: 'tidemark convert "
		       "--list' names the formats");
}

static const struct import_format *find_format(const char *name)
{
	for (size_t i = 0; i < FORMAT_COUNT; i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}

static int read_file(struct import_job *job, struct tm_error *err)
{
	const char *head, *wanted = job->options->format;
	size_t bytes = input_peek(job->in, HEAD_BYTES, &head);
	if (wanted && !find_format(wanted))
		return tm_fail(err, -EINVAL,
			       "there is no format '%s': 'tidemark convert --list' names them",
			       wanted);
	job->format = wanted && bytes ? find_format(wanted) : recognise(head, bytes);
	if (!job->format)
		return not_known(job->in, head, bytes, err);
	job->result.format = job->format->name;
	return job->format->read(job, err);
}

static int unpack(struct import_input *in, int out_fd, struct tm_error *err)
{
	uint64_t room = input_packed_bytes(in) * UNPACKED_RATIO + UNPACKED_BYTES;
	const char *data;
	size_t bytes;
	while ((bytes = input_peek(in, 1, &data)) > 0) {
		int code = io_write(out_fd, data, bytes);
		if (code)
			return tm_fail(err, code, "it cannot be unpacked: %s", strerror(-code));
		input_take(in, bytes);
		if (input_position(in) > room)
			return tm_fail(err, -EBADMSG, "it unpacks to more than a trace can be");
	}
	return 0;
}

int import_unpack(int in_fd, int out_fd, struct tm_error *err)
{
	struct import_input *in;
	int code = input_open(in_fd, &in, err);
	if (code)
		return code;
	/* One that was cut off is a trace without its end, which the reader takes. */
	code = unpack(in, out_fd, err);
	input_close(in);
	return code;
}

int import_run(int in_fd, int out_fd, const struct import_options *options,
	       struct import_result *ret_result, struct tm_error *err)
{
	struct import_job job = {.options = options, .out_fd = out_fd};
	struct tm_error ignored = {0};
	int code = input_open(in_fd, &job.in, err);
	if (!code)
		code = read_file(&job, err);
	if (!code)
		job.result.input_bytes = input_position(job.in);
	int closed = trace_writer_close(job.writer, code ? &ignored : err);
	if (job.out_fd >= 0)
		close(job.out_fd);
	input_close(job.in);
	text_done(&job.facts);
	text_done(&job.suppressions);
	if (!code)
		code = closed;
	if (!code)
		*ret_result = job.result;
	return code;
}
