/* SPDX-License-Identifier: Apache-2.0 */
#include "import/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { NUMBER_MAX = 64, END = -1 };

static bool contains(const char *head, size_t bytes, const char *part)
{
	size_t length = strlen(part);
	for (const char *at = head; (at = memchr(at, part[0], bytes - (size_t)(at - head))); at++)
		if (bytes - (size_t)(at - head) >= length && !memcmp(at, part, length))
			return true;
	return false;
}

bool json_read_looks(const char *head, size_t bytes, const char *const parts[])
{
	size_t at = 0;
	while (at < bytes && head[at] && strchr(" \t\r\n", head[at]))
		at++;
	if (at == bytes || head[at] != '{')
		return false;
	for (; *parts; parts++)
		if (!contains(head, bytes, *parts))
			return false;
	return true;
}

int json_read_init(struct json_reader *json, struct import_input *in)
{
	*json = (struct json_reader){.in = in};
	json->nest = tm_alloc(JSON_READ_DEPTH / 8 + 1);
	return json->nest ? 0 : -ENOMEM;
}

void json_read_done(struct json_reader *json)
{
	if (json->at)
		input_take(json->in, json->at);
	text_done(&json->text);
	json->nest = tm_free(json->nest);
	json->at = json->seen = 0;
}

static bool refill(struct json_reader *json)
{
	if (json->at)
		input_take(json->in, json->at);
	json->at = 0;
	json->seen = input_peek(json->in, 1, &json->data);
	return json->seen > 0;
}

/* The next character, which is not taken; END. */
static inline int look(struct json_reader *json)
{
	if (json->at == json->seen && !refill(json))
		return END;
	return (unsigned char)json->data[json->at];
}

static bool is_blank(int c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static enum json_token give_up(struct json_reader *json)
{
	json->cut = true;
	return JSON_READ_END;
}

static void set_nest(struct json_reader *json, bool object)
{
	uint8_t bit = (uint8_t)(1u << (json->depth & 7));
	if (object)
		json->nest[json->depth >> 3] |= bit;
	else
		json->nest[json->depth >> 3] &= (uint8_t)~bit;
}

static bool in_object(const struct json_reader *json)
{
	return json->nest[json->depth >> 3] >> (json->depth & 7) & 1;
}

/* ---- texts ---- */

static void put(struct json_reader *json, char c)
{
	if (json->text.length < JSON_READ_TEXT_MAX)
		text_put_char(&json->text, c);
}

static void put_utf8(struct json_reader *json, unsigned code)
{
	if (code < 0x80) {
		put(json, (char)(code ? code : '?'));
	} else if (code < 0x800) {
		put(json, (char)(0xc0 | code >> 6));
		put(json, (char)(0x80 | (code & 0x3f)));
	} else if (code < 0x10000) {
		put(json, (char)(0xe0 | code >> 12));
		put(json, (char)(0x80 | (code >> 6 & 0x3f)));
		put(json, (char)(0x80 | (code & 0x3f)));
	} else {
		put(json, (char)(0xf0 | code >> 18));
		put(json, (char)(0x80 | (code >> 12 & 0x3f)));
		put(json, (char)(0x80 | (code >> 6 & 0x3f)));
		put(json, (char)(0x80 | (code & 0x3f)));
	}
}

static int take_hex(struct json_reader *json)
{
	int value = 0;
	for (int i = 0; i < 4; i++) {
		int c = look(json), lower = c | 0x20;
		if (c >= '0' && c <= '9')
			value = value * 16 + c - '0';
		else if (lower >= 'a' && lower <= 'f')
			value = value * 16 + lower - 'a' + 10;
		else
			return -1;
		json->at++;
	}
	return value;
}

static bool take_unicode(struct json_reader *json)
{
	int high = take_hex(json);
	if (high < 0)
		return false;
	/* Half of a pair that has no other half is shown as one that is not known. */
	if (high >= 0xd800 && high < 0xdc00 && look(json) == '\\') {
		json->at++;
		if (look(json) != 'u')
			return false;
		json->at++;
		int low = take_hex(json);
		if (low < 0)
			return false;
		bool pair = low >= 0xdc00 && low < 0xe000;
		put_utf8(json, pair ? 0x10000 + ((unsigned)(high - 0xd800) << 10) +
					       (unsigned)(low - 0xdc00)
				    : 0xfffd);
		return true;
	}
	put_utf8(json, high >= 0xd800 && high < 0xe000 ? 0xfffd : (unsigned)high);
	return true;
}

static bool take_escape(struct json_reader *json)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	int c = look(json);
	if (c == END)
		return false;
	json->at++;
	if (c == 'u')
		return take_unicode(json);
	const char *found = strchr(from, c);
	if (!found || !c)
		return false;
	put(json, to[found - from]);
	return true;
}

/* The quote was taken. */
static bool take_text(struct json_reader *json)
{
	text_clear(&json->text);
	for (;;) {
		int c = look(json);
		if (c == END)
			return false;
		json->at++;
		if (c == '"')
			return !text_error(&json->text);
		if (c == '\\') {
			if (!take_escape(json))
				return false;
		} else {
			put(json, (char)c);
		}
	}
}

/* ---- numbers and words ---- */

static bool take_number(struct json_reader *json)
{
	char digits[NUMBER_MAX + 1];
	size_t used = 0;
	bool plain = true;
	uint64_t value = 0;
	for (;;) {
		int c = look(json);
		if (c >= '0' && c <= '9') {
			if (__builtin_mul_overflow(value, 10, &value) ||
			    __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
				plain = false;
		} else if (c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E') {
			plain = false;
		} else {
			break;
		}
		if (used < NUMBER_MAX)
			digits[used++] = (char)c;
		json->at++;
	}
	digits[used] = '\0';
	json->number = value;
	if (!plain) {
		char *end;
		double real = strtod(digits, &end);
		if (end == digits || *end)
			return false;
		json->number = !(real > 0)      ? 0
			       : real >= 0x1p63 ? INT64_MAX
						: (uint64_t)llround(real);
	}
	return used > 0;
}

static bool take_word(struct json_reader *json)
{
	char word[8];
	size_t used = 0;
	for (int c; used < sizeof word - 1 && (c = look(json)) >= 'a' && c <= 'z'; json->at++)
		word[used++] = (char)c;
	word[used] = '\0';
	json->number = !strcmp(word, "true");
	return json->number || !strcmp(word, "false") || !strcmp(word, "null");
}

/* ---- tokens ---- */

static enum json_token open_level(struct json_reader *json, bool object)
{
	json->at++;
	if (json->depth + 1 >= JSON_READ_DEPTH)
		return give_up(json);
	json->depth++;
	set_nest(json, object);
	json->after_value = json->after_key = false;
	return object ? JSON_READ_OBJECT : JSON_READ_ARRAY;
}

static enum json_token close_level(struct json_reader *json, bool object)
{
	json->at++;
	if (!json->depth || in_object(json) != object || json->after_key)
		return give_up(json);
	json->depth--;
	json->after_value = true;
	return object ? JSON_READ_OBJECT_END : JSON_READ_ARRAY_END;
}

static int skip_blanks(struct json_reader *json)
{
	int c;
	while (is_blank(c = look(json)))
		json->at++;
	return c;
}

static enum json_token take_key(struct json_reader *json)
{
	json->at++;
	if (!take_text(json) || skip_blanks(json) != ':')
		return give_up(json);
	json->at++;
	json->after_key = true;
	return JSON_READ_KEY;
}

static enum json_token take_value(struct json_reader *json, int c)
{
	json->after_key = false;
	if (c == '{' || c == '[')
		return open_level(json, c == '{');
	json->after_value = true;
	if (c == '"') {
		json->at++;
		return take_text(json) ? JSON_READ_TEXT : give_up(json);
	}
	if (c == '-' || (c >= '0' && c <= '9'))
		return take_number(json) ? JSON_READ_NUMBER : give_up(json);
	return take_word(json) ? JSON_READ_WORD : give_up(json);
}

enum json_token json_read_next(struct json_reader *json)
{
	if (json->cut || (!json->depth && json->begun))
		return JSON_READ_END;
	json->begun = true;
	int c = skip_blanks(json);
	if (json->depth && (c == '}' || c == ']'))
		return close_level(json, c == '}');
	if (json->depth && json->after_value) {
		if (c != ',')
			return give_up(json);
		json->at++;
		json->after_value = false;
		c = skip_blanks(json);
	}
	if (json->depth && in_object(json) && !json->after_key)
		return c == '"' ? take_key(json) : give_up(json);
	return c == END ? give_up(json) : take_value(json, c);
}

void json_read_leave(struct json_reader *json, unsigned depth)
{
	while (json->depth >= depth && json_read_next(json) > JSON_READ_END)
		;
}

void json_read_skip(struct json_reader *json)
{
	unsigned depth = json->depth;
	enum json_token token = json_read_next(json);
	if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
		json_read_leave(json, depth + 1);
}

bool json_read_is(const struct json_reader *json, const char *text)
{
	return !strcmp(text_string(&json->text), text);
}

uint64_t json_read_number(struct json_reader *json)
{
	unsigned depth = json->depth;
	enum json_token token = json_read_next(json);
	if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
		json_read_leave(json, depth + 1);
	return token == JSON_READ_NUMBER || token == JSON_READ_WORD ? json->number : 0;
}

bool json_read_key(struct json_reader *json, unsigned depth)
{
	enum json_token token = JSON_READ_END;
	while (json->depth >= depth && (token = json_read_next(json)) > JSON_READ_END)
		if (token == JSON_READ_KEY)
			return true;
	return false;
}

void json_read_text(struct json_reader *json, char *to, size_t room)
{
	unsigned depth = json->depth;
	enum json_token token = json_read_next(json);
	if (token == JSON_READ_OBJECT || token == JSON_READ_ARRAY)
		json_read_leave(json, depth + 1);
	if (token == JSON_READ_TEXT)
		snprintf(to, room, "%s", text_string(&json->text));
}
