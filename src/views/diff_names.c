/* SPDX-License-Identifier: Apache-2.0 */
#include "views/diff_names.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "views/views.h"

/* The suffix that ends at `bytes`: its length with the dot, 0 if the compiler made none. */
static size_t suffix_bytes(const char *name, size_t bytes)
{
	static const char *const made[] = {"part",     "constprop", "isra",      "cold",
					   "lto_priv", "llvm",      "localalias"};
	size_t at = bytes;
	while (at > 0 && isdigit((unsigned char)name[at - 1]))
		at--;
	if (at < bytes && at > 0 && name[at - 1] == '.')
		at--; /* ".0" */
	else
		at = bytes;
	for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
		size_t length = strlen(made[i]);
		if (at > length && name[at - length - 1] == '.' &&
		    !strncmp(name + at - length, made[i], length))
			return bytes - (at - length - 1);
	}
	return 0;
}

size_t diff_names_bytes(const char *function)
{
	size_t bytes = strlen(function), suffix;
	while ((suffix = suffix_bytes(function, bytes)) > 0 && suffix < bytes)
		bytes -= suffix;
	return bytes;
}

struct wanted {
	const char *text;
	size_t bytes;
};

static bool same(const void *ctx, uint32_t id, const void *key)
{
	const struct diff_names *names = ctx;
	const struct wanted *wanted = key;
	return !strncmp(names->texts[id], wanted->text, wanted->bytes) &&
	       !names->texts[id][wanted->bytes];
}

static int intern(struct diff_names *names, const struct wanted *wanted, uint32_t *ret_id)
{
	uint64_t hash = hash_bytes(wanted->text, wanted->bytes);
	uint32_t found = idmap_find(&names->map, hash, same, names, wanted);
	if (found != IDMAP_NONE) {
		*ret_id = found;
		return 0;
	}
	if (names->count == names->room) {
		size_t room = names->room * 2 + 64;
		void *grown = tm_grow_array(names->texts, room, sizeof *names->texts);
		if (!grown)
			return -ENOMEM;
		names->texts = grown;
		names->room = room;
	}
	char *copy = tm_alloc(wanted->bytes + 1);
	if (!copy || idmap_add(&names->map, hash, (uint32_t)names->count)) {
		tm_free(copy);
		return -ENOMEM;
	}
	memcpy(copy, wanted->text, wanted->bytes);
	names->texts[names->count] = copy;
	*ret_id = (uint32_t)names->count++;
	return 0;
}

int diff_names_frame(struct diff_names *names, const char *function, const char *module,
		     uint32_t *ret_id)
{
	if (function) {
		const struct wanted wanted = {function, diff_names_bytes(function)};
		return intern(names, &wanted, ret_id);
	}
	struct text text = {0};
	const char *name = view_module_name(module);
	bool bare = name[0] == '['; /* "[vdso]", "[anonymous]" */
	text_print(&text, bare ? "%s" : "[%s]", name);
	const struct wanted wanted = {text_string(&text), text.length};
	int rc = text_error(&text);
	if (!rc)
		rc = intern(names, &wanted, ret_id);
	text_done(&text);
	return rc;
}

void diff_names_take(struct diff_names *names, char ***ret_texts, size_t *ret_count)
{
	*ret_texts = names->texts;
	*ret_count = names->count;
	names->texts = NULL;
	names->count = names->room = 0;
}

void diff_names_done(struct diff_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		tm_free(names->texts[i]);
	tm_free(names->texts);
	idmap_done(&names->map);
	*names = (struct diff_names){0};
}
