/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines: one table of options per command drives parsing and help.
 *
 *	struct args args = ARGS_OF("report", argc, argv, options);
 *	while ((id = args_next(&args, &value)) > ARGS_END)
 *		...
 *	if (id == ARGS_ERROR)
 *		return 2;
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct args;
struct args_option {
	int id;           /* > 0 */
	char letter;      /* 0 = none */
	const char *name; /* without the dashes */
	/* What help calls the value; NULL = the option has none. "[N]": it may be left out, and is
	 * then NULL; it begins with a digit, unless it stands behind "=". */
	const char *value;
	const char *help; /* NULL = not shown */
};

/* Options that several commands have in common, taken where they are met. */
struct args_shared {
	const struct args_option *options;
	size_t count;
	/* False after a message. */
	bool (*take)(const struct args *args, int id, const char *value);
};

struct args {
	const char *command; /* for messages: "report" */
	int argc;
	char **argv;
	int at; /* next to look at */
	const struct args_option *options;
	size_t option_count;
	const struct args_shared *shared; /* NULL = none; args_next() does not return them */
	bool stop_at_word;                /* the first word that is no option ends the options */
	const char *letters;              /* the rest of "-abc"; the parser's own */
	bool only_words;                  /* "--" was seen; the parser's own */
};

/* Of a command's own arguments; the table is an array. */
#define ARGS_OF(name, count, words, table)                                                \
	{                                                                                 \
		.command = name, .argc = count, .argv = words, .at = 1, .options = table, \
		.option_count = sizeof table / sizeof table[0]                            \
	}

enum { ARGS_ERROR = -2, ARGS_END = -1, ARGS_WORD = 0 };

/*
 * The id of the next option, its value in *ret_value; ARGS_WORD with the word in
 * *ret_value; ARGS_END; or ARGS_ERROR after a message on standard error. With
 * stop_at_word, ARGS_END leaves args.at at that word.
 */
int args_next(struct args *args, const char **ret_value);

/* The options as lines of help on standard output. */
void args_print_options(const struct args_option *options, size_t count);

/* A whole number from 0 to max; false after a message naming the option. */
bool args_number(const struct args *args, const char *option, const char *text, uint64_t max,
		 uint64_t *ret_number);
/* The same from 1 on. */
bool args_count(const struct args *args, const char *option, const char *text, uint64_t max,
		uint64_t *ret_count);

/* The next word of a command that takes two files; false after a message about a third. */
bool args_in_out(const struct args *args, const char *word, const char **in, const char **out);

/* Letters to change, add or leave out (or neighbours to swap) to make one word the other. */
unsigned args_distance(const char *a, const char *b);
/* Near enough for "did you mean". */
bool args_is_near(const char *word, const char *name);
