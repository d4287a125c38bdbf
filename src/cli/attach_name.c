/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attach_name.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "inject/proc.h"

enum { SHOWN_MAX = 20, COMMAND_BYTES = 4096, COMMAND_SHOWN = 60 };

static bool is_number(const char *word)
{
	for (; *word; word++)
		if (!isdigit((unsigned char)*word))
			return false;
	return true;
}

/* Its command line, on one line, shortened. */
static void put_command(struct text *text, pid_t pid)
{
	char path[64];
	struct text raw = {0};
	proc_path(path, sizeof path, pid, 0, "cmdline");
	if (!io_read_file(path, COMMAND_BYTES, &raw) || raw.length) {
		size_t bytes = raw.length < COMMAND_SHOWN ? raw.length : COMMAND_SHOWN;
		for (size_t i = 0; i < bytes; i++)
			if (!raw.data[i])
				raw.data[i] = ' ';
		text_put_visible(text, raw.data, bytes);
	}
	text_done(&raw);
}

static void list_several(const char *command, const char *name, const pid_t *pids, size_t count)
{
	struct text text = {0};
	text_print(&text, "tidemark %s: %zu processes are called '", command, count);
	text_put_visible(&text, name, strlen(name));
	text_put(&text, "'; name one by its number:\n");
	for (size_t i = 0; i < count && i < SHOWN_MAX; i++) {
		text_print(&text, "  %7d  ", (int)pids[i]);
		put_command(&text, pids[i]);
		text_put(&text, "\n");
	}
	if (count > SHOWN_MAX)
		text_print(&text, "  and %zu more\n", count - SHOWN_MAX);
	fputs(text_string(&text), stderr);
	text_done(&text);
}

static bool find_by_number(const char *command, const char *word, pid_t *ret_pid)
{
	errno = 0;
	long number = strtol(word, NULL, 10);
	if (errno || number <= 0 || number > INT_MAX) {
		fprintf(stderr, "tidemark %s: '%s' is not the number of a process\n", command,
			word);
		return false;
	}
	*ret_pid = (pid_t)number;
	return true;
}

bool attach_name_find(const char *command, const char *word, pid_t *ret_pid)
{
	pid_t *pids = NULL;
	size_t count = 0;
	if (*word && is_number(word))
		return find_by_number(command, word, ret_pid);
	int error = proc_named(word, &pids, &count);
	bool found = !error && count == 1;
	if (found)
		*ret_pid = pids[0];
	else if (error)
		fprintf(stderr, "tidemark %s: cannot read /proc: %s\n", command, strerror(-error));
	else if (!count)
		fprintf(stderr, "tidemark %s: no process is called '%s'\n", command, word);
	else
		list_several(command, word, pids, count);
	tm_free(pids);
	return found;
}
