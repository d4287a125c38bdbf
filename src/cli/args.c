/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned args_distance(const char *a, const char *b)
{
	size_t a_bytes = strlen(a), b_bytes = strlen(b);
	if (a_bytes > WORD_MAX || b_bytes > WORD_MAX)
		return WORD_MAX;
	unsigned rows[3][WORD_MAX + 1]; /* of the last three letters of a */
	for (size_t j = 0; j <= b_bytes; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3],
			 *two_above = rows[(i + 1) % 3];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = smaller(smaller(row[j - 1], above[j]) + 1,
					 above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = smaller(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[a_bytes % 3][b_bytes];
}

bool args_is_near(const char *word, const char *name)
{
	size_t bytes = strlen(name);
	return args_distance(word, name) <= (bytes > 5 ? 2 : 1);
}

static int fail(const struct args *args, const char *what, const char *option)
{
	fprintf(stderr, "tidemark %s: %s '%s'.\n", args->command, what, option);
	fprintf(stderr, "Type 'tidemark help %s' for its options.\n", args->command);
	return ARGS_ERROR;
}

static const char *near_option(const struct args_option *options, size_t count, const char *word)
{
	for (size_t i = 0; !strncmp(word, "--", 2) && i < count; i++)
		if (args_is_near(word + 2, options[i].name))
			return options[i].name;
	return NULL;
}

static int fail_unknown(const struct args *args, const char *word)
{
	fprintf(stderr, "tidemark %s: there is no option '%s'", args->command, word);
	const char *near = near_option(args->options, args->option_count, word);
	if (!near && args->shared)
		near = near_option(args->shared->options, args->shared->count, word);
	if (near) {
		fprintf(stderr, "; did you mean '--%s'?\n", near);
		return ARGS_ERROR;
	}
	fprintf(stderr, ". Type 'tidemark help %s' for its options.\n", args->command);
	return ARGS_ERROR;
}

static int take_value(struct args *args, const struct args_option *option, const char *attached,
		      const char *shown, const char **ret_value)
{
	if (!option->value && attached)
		return fail(args, "this option takes no value:", shown);
	/* An optional value is a number: a word that begins otherwise is the next argument. */
	bool optional = option->value && option->value[0] == '[';
	bool follows = args->at < args->argc && isdigit((unsigned char)args->argv[args->at][0]);
	if (option->value && !attached && (!optional || follows)) {
		if (args->at >= args->argc)
			return fail(args, "a value is missing after", shown);
		attached = args->argv[args->at++];
	}
	*ret_value = attached;
	return option->id;
}

static const struct args_option *find_long(const struct args_option *options, size_t count,
					   const char *name, size_t bytes)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(options[i].name) == bytes && !strncmp(options[i].name, name, bytes))
			return &options[i];
	return NULL;
}

/* A shared option is dealt with here; then what comes after it. */
static int next_shared(struct args *args, const struct args_option *option, const char *attached,
		       const char *word, const char **ret_value)
{
	const char *value;
	int id = take_value(args, option, attached, word, &value);
	if (id == ARGS_ERROR || !args->shared->take(args, id, value))
		return ARGS_ERROR;
	return args_next(args, ret_value);
}

static int next_long(struct args *args, const char *word, const char **ret_value)
{
	size_t bytes = strcspn(word + 2, "=");
	const char *attached = word[2 + bytes] ? word + 2 + bytes + 1 : NULL;
	const struct args_shared *shared = args->shared;
	const struct args_option *option =
		find_long(args->options, args->option_count, word + 2, bytes);
	if (option)
		return take_value(args, option, attached, word, ret_value);
	option = shared ? find_long(shared->options, shared->count, word + 2, bytes) : NULL;
	return option ? next_shared(args, option, attached, word, ret_value)
		      : fail_unknown(args, word);
}

static int next_letter(struct args *args, const char **ret_value)
{
	char shown[3] = {'-', *args->letters++, '\0'};
	for (size_t i = 0; i < args->option_count; i++) {
		const struct args_option *option = &args->options[i];
		if (option->letter != shown[1])
			continue;
		const char *attached = NULL;
		if (option->value && *args->letters) {
			attached = args->letters;
			args->letters = "";
		}
		return take_value(args, option, attached, shown, ret_value);
	}
	return fail_unknown(args, shown);
}

int args_next(struct args *args, const char **ret_value)
{
	if (args->letters && *args->letters)
		return next_letter(args, ret_value);
	if (args->at >= args->argc)
		return ARGS_END;
	const char *word = args->argv[args->at];
	if (args->only_words || word[0] != '-' || !word[1]) {
		if (args->stop_at_word)
			return ARGS_END;
		args->at++;
		*ret_value = word;
		return ARGS_WORD;
	}
	args->at++;
	if (!strcmp(word, "--")) {
		args->only_words = true;
		return args_next(args, ret_value);
	}
	if (word[1] == '-')
		return next_long(args, word, ret_value);
	args->letters = word + 1;
	return next_letter(args, ret_value);
}

void args_print_options(const struct args_option *options, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct args_option *option = &options[i];
		if (!option->help)
			continue;
		char left[64];
		snprintf(left, sizeof left, "%c%c%s--%s%s%s", option->letter ? '-' : ' ',
			 option->letter ? option->letter : ' ', option->letter ? ", " : "  ",
			 option->name, option->value ? " " : "",
			 option->value ? option->value : "");
		printf("  %-26s %s\n", left, option->help);
	}
}

static bool take_number(const struct args *args, const char *option, const char *text, uint64_t min,
			uint64_t max, uint64_t *ret_number)
{
	char *end;
	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || number < min || number > max) {
		fprintf(stderr,
			"tidemark %s: '%s' takes a whole number from %llu to %llu, not '%s'.\n",
			args->command, option, (unsigned long long)min, (unsigned long long)max,
			text);
		return false;
	}
	*ret_number = number;
	return true;
}

bool args_number(const struct args *args, const char *option, const char *text, uint64_t max,
		 uint64_t *ret_number)
{
	return take_number(args, option, text, 0, max, ret_number);
}

bool args_count(const struct args *args, const char *option, const char *text, uint64_t max,
		uint64_t *ret_count)
{
	return take_number(args, option, text, 1, max, ret_count);
}

bool args_in_out(const struct args *args, const char *word, const char **in, const char **out)
{
	const char **place = !*in ? in : out;
	if (*place) {
		fprintf(stderr, "tidemark %s: '%s' is one file too many: name IN and OUT.\n",
			args->command, word);
		return false;
	}
	*place = word;
	return true;
}
