/* SPDX-License-Identifier: Apache-2.0 */
#include "model/lacks.h"

#include <errno.h>

#include "base/memory.h"

enum { STEPS_FIRST = 256, SETS_FIRST = 64 };

int lacks_init(struct lacks *lacks)
{
	*lacks = (struct lacks){.set_count = 1, .set_room = SETS_FIRST};
	lacks->sets = tm_alloc_array(SETS_FIRST, sizeof *lacks->sets);
	lacks->steps = tm_alloc_array(STEPS_FIRST, sizeof *lacks->steps);
	lacks->step_mask = STEPS_FIRST - 1;
	if (lacks->sets && lacks->steps)
		return 0;
	lacks_done(lacks);
	return -ENOMEM;
}

void lacks_done(struct lacks *lacks)
{
	tm_free(lacks->sets);
	tm_free(lacks->steps);
	*lacks = (struct lacks){0};
}

static void put_step(struct lacks *lacks, struct lacks_step step)
{
	uint32_t at = lacks_slot(lacks, step.key);
	while (lacks->steps[at].key)
		at = (at + 1) & lacks->step_mask;
	lacks->steps[at] = step;
}

static int remember(struct lacks *lacks, struct lacks_step step)
{
	if (lacks->step_count * 2 > lacks->step_mask) {
		struct lacks old = *lacks;
		size_t room = ((size_t)old.step_mask + 1) * 2;
		struct lacks_step *grown = tm_alloc_array(room, sizeof *grown);
		if (!grown || room > UINT32_MAX) {
			tm_free(grown);
			return -ENOMEM;
		}
		lacks->steps = grown;
		lacks->step_mask = (uint32_t)room - 1;
		for (size_t i = 0; i <= old.step_mask; i++)
			if (old.steps[i].key)
				put_step(lacks, old.steps[i]);
		tm_free(old.steps);
	}
	put_step(lacks, step);
	lacks->step_count++;
	return 0;
}

static int new_set(struct lacks *lacks, uint32_t below, uint32_t module, unsigned added,
		   uint32_t *ret_set)
{
	if (lacks->set_count == lacks->set_room) {
		uint32_t room = lacks->set_room * 2;
		void *grown = room > lacks->set_room
				      ? tm_grow_array(lacks->sets, room, sizeof *lacks->sets)
				      : NULL;
		if (!grown)
			return -ENOMEM;
		lacks->sets = grown;
		lacks->set_room = room;
	}
	lacks->sets[lacks->set_count] = (struct lacks_set){
		.below = below,
		.module = module,
		.added = (uint8_t)added,
		.all = (uint8_t)(lacks->sets[below].all | added),
	};
	*ret_set = lacks->set_count++;
	return 0;
}

int lacks_add(struct lacks *lacks, uint32_t set, uint32_t module, unsigned flags, uint32_t *ret_set)
{
	uint64_t key = lacks_key(set, module, flags);
	if (!flags) {
		*ret_set = set;
		return 0;
	}
	for (uint32_t at = lacks_slot(lacks, key); lacks->steps[at].key;
	     at = (at + 1) & lacks->step_mask)
		if (lacks->steps[at].key == key) {
			*ret_set = lacks->steps[at].to;
			return 0;
		}
	unsigned added = flags;
	for (uint32_t at = set; at && added; at = lacks->sets[at].below)
		if (lacks->sets[at].module == module)
			added &= ~(unsigned)lacks->sets[at].added;
	uint32_t to = set;
	int code = added ? new_set(lacks, set, module, added, &to) : 0;
	if (!code)
		code = remember(lacks, (struct lacks_step){.key = key, .to = to});
	if (!code)
		*ret_set = to;
	return code;
}

void lacks_sum(struct lacks *lacks, struct lacks_module *modules, struct lacks_module *ret_any,
	       uint64_t *ret_bytes)
{
	*ret_any = (struct lacks_module){0};
	for (uint32_t i = lacks->set_count - 1; i > 0; i--) {
		const struct lacks_set *set = &lacks->sets[i];
		struct lacks_set *below = &lacks->sets[set->below];
		for (unsigned kind = 0; kind < LACKS_KINDS; kind++) {
			unsigned flag = 1u << kind;
			if (set->added & flag)
				modules[set->module].bytes[kind] += set->bytes;
			if (set->added & ~(unsigned)below->all & flag)
				ret_any->bytes[kind] += set->bytes;
		}
		below->bytes += set->bytes;
	}
	*ret_bytes = lacks->sets[0].bytes;
}
