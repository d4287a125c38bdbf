/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/io.h"
#include "base/utf8.h"
#include "symbols/symbols.h"

/* Longer names are cut for the screen. */
enum { NAME_ROOM = 8 * 1024 };

enum { WIDTH_MIN = 40, WIDTH_MAX = 10000 };

static unsigned terminal_width(const struct winsize *size)
{
	const char *columns = getenv("COLUMNS");
	long wanted = columns ? strtol(columns, NULL, 10) : 0;
	if (wanted <= 0)
		wanted = size->ws_col;
	if (wanted <= 0)
		return 80;
	return wanted < WIDTH_MIN ? WIDTH_MIN : wanted > WIDTH_MAX ? WIDTH_MAX : (unsigned)wanted;
}

void out_init(struct out *out, enum out_color color)
{
	*out = (struct out){0};
	bool terminal = isatty(STDOUT_FILENO);
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool wanted = terminal && !(no_color && no_color[0]) && !(term && !strcmp(term, "dumb"));
	struct winsize size = {0};
	if (terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		out->height = size.ws_row ? size.ws_row : 24;
	out->width = terminal ? terminal_width(&size) : 0;
	out->color = color == OUT_COLOR_AUTO ? wanted : color == OUT_COLOR_ALWAYS;
}

void out_style(struct out *out, enum out_style style)
{
	static const char *const codes[] = {
		[OUT_PLAIN] = "\033[0m",   [OUT_BOLD] = "\033[1m",  [OUT_DIM] = "\033[2m",
		[OUT_FIGURE] = "\033[36m", [OUT_WARN] = "\033[33m", [OUT_BAR] = "\033[34m",
		[OUT_GROWN] = "\033[31m",
	};
	if (out->color)
		text_put(&out->text, codes[style]);
}

/* Bytes that the first `columns` characters take; invalid bytes are one each. */
static size_t bytes_of(const char *text, size_t bytes, size_t columns)
{
	size_t at = 0;
	while (at < bytes && columns-- > 0) {
		uint32_t code;
		size_t step = utf8_get(text + at, bytes - at, &code);
		at += step ? step : 1;
	}
	return at;
}

unsigned out_name(struct out *out, const char *name, unsigned columns)
{
	struct text visible = {0};
	text_put_visible(&visible, name, strlen(name));
	const char *text = text_string(&visible);
	size_t bytes = visible.length, wide = utf8_count(text, bytes);
	if (!columns || wide <= columns) {
		text_put_bytes(&out->text, text, bytes);
	} else {
		/* The end of a name tells more than its middle. */
		size_t left = (columns - 1) / 2, right = columns - 1 - left;
		size_t right_at = bytes_of(text, bytes, wide - right);
		text_put_bytes(&out->text, text, bytes_of(text, bytes, left));
		text_put(&out->text, "…");
		text_put_bytes(&out->text, text + right_at, bytes - right_at);
		wide = columns;
	}
	text_done(&visible);
	return (unsigned)wide;
}

/* Where the bracket at `open` is closed; at the end if it never is. */
static const char *closing(const char *open, char left, char right)
{
	unsigned depth = 0;
	for (; *open; open++) {
		if (*open == left)
			depth++;
		else if (*open == right && open[-1] != '-' && --depth == 0)
			break;
	}
	return open;
}

static bool ends_with(const char *begin, const char *end, const char *word)
{
	size_t bytes = strlen(word);
	return (size_t)(end - begin) >= bytes && !strncmp(end - bytes, word, bytes);
}

/* A bracket that holds nothing that could go: operator(), (anonymous namespace), operator<. */
static bool is_no_bracket(const char *name, const char *at)
{
	return ends_with(name, at, "operator") || ends_with(name, at, "operator<") ||
	       ends_with(name, at, "operator-") || !strncmp(at, "(anonymous", 10) ||
	       !strncmp(at, "()", 2) || !strncmp(at, "(.", 2);
}

static void put_shortened(struct text *text, const char *name, char left, char right)
{
	for (const char *at = name; *at; at++) {
		text_put_char(text, *at);
		if (*at != left || is_no_bracket(name, at))
			continue;
		const char *end = closing(at, left, right);
		text_put(text, "…");
		if (!*end)
			return;
		text_put_char(text, right);
		at = end;
	}
}

/* Behind the type that a C++ function returns: "void std::sort<int>(int)". */
static const char *after_type(const char *name)
{
	const char *begin = name;
	int depth = 0;
	for (const char *at = name; *at; at++) {
		if (*at == '(' && !depth && at > begin && !is_no_bracket(name, at))
			return begin;
		if (*at == '<' || *at == '(')
			depth += *at == '(' || !is_no_bracket(name, at);
		else if ((*at == '>' && at > name && at[-1] != '-') || *at == ')')
			depth -= depth > 0;
		else if (*at == ' ' && !depth && !ends_with(name, at, "operator"))
			begin = at + 1;
	}
	return name;
}

unsigned out_function(struct out *out, const char *name, unsigned columns)
{
	if (out->full_names)
		return out_name(out, name, 0);
	char brief[NAME_ROOM];
	symbols_shorten(name, brief, sizeof brief);
	name = brief;
	if (!columns || utf8_count(name, strlen(name)) <= columns)
		return out_name(out, name, columns);
	struct text plain = {0}, bare = {0};
	put_shortened(&plain, after_type(name), '(', ')');
	const char *shown = text_string(&plain);
	if (utf8_count(shown, plain.length) > columns) {
		put_shortened(&bare, shown, '<', '>');
		shown = text_string(&bare);
	}
	unsigned used = out_name(out, shown, columns);
	text_done(&plain);
	text_done(&bare);
	return used;
}

unsigned out_start(struct out *out, const char *text, unsigned columns)
{
	size_t bytes = strlen(text), wide = utf8_count(text, bytes);
	if (!columns || wide <= columns)
		return out_name(out, text, 0);
	text_put_visible(&out->text, text, bytes_of(text, bytes, columns - 1));
	text_put(&out->text, "…");
	return columns;
}

struct units_text out_bytes(const struct out *out, uint64_t bytes)
{
	if (!out->exact)
		return units_bytes(bytes);
	struct units_text text = units_grouped(bytes);
	if (strlen(text.text) + 3 <= sizeof text.text)
		strcat(text.text, " B");
	return text;
}

struct units_text out_duration(const struct out *out, uint64_t nanoseconds)
{
	if (!out->exact)
		return units_duration(nanoseconds);
	struct units_text text;
	snprintf(text.text, sizeof text.text, "%llu.%06u s",
		 (unsigned long long)(nanoseconds / 1000000000u),
		 (unsigned)(nanoseconds % 1000000000u / 1000u));
	return text;
}

void out_paragraph(struct out *out, unsigned indent, const char *text)
{
	size_t room = out->width > indent ? out->width - indent : 0, used = 0;
	text_put_repeated(&out->text, ' ', indent);
	while (*text) {
		size_t bytes = strcspn(text, " "), wide = utf8_count(text, bytes);
		if (used && room && used + 1 + wide > room) {
			text_put_char(&out->text, '\n');
			text_put_repeated(&out->text, ' ', indent);
			used = 0;
		}
		if (used) {
			text_put_char(&out->text, ' ');
			used++;
		}
		text_put_visible(&out->text, text, bytes);
		used += wide;
		text += bytes + strspn(text + bytes, " ");
	}
	text_put_char(&out->text, '\n');
}

int out_finish(struct out *out)
{
	int code = text_error(&out->text);
	signal(SIGPIPE, SIG_IGN);
	if (!code)
		code = io_write(STDOUT_FILENO, text_string(&out->text), out->text.length);
	text_done(&out->text);
	if (!code || code == -EPIPE)
		return 0;
	fprintf(stderr, "tidemark: standard output cannot be written: %s.\n", strerror(-code));
	return 1;
}
