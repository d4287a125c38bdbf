/* SPDX-License-Identifier: Apache-2.0 */
#include "server/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096 };

const char *request_find(const struct request *request, const char *name)
{
	for (size_t i = 0; i < request->param_count; i++)
		if (!strcmp(request->params[i].name, name))
			return request->params[i].value;
	return NULL;
}

const char *request_text(const struct request *request, const char *name, const char *otherwise)
{
	const char *value = request_find(request, name);
	return value ? value : otherwise;
}

/* Digits only: strtoull() alone would take "-1" and " 1". */
static bool parse_number(const char *text, uint64_t *ret_number)
{
	if (!*text || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	*ret_number = strtoull(text, NULL, 10);
	return errno == 0;
}

uint64_t request_number(const struct request *request, const char *name, uint64_t otherwise)
{
	const char *value = request_find(request, name);
	uint64_t number;
	return value && parse_number(value, &number) ? number : otherwise;
}

static int parse_bool(const char *text)
{
	static const char *const yes[] = {"1", "true", "yes", ""};
	static const char *const no[] = {"0", "false", "no"};
	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		if (!strcmp(text, yes[i]))
			return 1;
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		if (!strcmp(text, no[i]))
			return 0;
	return -1;
}

bool request_bool(const struct request *request, const char *name)
{
	const char *value = request_find(request, name);
	return value && parse_bool(value) == 1;
}

/* Its place among the choices, or SIZE_MAX. */
static size_t find_choice(const char *choices, const char *value)
{
	size_t bytes = strlen(value), index = 0;
	for (const char *at = choices; at; at = strchr(at, '|'), index++) {
		at += *at == '|';
		size_t length = strcspn(at, "|");
		if (length == bytes && !memcmp(at, value, bytes))
			return index;
	}
	return SIZE_MAX;
}

size_t request_choice(const struct request *request, const char *name, const char *choices)
{
	const char *value = request_find(request, name);
	size_t at = value ? find_choice(choices, value) : 0;
	return at == SIZE_MAX ? 0 : at;
}

int request_check(const struct request_param *param, const struct request_rule *rule,
		  struct tm_error *err)
{
	uint64_t number;
	switch (rule->kind) {
	case REQUEST_TEXT:
		if (strlen(param->value) <= (rule->max ? rule->max : TEXT_MAX))
			return 0;
		return tm_fail(err, -EINVAL, "'%s' is too long", rule->name);
	case REQUEST_NUMBER:
		if (parse_number(param->value, &number) && (!rule->max || number <= rule->max))
			return 0;
		if (rule->max)
			return tm_fail(err, -EINVAL,
				       "'%s' takes a whole number up to %llu, not '%.40s'",
				       rule->name, (unsigned long long)rule->max, param->value);
		return tm_fail(err, -EINVAL, "'%s' takes a whole number, not '%.40s'", rule->name,
			       param->value);
	case REQUEST_BOOL:
		if (parse_bool(param->value) >= 0)
			return 0;
		return tm_fail(err, -EINVAL, "'%s' takes 1 or 0, not '%.40s'", rule->name,
			       param->value);
	case REQUEST_CHOICE:
		if (find_choice(rule->choices, param->value) != SIZE_MAX)
			return 0;
		return tm_fail(err, -EINVAL, "'%s' takes one of %s, not '%.40s'", rule->name,
			       rule->choices, param->value);
	}
	return 0;
}
