/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that take traces have in common: opening them, and saying what went wrong. */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

#include <stdbool.h>

/*
 * Opens a trace, or what import/ can make one of; "-" is standard input. Says more
 * than the reader can about what is no file at all.
 */
TM_MUST_CHECK int traces_open(const char *path, struct trace_reader **ret_reader,
			      struct tm_error *err);
/*
 * The path to open instead: path itself, or ret_name of a temporary trace that lives
 * as long as the tool.
 */
enum { TRACES_NAME_BYTES = 32 };
TM_MUST_CHECK int traces_resolve(const char *path, char ret_name[TRACES_NAME_BYTES],
				 const char **ret_path, struct tm_error *err);
/* The same of a trace that is to be changed in its place: files of other tools are not. */
TM_MUST_CHECK int traces_open_own(const char *path, struct trace_reader **ret_reader,
				  struct tm_error *err);
/* Whether any section has addresses. Selects another section. */
bool traces_have_addresses(struct trace_reader *reader);
/* "tidemark COMMAND: SENTENCE." on standard error. */
void traces_complain(const char *command, const struct tm_error *err);
