/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of rules:
 *
 *   KIND CONDITION PATTERN [CONDITION PATTERN ...] [as PACKAGE]
 *
 * Words are parted by blanks; a word in double quotes may have blanks in it.
 */
#include "symbols/kinds_rules.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

/* A text being read; words are copied, terminated, to texts. */
struct parser {
	const char *name;
	const char *at, *end; /* the rest of the line */
	unsigned line;
	char *texts;
	size_t texts_used;
	struct tm_error *err;
};

static int complain(struct parser *parser, const char *what, const char *word)
{
	return tm_fail(parser->err, -EINVAL, "'%s', line %u: %s%s%.60s%s", parser->name,
		       parser->line, what, word ? " '" : "", word ? word : "", word ? "'" : "");
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line, or NULL at its end. */
static int next_word(struct parser *parser, const char **ret_word)
{
	while (parser->at < parser->end && is_blank(*parser->at))
		parser->at++;
	*ret_word = NULL;
	if (parser->at == parser->end || *parser->at == '#')
		return 0;
	char *word = parser->texts + parser->texts_used;
	size_t used = 0;
	bool quoted = *parser->at == '"';
	const char *at = parser->at + quoted;
	while (at < parser->end && (quoted ? *at != '"' : !is_blank(*at))) {
		/* A quote is only a quote; other escapes are the pattern's. */
		if (*at == '\\' && at + 1 < parser->end) {
			if (at[1] != '"')
				word[used++] = '\\';
			at++;
		}
		word[used++] = *at++;
	}
	if (quoted && at == parser->end)
		return complain(parser, "the quote is not closed", NULL);
	word[used] = '\0';
	parser->at = at + quoted;
	parser->texts_used += used + 1;
	*ret_word = word;
	return 0;
}

static struct rules_pattern pattern_of(const char *text)
{
	return (struct rules_pattern){.text = text, .literal = (uint32_t)strcspn(text, "*\\")};
}

static struct rules_pattern *condition_of(struct rules_rule *rule, const char *word)
{
	if (!strcmp(word, "function"))
		return &rule->function;
	if (!strcmp(word, "file"))
		return &rule->file;
	if (!strcmp(word, "module"))
		return &rule->module;
	return strcmp(word, "package") ? NULL : &rule->package;
}

static int parse_condition(struct parser *parser, struct rules_rule *rule, const char *word)
{
	const char *value;
	bool as = !strcmp(word, "as");
	struct rules_pattern *condition = as ? NULL : condition_of(rule, word);
	if (!as && !condition)
		return complain(parser, "use function, file, module, package or as, not", word);
	if (as ? rule->as != NULL : condition->text != NULL)
		return complain(parser, "this is there twice:", word);
	int code = next_word(parser, &value);
	if (code)
		return code;
	if (!value || !*value)
		return complain(parser, "a word is missing after", word);
	if (as)
		rule->as = value;
	else
		*condition = pattern_of(value);
	return 0;
}

/* One line; *ret_rule has KIND_UNKNOWN if there is no rule on it. */
static int parse_line(struct parser *parser, struct rules_rule *ret_rule)
{
	struct rules_rule rule = {0};
	const char *word;
	int code = next_word(parser, &word);
	if (!code && word) {
		rule.kind = kinds_find(word, strlen(word));
		if (rule.kind == KIND_UNKNOWN)
			return complain(parser,
					"use application, library, standard, runtime or "
					"allocator, not",
					word);
		const char *kind = word;
		code = next_word(parser, &word);
		if (!code && !word)
			code = complain(parser, "a condition is missing after", kind);
		while (!code && word) {
			code = parse_condition(parser, &rule, word);
			if (!code)
				code = next_word(parser, &word);
		}
		if (!code && !rule.function.text && !rule.file.text && !rule.module.text &&
		    !rule.package.text)
			code = complain(parser, "a condition is missing after", kind);
	}
	if (!code)
		*ret_rule = rule;
	return code;
}

static int add_rule(struct parser *parser, struct rules *rules, const struct rules_rule *rule)
{
	if (rules->count == RULES_COUNT_MAX)
		return tm_fail(parser->err, -EFBIG, "'%s' has more than %d rules", parser->name,
			       RULES_COUNT_MAX);
	if (rules->count == rules->room) {
		size_t room = rules->room * 2 + 64;
		struct rules_rule *grown = tm_grow_array(rules->list, room, sizeof *grown);
		if (!grown)
			return tm_fail(parser->err, -ENOMEM, "out of memory");
		rules->list = grown;
		rules->room = room;
	}
	rules->list[rules->count++] = *rule;
	return 0;
}

static int parse_all(struct parser *parser, const char *text, size_t bytes, struct rules *rules)
{
	const char *end = text + bytes;
	int code = 0;
	while (!code && text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		stop = stop ? stop : end;
		parser->line++;
		parser->at = text;
		parser->end = stop;
		struct rules_rule rule = {0};
		if (stop - text > RULES_LINE_MAX)
			return complain(parser, "the line is too long", NULL);
		if (memchr(text, '\0', (size_t)(stop - text)))
			return complain(parser, "there is a zero byte in it", NULL);
		code = parse_line(parser, &rule);
		if (!code && rule.kind != KIND_UNKNOWN)
			code = add_rule(parser, rules, &rule);
		text = stop + 1;
	}
	return code;
}

int rules_parse(const char *name, const char *text, size_t bytes, struct rules *ret_rules,
		struct tm_error *err)
{
	if (bytes > RULES_BYTES_MAX)
		return tm_fail(err, -EFBIG, "'%s' is larger than rules may be (1 MiB)", name);
	/* A word and its terminator take no more than the word and the blank or line end after. */
	struct parser parser = {.name = name, .texts = tm_alloc(bytes + 2), .err = err};
	if (!parser.texts)
		return tm_fail(err, -ENOMEM, "out of memory");
	struct rules rules = {.texts = parser.texts};
	int code = parse_all(&parser, text, bytes, &rules);
	if (code)
		rules_done(&rules);
	else
		*ret_rules = rules;
	return code;
}

void rules_done(struct rules *rules)
{
	tm_free(rules->list);
	tm_free(rules->texts);
	*rules = (struct rules){0};
}

/* On a mismatch only the last star is tried again: no more than pattern * text steps. */
bool rules_match(const struct rules_pattern *pattern, const char *text)
{
	const char *want = pattern->text, *star = NULL, *retry = NULL;
	if (strncmp(want, text, pattern->literal) != 0)
		return false;
	while (*text || *want) {
		if (*want == '*') {
			star = ++want;
			retry = text;
			continue;
		}
		const char *literal = *want == '\\' && want[1] ? want + 1 : want;
		if (*text && *literal == *text) {
			want = literal + 1;
			text++;
		} else if (star && *retry) {
			want = star;
			text = ++retry;
		} else {
			return false;
		}
	}
	return true;
}
