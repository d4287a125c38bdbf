/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar: terms joined by or, and (which may be left out), not, brackets.
 *
 *	either  = both { "or" both }
 *	both    = one { ["and"] one }
 *	one     = ("not" | "!" | "-") one | "(" either ")" | term
 */
#include "model/filter.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "model/filter_parse.h"

struct parser {
	struct filter_cursor c;
	struct filter *filter;
	unsigned depth;
};

static int read_either(struct parser *p);

static int add_step(struct parser *p, enum filter_op op, uint8_t term)
{
	struct filter *filter = p->filter;
	if (filter->step_count == FILTER_STEPS_MAX)
		return filter_wrong(&p->c, p->c.at, "this filter has too many parts");
	filter->steps[filter->step_count++] = (struct filter_step){(uint8_t)op, term};
	return 0;
}

/* Whether the word stands here, alone. */
static bool at_word(const struct parser *p, const char *word)
{
	const char *text = p->c.text + p->c.at;
	size_t bytes = strlen(word);
	return !strncmp(text, word, bytes) &&
	       (!text[bytes] || isspace((unsigned char)text[bytes]) || text[bytes] == '(' ||
		text[bytes] == ')');
}

static bool take_word(struct parser *p, const char *word)
{
	filter_skip_blanks(&p->c);
	if (!at_word(p, word))
		return false;
	p->c.at += strlen(word);
	filter_skip_blanks(&p->c);
	return true;
}

static bool take_char(struct parser *p, char character)
{
	filter_skip_blanks(&p->c);
	if (p->c.text[p->c.at] != character)
		return false;
	p->c.at++;
	filter_skip_blanks(&p->c);
	return true;
}

static int read_new_term(struct parser *p)
{
	struct filter *filter = p->filter;
	if (filter->term_count == FILTER_TERMS_MAX)
		return filter_wrong(&p->c, p->c.at, "a filter has at most %d terms",
				    FILTER_TERMS_MAX);
	size_t number = filter->term_count++;
	int rc = filter_read_term(&p->c, &filter->terms[number]);
	return rc ? rc : add_step(p, FILTER_OP_TERM, (uint8_t)number);
}

static int read_one(struct parser *p)
{
	if (++p->depth > FILTER_DEPTH_MAX)
		return filter_wrong(&p->c, p->c.at, "brackets are nested too deep here");
	int rc;
	size_t start = p->c.at;
	if (take_word(p, "not") || take_char(p, '!') || take_char(p, '-')) {
		rc = read_one(p);
		if (!rc)
			rc = add_step(p, FILTER_OP_NOT, 0);
	} else if (take_char(p, '(')) {
		rc = read_either(p);
		if (!rc && !take_char(p, ')'))
			rc = filter_wrong(&p->c, p->c.text[p->c.at] ? p->c.at : start,
					  p->c.text[p->c.at] ? "a ) is expected here"
							     : "this bracket is never closed");
	} else if (!p->c.text[p->c.at] || p->c.text[p->c.at] == ')' || at_word(p, "and") ||
		   at_word(p, "or")) {
		rc = filter_wrong(&p->c, p->c.at, "a term is missing here");
	} else {
		rc = read_new_term(p);
	}
	p->depth--;
	return rc;
}

static int read_both(struct parser *p)
{
	int rc = read_one(p);
	for (;;) {
		filter_skip_blanks(&p->c);
		char next = p->c.text[p->c.at];
		if (rc || !next || next == ')' || at_word(p, "or"))
			return rc;
		take_word(p, "and");
		rc = read_one(p);
		if (!rc)
			rc = add_step(p, FILTER_OP_AND, 0);
	}
}

static int read_either(struct parser *p)
{
	int rc = read_both(p);
	while (!rc && take_word(p, "or")) {
		rc = read_both(p);
		if (!rc)
			rc = add_step(p, FILTER_OP_OR, 0);
	}
	return rc;
}

static int parse_all(struct parser *p)
{
	if (strlen(p->c.text) > FILTER_TEXT_MAX)
		return filter_wrong(&p->c, 0, "a filter has at most %d characters",
				    FILTER_TEXT_MAX);
	filter_skip_blanks(&p->c);
	if (!p->c.text[p->c.at])
		return 0;
	int rc = read_either(p);
	filter_skip_blanks(&p->c);
	if (!rc && p->c.text[p->c.at])
		rc = filter_wrong(&p->c, p->c.at, "this bracket was never opened");
	return rc;
}

int filter_parse(const char *text, struct filter **ret_filter, size_t *ret_column,
		 struct tm_error *err)
{
	struct parser p = {.c = {.text = text, .err = err}, .filter = tm_alloc(sizeof *p.filter)};
	if (!p.filter)
		return tm_fail(err, -ENOMEM, "no memory for the filter");
	int rc = parse_all(&p);
	if (rc) {
		filter_free(p.filter);
		if (rc == -EINVAL && ret_column)
			*ret_column = p.c.wrong;
		return rc;
	}
	*ret_filter = p.filter;
	return 0;
}

struct filter *filter_free(struct filter *filter)
{
	for (size_t i = 0; filter && i < filter->term_count; i++)
		filter_term_done(&filter->terms[i]);
	return tm_free(filter);
}

void filter_explain(struct text *out, const char *text, size_t column, const struct tm_error *err)
{
	size_t length = strlen(text);
	struct text line = {0};
	text_print(out, "%s\n  ", err->text);
	text_put_visible(out, text, length);
	/* The caret stands below the character as it is shown, not as it is stored. */
	text_put_visible(&line, text, column < length ? column : length);
	text_put(out, "\n  ");
	text_put_repeated(out, ' ', utf8_count(text_string(&line), line.length));
	text_put(out, "^\n");
	text_done(&line);
}

bool filter_needs_names(const struct filter *filter)
{
	for (size_t i = 0; i < filter->term_count; i++) {
		if (filter_is_name(filter->terms[i].key))
			return true;
	}
	return false;
}

/* ---- printing ---- */

static void print_quoted(struct text *out, const char *text)
{
	text_put_char(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			text_put_char(out, '\\');
		text_put_char(out, *text);
	}
	text_put_char(out, '"');
}

static void print_text(struct text *out, const struct filter_term *term)
{
	const char *name = filter_keys[term->key].name;
	if (term->how == FILTER_REGEX)
		text_print(out, "%s%s/%s/%s", name, term->negated ? "!=" : ":", term->text,
			   term->ignore_case ? "i" : "");
	else if (term->how == FILTER_GLOB)
		text_print(out, "%s:%s", name, term->text);
	else {
		text_print(out, "%s%s", name,
			   term->how == FILTER_CONTAINS ? ":"
			   : term->negated              ? "!="
							: "=");
		print_quoted(out, term->text);
	}
}

static void print_end(struct text *out, const struct filter_term *term, uint64_t value)
{
	if (term->key == FILTER_ADDRESS)
		text_print(out, "0x%" PRIx64, value);
	else if (term->key == FILTER_SIZE)
		text_print(out, "%" PRIu64, value);
	else
		text_print(out, "%" PRIu64 "ns", value);
}

static void print_time(struct text *out, const struct filter_term *term)
{
	if (term->above)
		text_print(out, "time>%s", term->text);
	else if (term->below)
		text_print(out, "time<%s", term->text_high);
	else
		text_print(out, "time%s%s..%s", term->negated ? "!=" : "=",
			   term->text ? term->text : "", term->text_high ? term->text_high : "");
}

static void print_number(struct text *out, const struct filter_term *term)
{
	text_print(out, "%s%s", filter_keys[term->key].name, term->negated ? "!=" : "=");
	print_end(out, term, term->low);
	text_put(out, "..");
	if (term->high != UINT64_MAX)
		print_end(out, term, term->high);
}

static void print_term(struct text *out, const struct filter_term *term)
{
	const char *name = filter_keys[term->key].name;
	switch (filter_keys[term->key].sort) {
	case FILTER_TEXT:
		print_text(out, term);
		return;
	case FILTER_NUMBER:
		if (term->key == FILTER_TIME)
			print_time(out, term);
		else
			print_number(out, term);
		return;
	case FILTER_WORD:
		text_print(out, "%s%s%s", name, term->negated ? "!=" : "=",
			   (term->key == FILTER_KIND ? filter_kinds : filter_apis)[term->low]);
		return;
	case FILTER_FLAG:
		text_put(out, name);
		return;
	}
}

/* Where the part that ends with step `end` begins. */
static size_t part_start(const struct filter *filter, size_t end)
{
	size_t needed = 1;
	for (;; end--) {
		enum filter_op op = filter->steps[end].op;
		if (op == FILTER_OP_TERM)
			needed--;
		else if (op != FILTER_OP_NOT)
			needed++;
		if (needed == 0)
			return end;
	}
}

static void print_part(struct text *out, const struct filter *filter, size_t end)
{
	const struct filter_step *step = &filter->steps[end];
	if (step->op == FILTER_OP_TERM) {
		print_term(out, &filter->terms[step->term]);
	} else if (step->op == FILTER_OP_NOT) {
		text_put(out, "not (");
		print_part(out, filter, end - 1);
		text_put_char(out, ')');
	} else {
		text_put_char(out, '(');
		print_part(out, filter, part_start(filter, end - 1) - 1);
		text_put(out, step->op == FILTER_OP_AND ? " and " : " or ");
		print_part(out, filter, end - 1);
		text_put_char(out, ')');
	}
}

void filter_print(struct text *out, const struct filter *filter)
{
	if (filter->step_count > 0)
		print_part(out, filter, filter->step_count - 1);
}
