/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nim writes C, and there a proc is called
 *
 *   addInt__stdZprivateZdigitsutils_167   name, module (Z parts folders), number
 *   X5BX5Deq___tables_146                 []= : an operator, told by the third bar
 *   work_9cFhkbcEb2x6IPdyEU1qnw           before 1.4: name and a hash
 *
 * Known limits: a module whose own name has a Z in it loses what is before that.
 */
#include "symbols/symbols.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_MIN = 20, HASH_MAX = 26 };

static const struct {
	const char *word, *sign;
} signs[] = {
	{"dollar", "$"}, {"percent", "%"}, {"amp", "&"},  {"roof", "^"},       {"emark", "!"},
	{"qmark", "?"},  {"star", "*"},    {"plus", "+"}, {"minus", "-"},      {"slash", "/"},
	{"eq", "="},     {"lt", "<"},      {"gt", ">"},   {"backslash", "\\"}, {"tilde", "~"},
	{"colon", ":"},  {"dot", "."},     {"at", "@"},   {"bar", "|"},
};

struct part {
	const char *at;
	size_t bytes;
};

static bool is_word(const char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!isalnum((unsigned char)at[i]))
			return false;
	return bytes > 0;
}

/* name__module_123, since Nim 2 name__module_u123. */
static bool split_name(const char *name, size_t bytes, struct part *ret_proc,
		       struct part *ret_module)
{
	size_t end = bytes;
	while (end > 0 && isdigit((unsigned char)name[end - 1]))
		end--;
	if (end == bytes)
		return false;
	if (end > 0 && name[end - 1] == 'u')
		end--;
	if (end < 1 || name[end - 1] != '_')
		return false;
	size_t module_end = end - 1, begin = module_end;
	while (begin > 0 && isalnum((unsigned char)name[begin - 1]))
		begin--;
	if (begin < 3 || name[begin - 1] != '_' || name[begin - 2] != '_' || begin == module_end)
		return false;
	*ret_proc = (struct part){name, begin - 2};
	for (size_t i = begin; i < module_end; i++)
		if (name[i] == 'Z' && i + 1 < module_end)
			begin = i + 1;
	*ret_module = (struct part){name + begin, module_end - begin};
	return true;
}

static bool split_old(const char *name, size_t bytes, struct part *ret_proc)
{
	const char *bar = memrchr(name, '_', bytes);
	if (!bar || bar == name)
		return false;
	size_t hash = bytes - (size_t)(bar + 1 - name);
	if (hash < HASH_MIN || hash > HASH_MAX || !is_word(bar + 1, hash))
		return false;
	*ret_proc = (struct part){name, (size_t)(bar - name)};
	return true;
}

struct out {
	char *text;
	size_t used, room; /* room without the terminator */
};

static void put(struct out *out, const char *text, size_t bytes)
{
	size_t left = out->room - out->used, fits = bytes < left ? bytes : left;
	memcpy(out->text + out->used, text, fits);
	out->used += fits;
	out->text[out->used] = '\0';
}

static size_t put_sign(struct out *out, const char *at, size_t bytes)
{
	if (bytes >= 3 && at[0] == 'X' && isxdigit((unsigned char)at[1]) &&
	    isxdigit((unsigned char)at[2])) {
		const char digits[] = {at[1], at[2], '\0'};
		char sign = (char)strtoul(digits, NULL, 16);
		put(out, &sign, sign > ' ');
		return 3;
	}
	for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
		size_t word = strlen(signs[i].word);
		if (word <= bytes && !memcmp(at, signs[i].word, word)) {
			put(out, signs[i].sign, 1);
			return word;
		}
	}
	put(out, at, 1);
	return 1;
}

static void put_proc(struct out *out, struct part proc)
{
	if (proc.at[proc.bytes - 1] != '_') {
		put(out, proc.at, proc.bytes);
		return;
	}
	for (size_t i = 0; i + 1 < proc.bytes;)
		i += put_sign(out, proc.at + i, proc.bytes - 1 - i);
}

void symbols_demangle_nim(const char *mangled, char *out, size_t out_bytes)
{
	struct part proc, module;
	symbols_demangle(mangled, out, out_bytes);
	/* Clones and versions are gone now; C++ and C in a Nim program stay as they are. */
	char name[512];
	size_t bytes = strlen(out);
	if (bytes >= sizeof name || bytes < 4 || mangled[0] == '_')
		return;
	memcpy(name, out, bytes + 1);
	struct out text = {.text = out, .room = out_bytes - 1};
	if (split_name(name, bytes, &proc, &module)) {
		put(&text, module.at, module.bytes);
		put(&text, ".", 1);
		put_proc(&text, proc);
	} else if (split_old(name, bytes, &proc)) {
		put_proc(&text, proc);
	}
}
