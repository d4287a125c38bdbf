/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/patches.h"

#include <linux/mman.h>

#include "agent/emit.h"
#include "agent/memory_ops.h"
#include "agent/sys.h"
#include "wire/site.h"

enum { UNHOOKED_WORDS = 16 };

/* What has been read of the block, which is not ours: copied, then checked. */
struct block {
	const uint8_t *at;
	uint64_t left;
};

/* The next so many bytes, or NULL. */
static const void *take(struct block *block, uint64_t bytes)
{
	const uint8_t *at = block->at;
	if (bytes > block->left)
		return NULL;
	block->at += bytes;
	block->left -= bytes;
	return at;
}

static bool map_island(const struct wire_island *island, const void *bytes)
{
	void *wanted = (void *)island->address;
	void *got = sys_mmap(wanted, island->bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (sys_failed((long)got))
		return false;
	if (got == wanted) {
		memcpy(wanted, bytes, island->bytes);
		if (!sys_failed(sys_mprotect(wanted, island->bytes, PROT_READ | PROT_EXEC)))
			return true;
	}
	sys_munmap(got, island->bytes);
	return false;
}

/*
 * The pages that hold the patch are made writable for the moment; a page that is
 * not there says so. Read directly: reading through the kernel may be forbidden.
 */
static bool write_patch(const struct wire_patch *patch)
{
	uintptr_t page = patch->address & ~(uintptr_t)(AGENT_PAGE - 1);
	uintptr_t end = patch->address + WIRE_PATCH_BYTES;
	size_t bytes = end > page + AGENT_PAGE ? 2 * AGENT_PAGE : AGENT_PAGE;
	void *code = (void *)patch->address;
	if (sys_failed(sys_mprotect((void *)page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC)))
		return false;
	bool expected = memcmp(code, patch->old, WIRE_PATCH_BYTES) == 0;
	if (expected)
		memcpy(code, patch->new, WIRE_PATCH_BYTES);
	sys_mprotect((void *)page, bytes, PROT_READ | PROT_EXEC);
	return expected;
}

static bool apply_island(struct block *block, uint32_t *failed)
{
	struct wire_island island;
	const void *head = take(block, sizeof island);
	if (!head)
		return false;
	memcpy(&island, head, sizeof island);
	const struct wire_patch *patches =
		take(block, (uint64_t)island.patches * sizeof(struct wire_patch));
	const void *bytes = take(block, island.bytes);
	if (!patches || !bytes)
		return false;
	if (!map_island(&island, bytes)) {
		*failed += island.patches;
		return true;
	}
	for (uint32_t i = 0; i < island.patches; i++)
		*failed += !write_patch(&patches[i]);
	return true;
}

/* For the user: the rest is recorded. */
static void tell_failure(void)
{
	static const char text[UNHOOKED_WORDS * 8] =
		"Not hooked: functions of an allocator that is linked into the program, because "
		"its code may not be changed here";
	struct lane *lane = lane_find(thread_pointer());
	uint64_t words[UNHOOKED_WORDS];
	memcpy(words, text, sizeof words);
	if (lane)
		emit_extra(lane, WIRE_EV_UNHOOKED, words, UNHOOKED_WORDS);
}

void patches_apply(void)
{
	struct block block = {agent.map.patches, agent.map.patches_bytes};
	const struct wire_patches *head = take(&block, sizeof *head);
	uint32_t islands = head ? head->islands : 0, failed = 0;
	while (islands-- && apply_island(&block, &failed))
		continue;
	if (failed)
		tell_failure();
}
