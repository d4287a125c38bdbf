/* SPDX-License-Identifier: Apache-2.0 */
#include "model/resume.h"

#include <errno.h>

#include "base/memory.h"
#include "model/inherited.h"
#include "model/state.h"

struct resume {
	struct inherited set;
	size_t next;
	bool living; /* the pending ones are done */
};

int resume_new(const struct model *m, uint32_t thread_count, struct resume **ret_resume)
{
	struct resume *resume = tm_alloc(sizeof *resume);
	if (!resume)
		return -ENOMEM;
	int rc = inherited_gather(&resume->set, m, thread_count);
	if (rc) {
		resume_free(resume);
		return rc;
	}
	/* As resume_events() gives them. */
	uint64_t pending = 0, living = resume->set.pending_count;
	for (size_t i = 0; i < resume->set.count; i++) {
		struct inherited_block *block = &resume->set.blocks[i];
		block->new_id = block->pending ? pending++ : living++;
	}
	*ret_resume = resume;
	return 0;
}

struct resume *resume_free(struct resume *resume)
{
	if (resume)
		inherited_done(&resume->set);
	return tm_free(resume);
}

uint64_t resume_blocks(const struct resume *resume)
{
	return inherited_blocks(&resume->set);
}

uint64_t resume_bytes(const struct resume *resume)
{
	return resume->set.bytes;
}

uint64_t resume_interval(const struct resume *resume)
{
	return inherited_interval(&resume->set);
}

static struct trace_event birth_of(const struct inherited_block *block)
{
	return (struct trace_event){.op = TRACE_ALLOC,
				    .address = block->address,
				    .size_bytes = block->size_bytes,
				    .block_id = TRACE_NO_BLOCK,
				    .stack_id = block->stack_id,
				    .thread_id = block->thread_id};
}

size_t resume_events(struct resume *resume, struct trace_event *events, size_t room)
{
	const struct inherited *set = &resume->set;
	size_t count = 0;
	while (count + 2 <= room) {
		if (resume->next == set->count) {
			if (resume->living)
				break;
			resume->living = true;
			resume->next = 0;
			continue;
		}
		const struct inherited_block *block = &set->blocks[resume->next++];
		if (block->pending == resume->living)
			continue;
		events[count++] = birth_of(block);
		if (block->pending)
			events[count++] = (struct trace_event){.op = TRACE_REALLOC_FREE,
							       .address = block->address,
							       .block_id = TRACE_NO_BLOCK,
							       .thread_id = block->realloc_thread};
	}
	return count;
}

struct map_visit {
	resume_map_fn fn;
	void *ctx;
	bool again; /* told before, with its stack */
};

static int visit_range(void *ctx, uint64_t start, uint64_t end, uint8_t kind, uint32_t call)
{
	const struct map_visit *visit = ctx;
	const struct trace_map_event event = {
		.op = TRACE_MAP,
		.address = start,
		.bytes = end - start,
		.prot_or_advice = kind & MAP_RESERVED ? 0 : 3, /* PROT_READ | PROT_WRITE */
		.flags = (kind & MAP_FILE_BACKED ? TRACE_MAP_FILE : 0) |
			 (visit->again ? TRACE_MAP_RESTATED : 0),
		.stack_id = visit->again ? call : 0,
	};
	return visit->fn(visit->ctx, &event);
}

int resume_maps(const struct model *m, resume_map_fn fn, void *ctx)
{
	const struct map_set *maps = &m->maps;
	struct map_visit visit = {.fn = fn, .ctx = ctx};
	int rc = maps_each(maps, visit_range, &visit);
	const struct trace_map_event event = {.op = TRACE_MAP_BRK,
					      .address = maps->brk_start,
					      .bytes = maps->brk_start + maps->brk_bytes};
	return rc || !maps->brk_start ? rc : fn(ctx, &event);
}

int resume_maps_within(const struct model *m, uint64_t address, uint64_t bytes, resume_map_fn fn,
		       void *ctx)
{
	struct map_visit visit = {.fn = fn, .ctx = ctx, .again = true};
	uint64_t page = m->maps.page_bytes, end;
	if (__builtin_add_overflow(address, bytes, &end) || end > UINT64_MAX - page)
		return 0;
	return maps_within(&m->maps, address, (end + page - 1) & ~(page - 1), visit_range, &visit);
}
