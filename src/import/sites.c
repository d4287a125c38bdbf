/* SPDX-License-Identifier: Apache-2.0 */
#include "import/sites.h"

#include <string.h>

struct site {
	uint64_t address;
	struct frames_text function, file, module;
	uint32_t line;
};

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "0x12ab: " at the front; what is left begins behind it. */
static void take_address(struct frames_text *text, uint64_t *ret_address)
{
	uint64_t address = 0;
	size_t at = 2;
	if (text->length < 3 || text->data[0] != '0' || text->data[1] != 'x')
		return;
	for (; at < text->length && digit(text->data[at]) >= 0 && at < 18; at++)
		address = address << 4 | (uint64_t)digit(text->data[at]);
	if (at == 2 || at >= text->length || text->data[at] != ':')
		return;
	at++;
	while (at < text->length && text->data[at] == ' ')
		at++;
	text->data += at;
	text->length -= at;
	*ret_address = address;
}

/* "(file:12)" or "(in module)" at the end, which is taken off. */
static void take_place(struct frames_text *text, struct site *site)
{
	size_t open = text->length, colon;
	if (!text->length || text->data[text->length - 1] != ')')
		return;
	while (open > 0 &&
	       !(text->data[open - 1] == '(' && (open == 1 || text->data[open - 2] == ' ')))
		open--;
	if (!open)
		return;
	struct frames_text place = frames_text(text->data + open, text->length - 1 - open);
	if (place.length > 3 && !memcmp(place.data, "in ", 3)) {
		site->module = frames_text(place.data + 3, place.length - 3);
	} else {
		uint64_t line = 0;
		for (colon = place.length; colon > 0 && digit(place.data[colon - 1]) >= 0 &&
					   digit(place.data[colon - 1]) < 10;)
			colon--;
		if (colon == place.length || !colon || place.data[colon - 1] != ':')
			return; /* parameters of a function, not a place */
		for (size_t i = colon; i < place.length && line < UINT32_MAX; i++)
			line = line * 10 + (uint64_t)digit(place.data[i]);
		site->file = frames_text(place.data, colon - 1);
		site->line = line < UINT32_MAX ? (uint32_t)line : 0;
	}
	text->length = open - 1;
	while (text->length && text->data[text->length - 1] == ' ')
		text->length--;
}

int sites_frame(struct frames *frames, const char *text, size_t length, uint32_t *ret_frame_id,
		struct tm_error *err)
{
	struct site site = {.function = frames_text(text, length)};
	uint32_t module_id = 0;
	take_address(&site.function, &site.address);
	take_place(&site.function, &site);
	bool nameless = site.function.length == 3 && !memcmp(site.function.data, "???", 3);
	int code = 0;
	if (site.module.length) {
		const struct frames_module module = {.path = site.module};
		code = frames_module(frames, &module, &module_id, err);
	}
	const struct frames_name name = {
		.function = site.function, .file = site.file, .line = site.line};
	/* Functions that are inlined into each other share an address: names tell more. */
	bool none = nameless && site.address;
	return code ? code
		    : frames_add(frames, module_id, none ? site.address : 0, &name, none ? 0 : 1,
				 ret_frame_id, err);
}
