/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traces.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int traces_open(const char *path, struct trace_reader **ret_reader, struct tm_error *err)
{
	struct stat status;
	if (stat(path, &status))
		return tm_fail(err, -errno, "'%s' cannot be opened: %s", path, strerror(errno));
	if (S_ISDIR(status.st_mode))
		return tm_fail(err, -EISDIR, "'%s' is a folder: name a trace file (*.tide) in it",
			       path);
	if (!S_ISREG(status.st_mode))
		return tm_fail(err, -EINVAL,
			       "'%s' is not a regular file: copy the trace to a file first", path);
	return trace_reader_open(path, ret_reader, err);
}

bool traces_have_addresses(struct trace_reader *reader)
{
	struct tm_error ignored;
	const struct trace_meta *meta;
	bool found = false;
	for (size_t i = 0; i < trace_reader_section_count(reader) && !found; i++)
		found = !trace_reader_select(reader, i, &ignored) &&
			!trace_reader_meta(reader, &meta, &ignored) && meta->addresses;
	return found;
}

void traces_complain(const char *command, const struct tm_error *err)
{
	size_t bytes = strlen(err->text);
	bool ended = bytes && strchr(".?!", err->text[bytes - 1]);
	fprintf(stderr, "tidemark %s: %s%s\n", command, err->text, ended ? "" : ".");
}
