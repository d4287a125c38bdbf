/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's names: a tag, a sign for how the code was compiled, the function, then
 * where it is in the source:
 *
 *   LazyCompile:*add /app/sum.js:3:12      JS:~get size node:internal/url:1021:11
 */
#include <string.h>

#include "symbols/jit.h"

struct tag {
	const char *text;
	const char *suffix; /* "" = the sign says */
};

static const struct tag tags[] = {
	{"LazyCompile:", ""},
	{"Function:", ""},
	{"Script:", ""},
	{"Eval:", ""},
	{"JS:", ""},
	{"Builtin:", " [builtin]"},
	{"BytecodeHandler:", " [bytecode handler]"},
	{"Handler:", " [stub]"},
	{"Stub:", " [stub]"},
	{"LoadIC:", " [stub]"},
	{"StoreIC:", " [stub]"},
	{"RegExp:", " [regexp]"},
	{"Callback:", " [callback]"},
	{"wasm-function", " [wasm]"},
};

static const char *sign_suffix(char sign)
{
	switch (sign) {
	case '*':
		return " [optimized]";
	case '+':
		return " [maglev]";
	case '^':
		return " [baseline]";
	case '~':
		return " [interpreted]";
	}
	return NULL;
}

/* A decimal number of at most nine digits that ends at `end`; its begin, or NULL. */
static const char *number_before(const char *begin, const char *end, uint32_t *ret)
{
	const char *at = end;
	uint32_t number = 0, factor = 1;
	while (at > begin && at[-1] >= '0' && at[-1] <= '9' && end - at < 9) {
		number += (uint32_t)(*--at - '0') * factor;
		factor *= 10;
	}
	*ret = number;
	return at < end ? at : NULL;
}

static const char *find_in(const char *begin, const char *end, const char *what)
{
	size_t bytes = strlen(what);
	for (const char *at = begin; (size_t)(end - at) >= bytes; at++)
		if (!memcmp(at, what, bytes))
			return at;
	return NULL;
}

/* Where the path begins: names and paths may both have blanks. */
static const char *find_path(const char *begin, const char *end)
{
	static const char *const begins[] = {" /",      " file:",       " node:", " http:",
					     " https:", " evalmachine", " [eval", " internal/"};
	const char *first = NULL;
	for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
		const char *at = find_in(begin, end, begins[i]);
		if (at && (!first || at < first))
			first = at;
	}
	for (const char *at = end; !first && at > begin; at--)
		if (at[-1] == ' ')
			first = at - 1;
	return first;
}

static void put(char *out, size_t *used, const char *text, size_t bytes)
{
	size_t room = JIT_NAME_MAX - 1 - *used;
	size_t fits = bytes < room ? bytes : room;
	memcpy(out + *used, text, fits);
	*used += fits;
	out[*used] = '\0';
}

/* Cuts "path:line:column" (or "path:line", "path") off the end; the new end. */
static const char *take_place(const char *begin, const char *end, struct jit_name *name)
{
	const char *path_end = end;
	uint32_t last = 0, before = 0;
	const char *number = number_before(begin, end, &last);
	if (number && number > begin && number[-1] == ':') {
		path_end = number - 1;
		name->line = last;
		const char *other = number_before(begin, path_end, &before);
		if (other && other > begin && other[-1] == ':') {
			path_end = other - 1;
			name->line = before;
			name->column = last;
		}
	}
	const char *blank = find_path(begin, path_end);
	if (!blank) {
		name->line = name->column = 0;
		return end;
	}
	const char *path = blank + 1;
	if (path_end - path > 7 && !strncmp(path, "file://", 7))
		path += 7;
	size_t used = 0;
	put(name->file, &used, path, (size_t)(path_end - path));
	return blank;
}

static const struct tag *find_tag(const char *raw, size_t bytes)
{
	for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
		size_t length = strlen(tags[i].text);
		if (bytes >= length && !memcmp(raw, tags[i].text, length))
			return &tags[i];
	}
	return NULL;
}

void jit_readable(const char *raw, size_t bytes, struct jit_name *ret_name)
{
	const char *at = raw, *end = raw + bytes;
	const struct tag *tag = find_tag(raw, bytes);
	const char *suffix = tag ? tag->suffix : "";
	size_t used = 0;
	ret_name->file[0] = '\0';
	ret_name->line = ret_name->column = 0;
	if (tag && strcmp(tag->text, "wasm-function") != 0)
		at += strlen(tag->text);
	if (tag && !*suffix) {
		/* An 'o' before the sign: compiled while it ran. */
		if (end - at > 1 && *at == 'o' && sign_suffix(at[1]))
			at++;
		if (at < end && sign_suffix(*at))
			suffix = sign_suffix(*at++);
		end = take_place(at, end, ret_name);
	}
	if (at < end)
		put(ret_name->function, &used, at, (size_t)(end - at));
	else
		put(ret_name->function, &used, "(anonymous)", 11);
	put(ret_name->function, &used, suffix, strlen(suffix));
}
