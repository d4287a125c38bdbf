/* SPDX-License-Identifier: Apache-2.0 */
#include "views/rowset.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static uint64_t hash_text(const char *text)
{
	return text ? hash_bytes(text, strlen(text)) : 0;
}

static bool same_row(const void *ctx, uint32_t id, const void *key)
{
	const struct view_row *have = &((const struct row_set *)ctx)->rows[id], *wanted = key;
	return have->line == wanted->line && same_text(have->function, wanted->function) &&
	       same_text(have->file, wanted->file) && same_text(have->module, wanted->module) &&
	       same_text(have->package, wanted->package);
}

static int add_row(struct row_set *set, const struct view_row *key, uint64_t hash)
{
	if (set->count == set->room) {
		size_t room = set->room * 2 + 64;
		struct view_row *grown = tm_grow_array(set->rows, room, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		set->rows = grown;
		set->room = room;
	}
	if (idmap_add(&set->map, hash, (uint32_t)set->count))
		return -ENOMEM;
	set->rows[set->count++] = *key;
	return 0;
}

int row_set_intern(struct row_set *set, const struct view_row *key, uint32_t *ret_id)
{
	uint64_t hash = hash_pair(hash_text(key->function), hash_text(key->module));
	hash = hash_pair(hash, hash_pair(hash_text(key->file), key->line));
	hash = hash_pair(hash, hash_text(key->package));
	uint32_t id = idmap_find(&set->map, hash, same_row, set, key);
	if (id == IDMAP_NONE) {
		id = (uint32_t)set->count;
		if (add_row(set, key, hash))
			return -ENOMEM;
	}
	*ret_id = id;
	return 0;
}

void row_set_take(struct row_set *set, struct view_rows *ret_rows)
{
	*ret_rows = (struct view_rows){.rows = set->rows, .count = set->count};
	set->rows = NULL;
	row_set_done(set);
}

void row_set_done(struct row_set *set)
{
	tm_free(set->rows);
	idmap_done(&set->map);
	*set = (struct row_set){0};
}
