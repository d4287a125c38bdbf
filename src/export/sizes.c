/* SPDX-License-Identifier: Apache-2.0 */
#include "export/sizes.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

struct sizes_slot {
	uint64_t size_bytes;
	uint32_t stack;
	uint32_t number; /* plus 1; 0 = empty */
};

static struct sizes_slot *find(struct sizes_slot *slots, size_t room, uint64_t size_bytes,
			       uint32_t stack)
{
	size_t at = hash_pair(size_bytes, stack) & (room - 1);
	while (slots[at].number && (slots[at].size_bytes != size_bytes || slots[at].stack != stack))
		at = (at + 1) & (room - 1);
	return &slots[at];
}

/* Room for one more at a load of at most a half; or, at the limit, for all anew. */
static int make_room(struct sizes *sizes)
{
	if (sizes->used < sizes->room / 2)
		return 0;
	if (sizes->used >= SIZES_KEPT_MAX) {
		memset(sizes->slots, 0, sizes->room * sizeof *sizes->slots);
		sizes->used = 0;
		return 0;
	}
	size_t room = sizes->room ? sizes->room * 2 : 1024;
	struct sizes_slot *slots = tm_alloc_array(room, sizeof *slots);
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < sizes->room; i++)
		if (sizes->slots[i].number)
			*find(slots, room, sizes->slots[i].size_bytes, sizes->slots[i].stack) =
				sizes->slots[i];
	tm_free(sizes->slots);
	sizes->slots = slots;
	sizes->room = room;
	return 0;
}

int sizes_number(struct sizes *sizes, uint64_t size_bytes, uint32_t stack, uint32_t *ret_number,
		 bool *ret_new)
{
	int code = make_room(sizes);
	if (code)
		return code;
	struct sizes_slot *slot = find(sizes->slots, sizes->room, size_bytes, stack);
	*ret_new = !slot->number;
	if (*ret_new) {
		if (sizes->next == UINT32_MAX)
			return -EOVERFLOW;
		*slot = (struct sizes_slot){size_bytes, stack, ++sizes->next};
		sizes->used++;
	}
	*ret_number = slot->number - 1;
	return 0;
}

void sizes_done(struct sizes *sizes)
{
	tm_free(sizes->slots);
	*sizes = (struct sizes){0};
}
