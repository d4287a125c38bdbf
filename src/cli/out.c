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

enum { WIDTH_MIN = 40, WIDTH_MAX = 10000 };

static unsigned terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	long wanted = columns ? strtol(columns, NULL, 10) : 0;
	struct winsize size = {0};
	if (wanted <= 0 && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		wanted = size.ws_col;
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
	out->width = terminal ? terminal_width() : 0;
	out->color = color == OUT_COLOR_AUTO ? wanted : color == OUT_COLOR_ALWAYS;
}

void out_style(struct out *out, enum out_style style)
{
	static const char *const codes[] = {
		[OUT_PLAIN] = "\033[0m",   [OUT_BOLD] = "\033[1m",  [OUT_DIM] = "\033[2m",
		[OUT_FIGURE] = "\033[36m", [OUT_WARN] = "\033[33m",
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
