/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { FIRST_ROOM = 64 };

/* Make room for bytes more and the NUL. */
static bool reserve(struct text *text, size_t bytes)
{
	if (text->error)
		return false;
	size_t wanted;
	if (__builtin_add_overflow(text->length, bytes, &wanted) || wanted >= SIZE_MAX / 2) {
		text->error = -ENOMEM;
		return false;
	}
	if (wanted < text->room)
		return true;
	size_t room = text->room ? text->room : FIRST_ROOM;
	while (room <= wanted)
		room *= 2;
	char *data = tm_grow_array(text->data, room, 1);
	if (!data) {
		text->error = -ENOMEM;
		return false;
	}
	text->data = data;
	text->room = room;
	return true;
}

void text_put_bytes(struct text *text, const void *data, size_t bytes)
{
	if (!reserve(text, bytes))
		return;
	if (bytes)
		memcpy(text->data + text->length, data, bytes);
	text->length += bytes;
	text->data[text->length] = '\0';
}

void text_put(struct text *text, const char *string)
{
	text_put_bytes(text, string, strlen(string));
}

void text_put_char(struct text *text, char c)
{
	text_put_bytes(text, &c, 1);
}

void text_put_repeated(struct text *text, char c, size_t count)
{
	if (!reserve(text, count))
		return;
	memset(text->data + text->length, c, count);
	text->length += count;
	text->data[text->length] = '\0';
}

void text_print(struct text *text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int bytes = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (bytes < 0 && !text->error)
		text->error = -EINVAL;
	if (bytes < 0 || !reserve(text, (size_t)bytes))
		return;
	va_start(args, format);
	vsnprintf(text->data + text->length, (size_t)bytes + 1, format, args);
	va_end(args);
	text->length += (size_t)bytes;
}

void text_put_visible(struct text *text, const void *data, size_t bytes)
{
	const unsigned char *in = data;
	while (bytes > 0) {
		uint32_t code;
		size_t part = utf8_get(in, bytes, &code);
		bool control = part && (code < 0x20 || (code >= 0x7f && code < 0xa0));
		if (part == 0 || control) {
			part = part ? part : 1;
			for (size_t i = 0; i < part; i++)
				text_print(text, "\\x%02x", in[i]);
		} else {
			text_put_bytes(text, in, part);
		}
		in += part;
		bytes -= part;
	}
}

const char *text_string(const struct text *text)
{
	return text->data ? text->data : "";
}

int text_error(const struct text *text)
{
	return text->error;
}

void text_clear(struct text *text)
{
	text->length = 0;
	text->error = 0;
	if (text->data)
		text->data[0] = '\0';
}

void text_done(struct text *text)
{
	tm_free(text->data);
	*text = (struct text){0};
}

int text_take(struct text *text, char **ret_string)
{
	reserve(text, 0);
	if (text->error)
		return text->error;
	text->data[text->length] = '\0';
	*ret_string = text->data;
	*text = (struct text){0};
	return 0;
}
