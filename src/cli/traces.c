/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traces.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/foreign.h"

static int check_path(const char *path, struct tm_error *err)
{
	struct stat status;
	if (!strcmp(path, "-"))
		return 0;
	if (stat(path, &status))
		return tm_fail(err, -errno, "'%s' cannot be opened: %s", path, strerror(errno));
	if (S_ISDIR(status.st_mode))
		return tm_fail(err, -EISDIR, "'%s' is a folder: name a trace file (*.tide) in it",
			       path);
	if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
		return tm_fail(err, -EINVAL,
			       "'%s' is not a regular file: copy the trace to a file first", path);
	return 0;
}

_Static_assert((int)TRACES_NAME_BYTES >= (int)FOREIGN_PATH_BYTES, "room for any name");

int traces_resolve(const char *path, char ret_name[TRACES_NAME_BYTES], const char **ret_path,
		   struct tm_error *err)
{
	int code = check_path(path, err);
	return code ? code : foreign_resolve(path, ret_name, ret_path, err);
}

int traces_open(const char *path, struct trace_reader **ret_reader, struct tm_error *err)
{
	char name[TRACES_NAME_BYTES];
	const char *found;
	int code = traces_resolve(path, name, &found, err);
	return code ? code : trace_reader_open(found, ret_reader, err);
}

int traces_open_own(const char *path, struct trace_reader **ret_reader, struct tm_error *err)
{
	int code = check_path(path, err);
	if (code)
		return code;
	if (!strcmp(path, "-"))
		return tm_fail(err, -EINVAL, "standard input cannot be changed: name a trace file");
	if (foreign_is(path))
		return tm_fail(err, -EINVAL,
			       "'%s' is a file of another tool and is left as it is: 'tidemark "
			       "convert' makes a trace of it",
			       path);
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
