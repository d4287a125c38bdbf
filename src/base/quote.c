/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quote.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

static const char plain_characters[] = "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789%+,-./:=@_";

/* Valid UTF-8 without control characters can stand in single quotes. */
static bool can_be_shown(const char *argument)
{
	size_t bytes = strlen(argument);
	while (bytes > 0) {
		uint32_t code;
		size_t part = utf8_get(argument, bytes, &code);
		if (part == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0))
			return false;
		argument += part;
		bytes -= part;
	}
	return true;
}

static void put_in_quotes(struct text *text, const char *argument)
{
	text_put_char(text, '\'');
	for (; *argument; argument++) {
		if (*argument == '\'')
			text_put(text, "'\\''");
		else
			text_put_char(text, *argument);
	}
	text_put_char(text, '\'');
}

static void put_in_dollar_quotes(struct text *text, const char *argument)
{
	text_put(text, "$'");
	for (; *argument; argument++) {
		unsigned char byte = (unsigned char)*argument;
		if (byte == '\'' || byte == '\\')
			text_print(text, "\\%c", byte);
		else if (byte < 0x20 || byte >= 0x7f)
			text_print(text, "\\x%02x", byte);
		else
			text_put_char(text, (char)byte);
	}
	text_put_char(text, '\'');
}

void quote_argument(struct text *text, const char *argument)
{
	size_t plain = strspn(argument, plain_characters);
	if (plain > 0 && argument[plain] == '\0')
		text_put_bytes(text, argument, plain);
	else if (can_be_shown(argument))
		put_in_quotes(text, argument);
	else
		put_in_dollar_quotes(text, argument);
}

void quote_command(struct text *text, const char *const *arguments)
{
	for (size_t i = 0; arguments[i]; i++) {
		if (i > 0)
			text_put_char(text, ' ');
		quote_argument(text, arguments[i]);
	}
}
