/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/variables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { VARIABLE_BYTES = 64 };

/* --time-limit: TIDEMARK_TIME_LIMIT */
static void name_variable(const char *option, char ret[VARIABLE_BYTES])
{
	int used = snprintf(ret, VARIABLE_BYTES, "TIDEMARK_");
	for (; *option && used < VARIABLE_BYTES - 1; option++)
		ret[used++] = *option == '-' ? '_' : (char)toupper((unsigned char)*option);
	ret[used] = '\0';
}

static bool read_switch(const char *name, const char *text, bool *ret)
{
	static const char *const yes[] = {"1", "yes", "true", "on"};
	static const char *const no[] = {"0", "no", "false", "off", ""};
	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		if (!strcasecmp(text, yes[i])) {
			*ret = true;
			return true;
		}
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		if (!strcasecmp(text, no[i]))
			return true;
	fprintf(stderr, "tidemark: %s is 1 or 0, not '%s'.\n", name, text);
	return false;
}

static bool has_variable(const struct args_option *option)
{
	return strcmp(option->name, "help") != 0 && strcmp(option->name, "pid") != 0 &&
	       strcmp(option->name, "dry-run") != 0;
}

bool variables_read(const struct args *args, variables_take_fn take, void *ctx)
{
	for (size_t i = 0; i < args->option_count; i++) {
		const struct args_option *option = &args->options[i];
		char name[VARIABLE_BYTES];
		bool is_on = false;
		if (!has_variable(option))
			continue;
		name_variable(option->name, name);
		const char *value = getenv(name);
		if (!value || (option->value && !*value))
			continue;
		if (!option->value && !read_switch(name, value, &is_on))
			return false;
		if ((option->value || is_on) && !take(ctx, args, option->id, value)) {
			fprintf(stderr, "tidemark: so says %s in the environment.\n", name);
			return false;
		}
	}
	return true;
}
