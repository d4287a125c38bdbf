/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terms of a filter: key, comparison, value. Regular expressions are POSIX
 * extended ones, without what can make their cost explode: no references back,
 * few repetitions.
 */
#include "model/filter_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"

enum { REGEX_BYTES_MAX = 256, REGEX_REPEATS_MAX = 1000, KEY_BYTES_MAX = 24 };

const struct filter_key_facts filter_keys[FILTER_KEY_COUNT] = {
	[FILTER_FUNCTION] = {"function", "fn", FILTER_TEXT},
	[FILTER_SITE] = {"site", NULL, FILTER_TEXT},
	[FILTER_FILE] = {"file", NULL, FILTER_TEXT},
	[FILTER_MODULE] = {"module", NULL, FILTER_TEXT},
	[FILTER_PACKAGE] = {"package", NULL, FILTER_TEXT},
	[FILTER_HEAP] = {"heap", NULL, FILTER_TEXT},
	[FILTER_TAG] = {"tag", NULL, FILTER_TEXT},
	[FILTER_THREAD] = {"thread", NULL, FILTER_TEXT},
	[FILTER_SIZE] = {"size", NULL, FILTER_NUMBER},
	[FILTER_LIFETIME] = {"lifetime", "life", FILTER_NUMBER},
	[FILTER_AGE] = {"age", NULL, FILTER_NUMBER},
	[FILTER_TIME] = {"time", NULL, FILTER_NUMBER},
	[FILTER_ADDRESS] = {"address", "addr", FILTER_NUMBER},
	[FILTER_KIND] = {"kind", NULL, FILTER_WORD},
	[FILTER_API] = {"api", NULL, FILTER_WORD},
	[FILTER_TEMPORARY] = {"temporary", NULL, FILTER_FLAG},
	[FILTER_UNFREED] = {"unfreed", NULL, FILTER_FLAG},
	[FILTER_FOREIGN] = {"foreign", "freed-elsewhere", FILTER_FLAG},
};

const char *const filter_kinds[FILTER_KIND_COUNT] = {"heap", "mapped", "custom"};
const char *const filter_apis[TRACE_API_COUNT] = {
	"malloc",   "calloc",   "realloc",  "aligned", "new",
	"jemalloc", "mimalloc", "tcmalloc", "custom",
};

enum compare { CMP_IS, CMP_EXACT, CMP_NOT, CMP_LESS, CMP_LESS_EQUAL, CMP_MORE, CMP_MORE_EQUAL };

void filter_skip_blanks(struct filter_cursor *c)
{
	while (isspace((unsigned char)c->text[c->at]))
		c->at++;
}

int filter_wrong(struct filter_cursor *c, size_t at, const char *format, ...)
{
	char sentence[200];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	c->wrong = at;
	return tm_fail(c->err, -EINVAL, "%s", sentence);
}

void filter_term_done(struct filter_term *term)
{
	if (term->regex_made)
		regfree(&term->regex);
	tm_free(term->text);
	tm_free(term->text_high);
	*term = (struct filter_term){0};
}

/* ---- values ---- */

static int take_text(struct filter_cursor *c, const char *from, size_t bytes, char **ret)
{
	char *copy = tm_alloc(bytes + 1);
	if (!copy)
		return tm_fail(c->err, -ENOMEM, "no memory for the filter");
	memcpy(copy, from, bytes);
	*ret = copy;
	return 0;
}

/* A word up to a blank or a bracket that it did not open. */
static size_t word_bytes(const char *text)
{
	size_t bytes = 0, open = 0;
	for (; text[bytes] && !isspace((unsigned char)text[bytes]); bytes++) {
		if (text[bytes] == '(')
			open++;
		if (text[bytes] == ')' && open-- == 0)
			break;
	}
	return bytes;
}

/* In quotes; a backslash takes the next character as it is. */
static int read_quoted(struct filter_cursor *c, char **ret)
{
	size_t start = c->at++, used = 0;
	char *out = tm_alloc(strlen(c->text + c->at) + 1);
	if (!out)
		return tm_fail(c->err, -ENOMEM, "no memory for the filter");
	while (c->text[c->at] && c->text[c->at] != '"') {
		if (c->text[c->at] == '\\' && c->text[c->at + 1])
			c->at++;
		out[used++] = c->text[c->at++];
	}
	if (!c->text[c->at]) {
		tm_free(out);
		return filter_wrong(c, start, "this quote is never closed");
	}
	c->at++;
	*ret = out;
	return 0;
}

/* Repetitions multiply; references back can take for ever. */
static const char *regex_danger(const char *text)
{
	uint64_t repeats = 1;
	for (size_t i = 0; text[i]; i++) {
		if (text[i] == '\\' && isdigit((unsigned char)text[i + 1]))
			return "a reference back is not possible here";
		if (text[i] == '\\' && text[i + 1]) {
			i++;
			continue;
		}
		if (text[i] != '{')
			continue;
		for (const char *digit = text + i + 1; *digit && *digit != '}';) {
			char *end;
			unsigned long count = strtoul(digit, &end, 10);
			if (end == digit) {
				digit++;
				continue;
			}
			repeats *= count > REGEX_REPEATS_MAX ? REGEX_REPEATS_MAX + 1 : count + 1;
			if (repeats > REGEX_REPEATS_MAX)
				return "it repeats too often";
			digit = end;
		}
	}
	return NULL;
}

static int compile(struct filter_cursor *c, size_t start, struct filter_term *term)
{
	const char *danger = regex_danger(term->text);
	if (danger)
		return filter_wrong(c, start, "in this regular expression: %s", danger);
	int flags = REG_EXTENDED | REG_NOSUB | (term->ignore_case ? REG_ICASE : 0);
	int code = regcomp(&term->regex, term->text, flags);
	if (code == 0) {
		term->regex_made = true;
		return 0;
	}
	char why[80];
	regerror(code, &term->regex, why, sizeof why);
	return filter_wrong(c, start, "in this regular expression: %s", why);
}

static int read_regex(struct filter_cursor *c, struct filter_term *term)
{
	size_t start = c->at++, from = c->at;
	while (c->text[c->at] && c->text[c->at] != '/')
		c->at += c->text[c->at] == '\\' && c->text[c->at + 1] ? 2 : 1;
	if (!c->text[c->at])
		return filter_wrong(c, start, "this regular expression has no closing /");
	if (c->at - from > REGEX_BYTES_MAX)
		return filter_wrong(c, start, "this regular expression is longer than %d bytes",
				    REGEX_BYTES_MAX);
	int rc = take_text(c, c->text + from, c->at - from, &term->text);
	if (rc)
		return rc;
	c->at++;
	if (c->text[c->at] == 'i') {
		term->ignore_case = true;
		c->at++;
	}
	term->how = FILTER_REGEX;
	return compile(c, start, term);
}

static int read_text(struct filter_cursor *c, struct filter_term *term, enum compare compare)
{
	if (compare != CMP_IS && compare != CMP_EXACT && compare != CMP_NOT)
		return filter_wrong(c, c->at - 1, "a name can be compared by : = != only");
	term->negated = compare == CMP_NOT;
	if (c->text[c->at] == '/')
		return read_regex(c, term);
	size_t start = c->at, bytes = word_bytes(c->text + c->at);
	bool quoted = c->text[c->at] == '"';
	int rc;
	if (quoted) {
		rc = read_quoted(c, &term->text);
	} else {
		rc = take_text(c, c->text + c->at, bytes, &term->text);
		c->at += bytes;
	}
	if (rc)
		return rc;
	if (!*term->text && compare == CMP_IS)
		return filter_wrong(c, start, "a name is missing here");
	term->how = compare == CMP_IS ? FILTER_CONTAINS : FILTER_EXACT;
	if (compare == CMP_IS && !quoted && strpbrk(term->text, "*?"))
		term->how = FILTER_GLOB;
	return 0;
}

/* ---- numbers ---- */

static int parse_address(struct filter_cursor *c, size_t at, const char *text, uint64_t *ret)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 0);
	if (!isdigit((unsigned char)text[0]) || *end || errno)
		return filter_wrong(c, at, "'%.60s' is no address, such as 0x7f12a000", text);
	*ret = value;
	return 0;
}

static int parse_number(struct filter_cursor *c, size_t at, enum filter_key key, const char *text,
			uint64_t *ret)
{
	struct tm_error why = {0};
	int rc;
	if (key == FILTER_ADDRESS)
		return parse_address(c, at, text, ret);
	if (key == FILTER_SIZE)
		rc = units_parse_bytes(text, ret, &why);
	else
		rc = units_parse_duration(text, ret, &why);
	return rc ? filter_wrong(c, at, "%s", why.text) : 0;
}

/* One end of a range: a moment is kept as text, since only a trace can tell what it is. */
static int take_end(struct filter_cursor *c, size_t at, struct filter_term *term, const char *text,
		    bool upper)
{
	if (term->key != FILTER_TIME)
		return parse_number(c, at, term->key, text, upper ? &term->high : &term->low);
	return take_text(c, text, strlen(text), upper ? &term->text_high : &term->text);
}

static int take_range(struct filter_cursor *c, size_t at, struct filter_term *term, char *value)
{
	char *dots = strstr(value, "..");
	const char *upper = dots + 2;
	int rc = 0;
	*dots = 0;
	if (!*value && !*upper)
		return filter_wrong(c, at, "a range needs one end at least");
	if (*value)
		rc = take_end(c, at, term, value, false);
	if (!rc && *upper)
		rc = take_end(c, at + (size_t)(upper - value), term, upper, true);
	if (!rc && term->low > term->high)
		return filter_wrong(c, at, "this range ends before it begins");
	return rc;
}

static int take_compared(struct filter_cursor *c, size_t at, struct filter_term *term,
			 const char *value, enum compare compare)
{
	bool lower = compare == CMP_MORE || compare == CMP_MORE_EQUAL;
	bool upper = compare == CMP_LESS || compare == CMP_LESS_EQUAL;
	int rc = 0;
	if (!upper)
		rc = take_end(c, at, term, value, false);
	if (!rc && !lower)
		rc = take_end(c, at, term, value, true);
	if (rc)
		return rc;
	term->above = compare == CMP_MORE;
	term->below = compare == CMP_LESS;
	if (term->key == FILTER_TIME)
		return 0;
	if ((term->above && term->low == UINT64_MAX) || (term->below && term->high == 0))
		return filter_wrong(c, at, "nothing can be there");
	term->low += term->above;
	term->high -= term->below;
	return 0;
}

static int read_number(struct filter_cursor *c, struct filter_term *term, enum compare compare)
{
	size_t start = c->at, bytes = word_bytes(c->text + c->at);
	char *value = NULL;
	if (bytes == 0)
		return filter_wrong(c, start, "a value is missing here");
	int rc = take_text(c, c->text + start, bytes, &value);
	if (rc || !value)
		return rc;
	term->high = UINT64_MAX;
	term->negated = compare == CMP_NOT;
	bool range = strstr(value, "..") != NULL;
	if (range && compare > CMP_NOT)
		rc = filter_wrong(c, start, "a range goes with = or :, not with < or >");
	else if (range)
		rc = take_range(c, start, term, value);
	else
		rc = take_compared(c, start, term, value, compare);
	c->at += bytes;
	tm_free(value);
	return rc;
}

static int read_word(struct filter_cursor *c, struct filter_term *term, enum compare compare)
{
	bool kind = term->key == FILTER_KIND;
	const char *const *words = kind ? filter_kinds : filter_apis;
	size_t count = kind ? (size_t)FILTER_KIND_COUNT : (size_t)TRACE_API_COUNT;
	size_t bytes = word_bytes(c->text + c->at);
	if (compare > CMP_NOT)
		return filter_wrong(c, c->at - 1, "this can be compared by : = != only");
	for (size_t i = 0; i < count; i++) {
		if (strlen(words[i]) == bytes && !memcmp(words[i], c->text + c->at, bytes)) {
			term->low = i;
			term->negated = compare == CMP_NOT;
			c->at += bytes;
			return 0;
		}
	}
	return filter_wrong(c, c->at,
			    kind ? "a kind is heap, mapped or custom"
				 : "an api is malloc, calloc, realloc, aligned, new, "
				   "jemalloc, mimalloc, tcmalloc or custom");
}

/* ---- terms ---- */

static bool read_compare(struct filter_cursor *c, enum compare *ret)
{
	static const struct {
		const char *text;
		enum compare compare;
	} all[] = {{"!=", CMP_NOT}, {"<=", CMP_LESS_EQUAL}, {">=", CMP_MORE_EQUAL},
		   {":", CMP_IS},   {"=", CMP_EXACT},       {"~", CMP_IS},
		   {"<", CMP_LESS}, {">", CMP_MORE}};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		size_t bytes = strlen(all[i].text);
		if (!strncmp(c->text + c->at, all[i].text, bytes)) {
			c->at += bytes;
			*ret = all[i].compare;
			return true;
		}
	}
	return false;
}

static enum filter_key find_key(const char *text, size_t bytes)
{
	for (int i = 0; i < FILTER_KEY_COUNT; i++) {
		const struct filter_key_facts *key = &filter_keys[i];
		if ((strlen(key->name) == bytes && !memcmp(key->name, text, bytes)) ||
		    (key->alias && strlen(key->alias) == bytes && !memcmp(key->alias, text, bytes)))
			return (enum filter_key)i;
	}
	return FILTER_KEY_COUNT;
}

static int unknown_key(struct filter_cursor *c, size_t start, size_t bytes)
{
	return filter_wrong(
		c, start,
		"there is no term '%.*s' (function, site, file, module, package, "
		"heap, tag, thread, size, lifetime, age, time, address, kind, api); put a name "
		"into quotes to look for it",
		(int)(bytes < KEY_BYTES_MAX ? bytes : KEY_BYTES_MAX), c->text + start);
}

/* After a key and its comparison. */
static int read_value(struct filter_cursor *c, struct filter_term *term, enum compare compare)
{
	switch (filter_keys[term->key].sort) {
	case FILTER_TEXT:
		return read_text(c, term, compare);
	case FILTER_NUMBER:
		return read_number(c, term, compare);
	case FILTER_WORD:
		return read_word(c, term, compare);
	case FILTER_FLAG:
		break;
	}
	return filter_wrong(c, c->at, "'%s' stands alone, without a value",
			    filter_keys[term->key].name);
}

int filter_read_term(struct filter_cursor *c, struct filter_term *term)
{
	size_t start = c->at, bytes = 0;
	const char *text = c->text + start;
	while (isalpha((unsigned char)text[bytes]) || (bytes > 0 && text[bytes] == '-'))
		bytes++;
	enum filter_key key = find_key(text, bytes);
	enum compare compare;
	bool scope = text[bytes] == ':' && text[bytes + 1] == ':';
	c->at += bytes;
	if (bytes > 0 && !scope && read_compare(c, &compare)) {
		if (key == FILTER_KEY_COUNT)
			return unknown_key(c, start, bytes);
		term->key = key;
		return read_value(c, term, compare);
	}
	if (key < FILTER_KEY_COUNT && word_bytes(text) == bytes) {
		term->key = key;
		if (filter_keys[key].sort == FILTER_FLAG)
			return 0;
		return filter_wrong(c, c->at, "after '%s' a comparison is missing, such as '%s:'",
				    filter_keys[key].name, filter_keys[key].name);
	}
	c->at = start;
	term->key = FILTER_FUNCTION;
	return read_text(c, term, CMP_IS);
}
