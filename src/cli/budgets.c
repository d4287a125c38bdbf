/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/budgets.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/units.h"

enum { FILE_MAX = 1 << 20, BUDGETS_MAX = 100000 };

static const struct {
	const char *name;
	bool bytes;
} figures[BUDGET_FIGURE_COUNT] = {
	[BUDGET_PEAK] = {"peak", true},
	[BUDGET_UNFREED] = {"unfreed", true},
	[BUDGET_ALLOCATIONS] = {"allocations", false},
	[BUDGET_TEMPORARY] = {"temporary", false},
	[BUDGET_ALLOCATED] = {"allocated", true},
	[BUDGET_RSS] = {"rss", true},
};

const char *budget_name(enum budget_figure figure)
{
	return figures[figure].name;
}

bool budget_is_bytes(enum budget_figure figure)
{
	return figures[figure].bytes;
}

void budgets_done(struct budgets *budgets)
{
	for (size_t i = 0; i < budgets->count; i++) {
		tm_free(budgets->list[i].function);
		tm_free(budgets->list[i].origin);
	}
	tm_free(budgets->list);
	*budgets = (struct budgets){0};
}

/* ---- matching ---- */

/* `name` has `bytes` bytes. After a star that was wrong the match goes on one character later. */
static bool glob(const char *pattern, const char *name, size_t bytes)
{
	const char *end = name + bytes, *star = NULL, *resume = NULL;
	while (name < end) {
		if (*pattern == '*') {
			star = ++pattern;
			resume = name;
		} else if (*pattern && (*pattern == '?' || *pattern == *name)) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* Where the arguments of "f(int) const" begin; the end if it has none. */
static size_t without_arguments(const char *function)
{
	const char *open = strchr(function, '(');
	/* "(anonymous namespace)::f(int)" and "operator()(int)" have earlier ones. */
	while (open && (open == function || !strncmp(open, "(anonymous", 10) ||
			!strncmp(open, "()(", 3) || open[-1] == ':' || open[-1] == ' '))
		open = strchr(open + (strncmp(open, "()(", 3) ? 1 : 2), '(');
	return open ? (size_t)(open - function) : strlen(function);
}

bool budget_matches(const char *pattern, const char *function)
{
	return function && (glob(pattern, function, strlen(function)) ||
			    glob(pattern, function, without_arguments(function)));
}

/* ---- parsing ---- */

static int append(struct budgets *budgets, const struct budget *budget, struct tm_error *err)
{
	if (budgets->count == budgets->room) {
		size_t room = budgets->room * 2 + 16;
		void *grown = tm_grow_array(budgets->list, room, sizeof *budgets->list);
		if (!grown)
			goto fail;
		budgets->list = grown;
		budgets->room = room;
	}
	if (budgets->count >= BUDGETS_MAX || !budget->origin)
		goto fail;
	budgets->list[budgets->count++] = *budget;
	return 0;
fail:
	tm_free(budget->function);
	tm_free(budget->origin);
	return tm_fail(err, -ENOMEM, "no memory for so many budgets");
}

/* "1000", "10k", "2.5M", "3G": decimal. */
static int parse_count(const char *text, uint64_t *ret, struct tm_error *err)
{
	static const char letters[] = "kMG";
	char *end;
	errno = 0;
	double value = strtod(text, &end);
	double factor = 1;
	const char *letter = *end ? strchr(letters, *end == 'K' ? 'k' : *end) : NULL;
	if (letter) {
		for (const char *at = letters; at <= letter; at++)
			factor *= 1000;
		end++;
	}
	end += strspn(end, " \t");
	value *= factor;
	if (!isdigit((unsigned char)text[0]) || *end || errno || value > 1e18 || text[1] == 'x' ||
	    text[1] == 'X')
		return tm_fail(err, -EINVAL, "'%.40s' is no number such as 1000, 10k or 2.5M",
			       text);
	*ret = (uint64_t)(value + 0.5);
	return 0;
}

static int parse_limit(enum budget_figure figure, const char *text, uint64_t *ret,
		       struct tm_error *err)
{
	text += strspn(text, " \t");
	return figures[figure].bytes ? units_parse_bytes(text, ret, err)
				     : parse_count(text, ret, err);
}

int budgets_add_value(struct budgets *budgets, enum budget_figure figure, uint64_t limit,
		      const char *origin, struct tm_error *err)
{
	const struct budget budget = {
		.figure = figure, .limit = limit, .origin = tm_strdup(origin)};
	return append(budgets, &budget, err);
}

int budgets_add_limit(struct budgets *budgets, enum budget_figure figure, const char *limit,
		      const char *origin, struct tm_error *err)
{
	struct tm_error why = {0};
	uint64_t value;
	int code = parse_limit(figure, limit, &value, &why);
	if (code)
		return tm_fail(err, code, "%s: %s", origin, why.text);
	return budgets_add_value(budgets, figure, value, origin, err);
}

static bool find_figure(const char *name, size_t bytes, enum budget_figure *ret)
{
	for (unsigned i = 0; i < BUDGET_FIGURE_COUNT; i++)
		if (strlen(figures[i].name) == bytes && !strncmp(figures[i].name, name, bytes)) {
			*ret = (enum budget_figure)i;
			return true;
		}
	return false;
}

static char *copy_trimmed(const char *text, size_t bytes)
{
	while (bytes && isspace((unsigned char)*text)) {
		text++;
		bytes--;
	}
	while (bytes && isspace((unsigned char)text[bytes - 1]))
		bytes--;
	char *copy = tm_alloc(bytes + 1);
	if (copy)
		memcpy(copy, text, bytes);
	return copy;
}

static int bad(const char *origin, const char *text, const char *what, struct tm_error *err)
{
	return tm_fail(err, -EINVAL,
		       "%.80s: '%.60s' %s: a budget is FIGURE<=LIMIT or FUNCTION:FIGURE<=LIMIT",
		       origin, text, what);
}

/* FUNCTION:FIGURE before the relation; FUNCTION may be missing and may have colons. */
static int parse_subject(const char *text, size_t bytes, const char *origin, struct budget *budget,
			 struct tm_error *err)
{
	size_t colon = bytes;
	while (colon > 0 && text[colon - 1] != ':')
		colon--;
	char *name = copy_trimmed(text + colon, bytes - colon);
	if (!name)
		return tm_fail(err, -ENOMEM, "out of memory");
	bool known = find_figure(name, strlen(name), &budget->figure);
	tm_free(name);
	if (!known)
		return bad(
			origin, text,
			"names no figure (peak, unfreed, allocations, temporary, allocated, rss)",
			err);
	if (!colon)
		return 0;
	budget->function = copy_trimmed(text, colon - 1);
	if (!budget->function)
		return tm_fail(err, -ENOMEM, "out of memory");
	if (!*budget->function)
		return bad(origin, text, "has no function before ':'", err);
	if (budget->figure == BUDGET_RSS)
		return bad(origin, text, "asks for the RSS of a function: only the program has one",
			   err);
	return 0;
}

int budgets_add(struct budgets *budgets, const char *text, const char *origin, struct tm_error *err)
{
	struct budget budget = {0};
	struct tm_error why = {0};
	const char *relation = strrchr(text, '<'); /* names have them, too: the last one counts */
	if (!relation)
		return bad(origin, text, "has no '<='", err);
	int code = parse_subject(text, (size_t)(relation - text), origin, &budget, err);
	bool inclusive = relation[1] == '=';
	if (!code && parse_limit(budget.figure, relation + 1 + inclusive, &budget.limit, &why))
		code = tm_fail(err, -EINVAL, "%.80s: %s", origin, why.text);
	if (!code && !inclusive && !budget.limit)
		code = bad(origin, text, "cannot be kept: nothing is below 0", err);
	if (code) {
		tm_free(budget.function);
		return code;
	}
	budget.limit -= !inclusive;
	budget.origin = tm_strdup(origin);
	return append(budgets, &budget, err);
}

static int add_lines(struct budgets *budgets, char *at, const char *path, struct tm_error *err)
{
	unsigned number = 1;
	for (; at; number++) {
		char origin[300], *line = strsep(&at, "\n");
		line[strcspn(line, "#")] = '\0';
		line[strcspn(line, "\r")] = '\0';
		line += strspn(line, " \t");
		if (!*line)
			continue;
		snprintf(origin, sizeof origin, "%.256s:%u", path, number);
		int code = budgets_add(budgets, line, origin, err);
		if (code)
			return code;
	}
	return 0;
}

int budgets_add_file(struct budgets *budgets, const char *path, struct tm_error *err)
{
	struct text text = {0};
	char *content = NULL;
	int code = io_read_file(path, FILE_MAX, &text);
	if (code)
		tm_fail(err, code, "the budgets '%s' cannot be read: %s", path,
			code == -EFBIG ? "more than 1 MiB" : strerror(-code));
	else if (text.length != strlen(text_string(&text)))
		code = tm_fail(err, -EINVAL, "'%s' is no text: it has a NUL", path);
	else
		content = tm_strdup(text_string(&text));
	if (content)
		code = add_lines(budgets, content, path, err);
	else if (!code)
		code = tm_fail(err, -ENOMEM, "out of memory");
	tm_free(content);
	text_done(&text);
	return code;
}
