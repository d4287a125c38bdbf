/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/values.h"

#include <stdio.h>
#include <string.h>

#include "cli/fold.h"
#include "cli/traces.h"

bool values_fail(const struct args *args, const char *option, const char *takes, const char *value)
{
	fprintf(stderr, "tidemark %s: '%s' takes %s, not '%s'.\n", args->command, option, takes,
		value);
	return false;
}

bool values_complain(const struct args *args, const char *sentence)
{
	fprintf(stderr, "tidemark %s: %s\n", args->command, sentence);
	return false;
}

int values_word(const char *const *words, const char *word)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	return -1;
}

bool values_color(const struct args *args, const char *value, enum out_color *ret)
{
	static const char *const words[] = {
		[OUT_COLOR_AUTO] = "auto",
		[OUT_COLOR_ALWAYS] = "always",
		[OUT_COLOR_NEVER] = "never",
		NULL,
	};
	int found = values_word(words, value);
	if (found < 0)
		return values_fail(args, "--color", "auto, always or never", value);
	*ret = (enum out_color)found;
	return true;
}

bool values_fold(const struct args *args, const char *value, unsigned *kinds)
{
	struct tm_error err = {0};
	unsigned more = 0;
	if (fold_parse(value, &more, &err)) {
		traces_complain(args->command, &err);
		return false;
	}
	*kinds |= more;
	return true;
}

bool values_filter(const struct args *args, const char *value, struct filter **filter)
{
	struct tm_error err = {0};
	size_t column = 0;
	*filter = filter_free(*filter);
	if (!filter_parse(value, filter, &column, &err))
		return true;
	struct text said = {0};
	filter_explain(&said, value, column, &err);
	fprintf(stderr, "tidemark %s: --filter: %s", args->command, text_string(&said));
	text_done(&said);
	return false;
}

bool values_mode(const struct args *args, const char *value, const struct view_mode **ret)
{
	*ret = view_mode_find(value);
	return *ret ||
	       values_fail(args, "--mode", "live, allocated, freed, surviving or peak", value);
}

bool values_names(const char *value, bool (*fn)(void *ctx, const char *name), void *ctx)
{
	while (*value) {
		size_t bytes = strcspn(value, ",");
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)(bytes < 63 ? bytes : 63), value);
		if (!fn(ctx, name))
			return false;
		value += bytes + (value[bytes] == ',');
	}
	return true;
}

bool values_trace(const struct args *args, const char *word, const char **path)
{
	if (*path) {
		fprintf(stderr, "tidemark %s: one trace at a time: '%s' comes after '%s'.\n",
			args->command, word, *path);
		return false;
	}
	*path = word;
	return true;
}

bool values_need_trace(const struct args *args, const char *path)
{
	if (!path)
		fprintf(stderr,
			"tidemark %s: which trace? Name a file, as in 'tidemark %s "
			"tidemark.program.1234.tide'.\n",
			args->command, args->command);
	return path != NULL;
}
