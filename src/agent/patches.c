/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/patches.h"

#include <linux/mman.h>

#include "agent/emit.h"
#include "agent/memory_ops.h"
#include "agent/procself.h"
#include "agent/rendezvous.h"
#include "agent/sys.h"
#include "wire/site.h"

enum {
	UNHOOKED_WORDS = 18,
	SYS_NR_LSEEK_ = 8,
	SEEK_TO_END = 2,
	NOT_MAPPED = -14,
	ASKING_NS_MAX = 1000 * 1000 * 1000,
};

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

/* The pages that hold the patch; false: they are not there, or it is forbidden. */
static bool protect(const struct wire_patch *patch, int rights)
{
	uintptr_t page = patch->address & ~(uintptr_t)(AGENT_PAGE - 1);
	uintptr_t end = patch->address + WIRE_PATCH_BYTES;
	size_t bytes = end > page + AGENT_PAGE ? 2 * AGENT_PAGE : AGENT_PAGE;
	return !sys_failed(sys_mprotect((void *)page, bytes, rights));
}

/*
 * The pages are made writable for the moment; one that is not there says so.
 * Read directly: reading through the kernel may be forbidden.
 */
static bool write_patch(const struct wire_patch *patch)
{
	void *code = (void *)patch->address;
	if (!protect(patch, PROT_READ | PROT_WRITE | PROT_EXEC))
		return false;
	bool expected = memcmp(code, patch->old, WIRE_PATCH_BYTES) == 0;
	if (expected)
		memcpy(code, patch->new, WIRE_PATCH_BYTES);
	protect(patch, PROT_READ | PROT_EXEC);
	return expected;
}

/* The next island of the block; false: it is no good. */
static bool take_island(struct block *block, struct wire_island *ret,
			const struct wire_patch **ret_patches, const void **ret_bytes)
{
	const void *head = take(block, sizeof *ret);
	if (!head)
		return false;
	memcpy(ret, head, sizeof *ret);
	ret->name[sizeof ret->name - 1] = '\0';
	*ret_patches = take(block, (uint64_t)ret->patches * sizeof(struct wire_patch));
	*ret_bytes = take(block, ret->bytes);
	return *ret_patches && *ret_bytes;
}

static bool apply_island(struct block *block, uint32_t *failed)
{
	struct wire_island island;
	const struct wire_patch *patches;
	const void *bytes;
	if (!take_island(block, &island, &patches, &bytes))
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
static void tell(const char *name, const char *why)
{
	char text[UNHOOKED_WORDS * 8] = "Not hooked: ";
	uint64_t words[UNHOOKED_WORDS];
	struct lane *lane = lane_of_caller();
	const char *const parts[] = {name, " (", why, ")"};
	size_t at = strlen(text);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		for (const char *c = parts[i]; *c && at < sizeof text - 1; c++)
			text[at++] = *c;
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
		tell("functions of an allocator that is linked into the program",
		     "its code may not be changed here");
}

/* ---- libraries that were loaded later ---- */

/* What is at the place of a patch. */
enum look { LOOK_OTHER, LOOK_PENDING, LOOK_FORBIDDEN };

/*
 * Through the kernel: with other threads the library may be gone already. Where that is forbidden
 * (seccomp, containers) the only thread may read by itself: nobody unloads anything meanwhile.
 */
static enum look look_at(const struct wire_patch *patch, bool alone)
{
	uint8_t code[WIRE_PATCH_BYTES];
	struct sys_iovec local = {code, sizeof code};
	struct sys_iovec remote = {(void *)patch->address, sizeof code};
	long got = sys_process_vm_readv(sys_gettid(), &local, 1, &remote, 1);
	const void *found = code;
	if (got == NOT_MAPPED || (got >= 0 && got < (long)sizeof code))
		return LOOK_OTHER;
	if (got < 0 && !alone)
		return LOOK_FORBIDDEN;
	if (got < 0) {
		if (!protect(patch, PROT_READ | PROT_EXEC))
			return LOOK_OTHER;
		found = (const void *)patch->address;
	}
	return memcmp(found, patch->old, sizeof code) ? LOOK_OTHER : LOOK_PENDING;
}

static uint32_t count_looks(const struct wire_patch *patches, uint32_t count, bool alone,
			    enum look wanted)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < count; i++)
		found += look_at(&patches[i], alone) == wanted;
	return found;
}

/* One of ours whose library is gone has another's code from now on. */
static bool renew_island(const struct wire_island *island, const void *bytes)
{
	void *at = (void *)island->address;
	uint32_t i = 0;
	while (i < agent_fixed.island_count && agent_fixed.islands[i].address != island->address)
		i++;
	if (i == agent_fixed.island_count || island->bytes > agent_fixed.islands[i].bytes ||
	    sys_failed(sys_mprotect(at, island->bytes, PROT_READ | PROT_WRITE)))
		return false;
	memcpy(at, bytes, island->bytes);
	return !sys_failed(sys_mprotect(at, island->bytes, PROT_READ | PROT_EXEC));
}

static bool place_island(const struct wire_island *island, const void *bytes)
{
	if (renew_island(island, bytes))
		return true;
	if (!map_island(island, bytes))
		return false;
	if (agent_fixed.island_count < WIRE_LATE_ISLANDS)
		agent_fixed.islands[agent_fixed.island_count++] =
			(struct agent_island){island->address, island->bytes};
	return true;
}

static void apply_alone(const struct wire_island *island, const struct wire_patch *patches,
			const void *bytes)
{
	uint32_t pending = count_looks(patches, island->patches, true, LOOK_PENDING), failed = 0;
	if (!pending)
		return;
	if (!place_island(island, bytes))
		failed = pending;
	for (uint32_t i = 0; !failed && i < island->patches; i++)
		if (look_at(&patches[i], true) == LOOK_PENDING)
			failed += !write_patch(&patches[i]);
	if (failed)
		tell(island->name, "its code may not be changed here");
}

static bool apply_late(struct block *block)
{
	struct wire_island island;
	const struct wire_patch *patches;
	const void *bytes;
	if (!take_island(block, &island, &patches, &bytes))
		return false;
	if (procself_stat(PROCSELF_THREADS) == 1)
		apply_alone(&island, patches, bytes);
	else if (count_looks(patches, island.patches, false, LOOK_PENDING))
		tell(island.name, "other threads were running when it was loaded");
	else if (count_looks(patches, island.patches, false, LOOK_FORBIDDEN))
		tell(island.name, "its code may not be read here");
	return true;
}

/*
 * The descriptor of what to patch, or -1. A recorder that is stopped, or a machine with too much to
 * do, must not make a program slow that loads many libraries: from some time on nobody is asked.
 */
static int ask(void)
{
	static _Atomic uint64_t asked_ns;
	if (atomic_load_explicit(&asked_ns, memory_order_relaxed) >= ASKING_NS_MAX)
		return -1;
	uint64_t start_ns = agent_steady_ns();
	int fd = rendezvous_call(agent_fixed.session, WIRE_HELLO_LOADED);
	uint64_t took_ns = agent_steady_ns() - start_ns;
	uint64_t before_ns = atomic_fetch_add_explicit(&asked_ns, took_ns, memory_order_relaxed);
	if (before_ns < ASKING_NS_MAX && before_ns + took_ns >= ASKING_NS_MAX)
		tell("libraries that are loaded later",
		     "asking the recorder for each has taken too long");
	return fd;
}

void patches_late(void)
{
	int fd = agent_fixed.injected || !agent_fixed.session[0] ? -1 : ask();
	if (fd < 0)
		return;
	long bytes = sys_call3(SYS_NR_LSEEK_, fd, 0, SEEK_TO_END);
	void *memory =
		bytes > 0 ? sys_mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	sys_close(fd);
	if (!memory || sys_failed((long)memory))
		return;
	struct block block = {memory, (uint64_t)bytes};
	const struct wire_patches *head = take(&block, sizeof *head);
	uint32_t islands = head ? head->islands : 0;
	while (islands-- && apply_late(&block))
		continue;
	sys_munmap(memory, (size_t)bytes);
}
