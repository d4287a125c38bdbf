/* SPDX-License-Identifier: Apache-2.0 */
#include "export/strings.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

static bool same(const void *ctx, uint32_t id, const void *key)
{
	return !strcmp(((const struct strings *)ctx)->list[id], key);
}

int strings_number(struct strings *strings, const char *text, uint32_t *ret_number)
{
	uint64_t hash = hash_bytes(text, strlen(text));
	uint32_t number = idmap_find(&strings->map, hash, same, strings, text);
	if (number == IDMAP_NONE) {
		if (strings->count == strings->room) {
			size_t room = strings->room * 2 + 64;
			void *grown = tm_grow_array(strings->list, room, sizeof *strings->list);
			if (!grown)
				return -ENOMEM;
			strings->list = grown;
			strings->room = room;
		}
		number = (uint32_t)strings->count;
		if (idmap_add(&strings->map, hash, number))
			return -ENOMEM;
		strings->list[strings->count++] = text;
	}
	*ret_number = number;
	return 0;
}

bool strings_find(const struct strings *strings, const char *text, uint32_t *ret_number)
{
	uint64_t hash = hash_bytes(text, strlen(text));
	uint32_t number = idmap_find(&strings->map, hash, same, strings, text);
	if (number == IDMAP_NONE)
		return false;
	*ret_number = number;
	return true;
}

void strings_done(struct strings *strings)
{
	tm_free(strings->list);
	idmap_done(&strings->map);
	*strings = (struct strings){0};
}
