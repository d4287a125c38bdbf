/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rewritten.h"

#include <errno.h>

#include "cli/progress.h"
#include "cli/traces.h"
#include "model/repair.h"

static int repair_sections(struct trace_reader *reader, struct trace_writer *writer,
			   struct tm_error *err)
{
	struct progress progress;
	struct repair_options how = {.progress = progress_tell_fn, .ctx = &progress};
	int code = 0;
	progress_begin(&progress, "making it whole", "events");
	for (size_t i = 0; i < trace_reader_section_count(reader) && !code; i++) {
		struct repair_result ignored;
		code = trace_reader_select(reader, i, err);
		if (!code)
			code = repair_section(reader, writer, &how, &ignored, err);
	}
	progress_end(&progress);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped; nothing was written");
	return code;
}

static int repair_to(struct trace_reader *reader, int fd, struct tm_error *err)
{
	struct trace_writer_options how = {.addresses = traces_have_addresses(reader)};
	struct trace_writer *writer;
	struct tm_error ignored = {0};
	int code = trace_writer_open(fd, &how, &writer, err);
	if (code)
		return code;
	code = repair_sections(reader, writer, err);
	int closed = trace_writer_close(writer, code ? &ignored : err);
	return code ? code : closed;
}

int rewritten_sound(struct rewritten *sound, const char *path, const char *beside,
		    struct tm_error *err)
{
	struct trace_reader *reader;
	int fd;
	*sound = (struct rewritten){.path = path};
	int code = foreign_resolve(path, sound->name, &sound->path, err);
	if (!code)
		code = traces_open(sound->path, &reader, err);
	if (code)
		return code;
	if (!trace_reader_indexed(reader) || trace_reader_warning(reader)) {
		code = newfile_open(&sound->file, beside, &fd, err);
		if (!code)
			code = repair_to(reader, fd, err);
		sound->path = sound->file.temporary;
	}
	trace_reader_close(reader);
	return code;
}

void rewritten_done(struct rewritten *sound)
{
	newfile_drop(&sound->file);
}
