/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sql_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/utf8.h"

enum { LINE_MAX_BYTES = 1 << 16, HISTORY_BYTES = 1 << 20 };

enum key {
	KEY_ZERO = 0,
	CTRL_A = 1,
	CTRL_B = 2,
	CTRL_C = 3,
	CTRL_D = 4,
	CTRL_E = 5,
	CTRL_F = 6,
	BACKSPACE = 8,
	LINE_FEED = 10,
	CTRL_K = 11,
	CTRL_L = 12,
	ENTER = 13,
	CTRL_N = 14,
	CTRL_P = 16,
	CTRL_U = 21,
	CTRL_W = 23,
	ESCAPE = 27,
	DELETE_BACK = 127,
	KEY_UP = 256,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_HOME,
	KEY_END,
	KEY_DELETE,
	KEY_NONE,   /* one that does nothing here */
	KEY_CLOSED, /* no more input */
};

struct edit {
	struct sql_line *line;
	const char *prompt;
	char *data;
	size_t bytes, at;
	size_t history_at; /* history_count: the line itself */
	char *own;         /* the line, while the history is looked at */
};

/* ---- history ---- */

static char *find_history(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	struct text path = {0};
	char *taken = NULL;
	if (state && state[0] == '/')
		text_print(&path, "%s/tidemark", state);
	else if (home && home[0] == '/')
		text_print(&path, "%s/.local/state/tidemark", home);
	else
		return NULL;
	if (!text_error(&path) && !io_make_folders(text_string(&path))) {
		text_put(&path, "/sql_history");
		if (text_take(&path, &taken))
			taken = NULL;
	}
	text_done(&path);
	return taken;
}

static void keep(struct sql_line *line, const char *statement)
{
	char *copy = tm_strdup(statement);
	if (!copy)
		return;
	if (line->history_count == SQL_HISTORY_MAX) {
		tm_free(line->history[0]);
		memmove(line->history, line->history + 1,
			(SQL_HISTORY_MAX - 1) * sizeof line->history[0]);
		line->history_count--;
	}
	line->history[line->history_count++] = copy;
}

void sql_line_init(struct sql_line *line)
{
	struct text old = {0};
	*line = (struct sql_line){.history_path = find_history()};
	if (line->history_path && !io_read_file(line->history_path, HISTORY_BYTES, &old))
		for (char *at = old.data; at && *at;) {
			char *end = strchr(at, '\n');
			if (end)
				*end = '\0';
			if (*at)
				keep(line, at);
			at = end ? end + 1 : NULL;
		}
	text_done(&old);
}

void sql_line_done(struct sql_line *line)
{
	for (size_t i = 0; i < line->history_count; i++)
		tm_free(line->history[i]);
	tm_free(line->history_path);
	*line = (struct sql_line){0};
}

static bool is_last(const struct sql_line *line, const char *statement)
{
	return line->history_count > 0 &&
	       !strcmp(line->history[line->history_count - 1], statement);
}

void sql_line_remember(struct sql_line *line, const char *statement)
{
	struct text one_line = {0};
	for (const char *at = statement; *at; at++)
		text_put_char(&one_line, *at == '\n' || *at == '\r' ? ' ' : *at);
	if (one_line.length > 0 && !text_error(&one_line) &&
	    !is_last(line, text_string(&one_line))) {
		keep(line, text_string(&one_line));
		text_put_char(&one_line, '\n');
		int fd = line->history_path ? open(line->history_path,
						   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
					    : -1;
		/* A history that cannot be kept is no reason to complain. */
		if (fd >= 0) {
			(void)!io_write(fd, text_string(&one_line), one_line.length);
			close(fd);
		}
	}
	text_done(&one_line);
}

/* ---- keys ---- */

static int read_byte(void)
{
	unsigned char byte;
	ssize_t got;
	do
		got = read(STDIN_FILENO, &byte, 1);
	while (got < 0 && errno == EINTR);
	return got == 1 ? byte : KEY_CLOSED;
}

/* After ESC: "[A", "OA", "[3~", "[1;5C" and so on; what is not known is read over. */
static int read_escape(void)
{
	int byte = read_byte(), number = 0;
	if (byte != '[' && byte != 'O')
		return byte == KEY_CLOSED ? KEY_CLOSED : KEY_NONE;
	while ((byte = read_byte()) != KEY_CLOSED && ((byte >= '0' && byte <= '9') || byte == ';'))
		number = byte == ';' ? 0 : number * 10 % 1000 + byte - '0';
	switch (byte) {
	case 'A':
		return KEY_UP;
	case 'B':
		return KEY_DOWN;
	case 'C':
		return KEY_RIGHT;
	case 'D':
		return KEY_LEFT;
	case 'H':
		return KEY_HOME;
	case 'F':
		return KEY_END;
	case '~':
		return number == 3                  ? KEY_DELETE
		       : number == 1 || number == 7 ? KEY_HOME
		       : number == 4 || number == 8 ? KEY_END
						    : KEY_NONE;
	}
	return byte == KEY_CLOSED ? KEY_CLOSED : KEY_NONE;
}

static int read_key(void)
{
	int byte = read_byte();
	return byte == ESCAPE ? read_escape() : byte;
}

/* ---- editing ---- */

static size_t step_left(const struct edit *edit)
{
	size_t at = edit->at;
	while (at > 0 && (edit->data[--at] & 0xc0) == 0x80)
		;
	return at;
}

static size_t step_right(const struct edit *edit)
{
	size_t at = edit->at;
	if (at < edit->bytes)
		at++;
	while (at < edit->bytes && (edit->data[at] & 0xc0) == 0x80)
		at++;
	return at;
}

static void cut(struct edit *edit, size_t from, size_t to)
{
	memmove(edit->data + from, edit->data + to, edit->bytes - to);
	edit->bytes -= to - from;
	edit->data[edit->bytes] = '\0';
	edit->at = from;
}

static void insert(struct edit *edit, char byte)
{
	if (edit->bytes + 1 >= LINE_MAX_BYTES)
		return;
	memmove(edit->data + edit->at + 1, edit->data + edit->at, edit->bytes - edit->at);
	edit->data[edit->at++] = byte;
	edit->data[++edit->bytes] = '\0';
}

static size_t word_start(const struct edit *edit)
{
	size_t at = edit->at;
	while (at > 0 && edit->data[at - 1] == ' ')
		at--;
	while (at > 0 && edit->data[at - 1] != ' ')
		at--;
	return at;
}

static void show_history(struct edit *edit, size_t to)
{
	if (to > edit->line->history_count)
		return;
	if (edit->history_at == edit->line->history_count) {
		tm_free(edit->own);
		edit->own = tm_strdup(edit->data);
	}
	const char *shown = to < edit->line->history_count ? edit->line->history[to] : edit->own;
	edit->history_at = to;
	edit->bytes = shown ? strlen(shown) : 0;
	if (edit->bytes >= LINE_MAX_BYTES)
		edit->bytes = LINE_MAX_BYTES - 1;
	if (shown)
		memcpy(edit->data, shown, edit->bytes);
	edit->data[edit->bytes] = '\0';
	edit->at = edit->bytes;
}

static unsigned terminal_columns(void)
{
	struct winsize size = {0};
	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col > 20 ? size.ws_col : 80;
}

/* The line again, moved sideways so that the cursor is seen. */
static void redraw(const struct edit *edit)
{
	struct text text = {0};
	size_t room = terminal_columns() - strlen(edit->prompt) - 1;
	size_t from = 0, before = utf8_count(edit->data, edit->at);
	while (before >= room) {
		do
			from++;
		while (from < edit->at && (edit->data[from] & 0xc0) == 0x80);
		before--;
	}
	size_t to = edit->bytes;
	while (utf8_count(edit->data + from, to - from) > room)
		to--;
	text_print(&text, "\r%s", edit->prompt);
	text_put_visible(&text, edit->data + from, to - from);
	text_print(&text, "\033[K\r\033[%zuC", strlen(edit->prompt) + before);
	(void)!io_write(STDOUT_FILENO, text_string(&text), text.length);
	text_done(&text);
}

static void delete_key(struct edit *edit, int key)
{
	switch (key) {
	case BACKSPACE:
	case DELETE_BACK:
		cut(edit, step_left(edit), edit->at);
		break;
	case KEY_DELETE:
	case CTRL_D:
		cut(edit, edit->at, step_right(edit));
		break;
	case CTRL_U:
		cut(edit, 0, edit->at);
		break;
	case CTRL_K:
		cut(edit, edit->at, edit->bytes);
		break;
	case CTRL_W:
		cut(edit, word_start(edit), edit->at);
		break;
	}
}

static void move_key(struct edit *edit, int key)
{
	switch (key) {
	case CTRL_A:
	case KEY_HOME:
		edit->at = 0;
		break;
	case CTRL_E:
	case KEY_END:
		edit->at = edit->bytes;
		break;
	case CTRL_B:
	case KEY_LEFT:
		edit->at = step_left(edit);
		break;
	case CTRL_F:
	case KEY_RIGHT:
		edit->at = step_right(edit);
		break;
	case CTRL_P:
	case KEY_UP:
		show_history(edit, edit->history_at - 1);
		break;
	case CTRL_N:
	case KEY_DOWN:
		show_history(edit, edit->history_at + 1);
		break;
	case CTRL_L:
		(void)!io_write(STDOUT_FILENO, "\033[H\033[2J", 7);
		break;
	}
}

/* 1 while the line goes on; 0 at its end; or a failure. */
static int on_key(struct edit *edit, int key)
{
	if (key == ENTER || key == LINE_FEED)
		return 0;
	if (key == CTRL_C)
		return -EINTR;
	/* Ctrl-D typed while the answer was still on its way, the terminal not yet raw, comes as
	 * a zero. */
	if (key == KEY_CLOSED || ((key == CTRL_D || key == KEY_ZERO) && edit->bytes == 0))
		return -ENODATA;
	if (key >= ' ' && key < 256 && key != DELETE_BACK)
		insert(edit, (char)key);
	else if (key == '\t')
		insert(edit, ' ');
	delete_key(edit, key);
	move_key(edit, key);
	return 1;
}

static int edit_line(struct edit *edit)
{
	int code = 1;
	while (code > 0) {
		redraw(edit);
		code = on_key(edit, read_key());
	}
	(void)!io_write(STDOUT_FILENO, code == -EINTR ? "^C\r\n" : "\r\n", code == -EINTR ? 4 : 2);
	return code;
}

int sql_line_read(struct sql_line *line, const char *prompt, struct text *text)
{
	struct termios before, raw;
	struct edit edit = {.line = line, .prompt = prompt, .history_at = line->history_count};
	if (tcgetattr(STDIN_FILENO, &before))
		return -errno;
	edit.data = tm_alloc(LINE_MAX_BYTES);
	if (!edit.data)
		return -ENOMEM;
	raw = before;
	raw.c_iflag &= (tcflag_t) ~(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
	raw.c_lflag &= (tcflag_t) ~(ECHO | ICANON | IEXTEN | ISIG);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	int code = edit_line(&edit);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	if (code == 0) {
		text_clear(text);
		text_put_bytes(text, edit.data, edit.bytes);
		code = text_error(text);
	}
	tm_free(edit.own);
	tm_free(edit.data);
	return code;
}
