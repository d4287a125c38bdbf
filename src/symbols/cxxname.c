/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/cxxname.h"

#include <string.h>

/* Past the bracket that closes the one at `at`; the end of the text if none does. */
static const char *skip_bracket(const char *at)
{
	int depth = 0;
	for (; *at; at++) {
		if (strchr("<({[", *at))
			depth++;
		else if (strchr(")}]", *at) || (*at == '>' && at[-1] != '-'))
			depth--;
		if (depth == 0)
			return at + 1;
	}
	return at;
}

static bool is_operator(const char *start, const char *at)
{
	return *at == 'o' && !strncmp(at, "operator", 8) &&
	       (at == start || at[-1] == ':' || at[-1] == ' ') &&
	       !(at[8] == '_' || (at[8] >= '0' && at[8] <= '9') || (at[8] >= 'A' && at[8] <= 'Z') ||
		 (at[8] >= 'a' && at[8] <= 'z'));
}

/* Does a list of parameters begin here? */
static bool is_list(const char *start, const char *at)
{
	return *at == '(' && strncmp(at, "(anonymous namespace)", 21) != 0 &&
	       !(at - start >= 8 && !strncmp(at - 8, "decltype", 8)) &&
	       !(at - start >= 9 && !strncmp(at - 9, "decltype ", 9));
}

const char *cxxname_plain(const char *function)
{
	const char *start = function, *at = function;
	while (*at) {
		if (is_operator(function, at) || is_list(function, at))
			break;
		if (strchr("<({[", *at)) {
			at = skip_bracket(at);
			continue;
		}
		if (*at == ' ' && at[1])
			start = at + 1;
		at++;
	}
	return *start ? start : function;
}

bool cxxname_has_parameters(const char *function)
{
	for (const char *at = function; *at;) {
		if (is_operator(function, at) || is_list(function, at))
			return true;
		at = strchr("<({[", *at) ? skip_bracket(at) : at + 1;
	}
	return false;
}
