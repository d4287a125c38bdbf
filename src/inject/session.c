/* SPDX-License-Identifier: Apache-2.0 */
/* The agent in the process: finding it, mapping it, having a thread serve its block. */
#include "inject/state.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/version.h"
#include "inject/cave.h"

enum {
	HEAD_BYTES = 4096,
	NAMES_BYTES = 64 * 1024,
	CODE_BYTES = 16 * 1024,
	SERVER_STEP_US = 10 * 1000,
	SERVER_STEPS = 800, /* longer than the thread's own patience */
};

int session_read(const struct inject *inject, size_t offset, void *data, size_t bytes)
{
	return remote_read(inject->memory_fd, inject->block + offset, data, bytes);
}

int session_write(const struct inject *inject, size_t offset, const void *data, size_t bytes)
{
	return remote_write(inject->memory_fd, inject->block + offset, data, bytes);
}

/* ---- finding ---- */

static bool begins_with_elf(const struct inject *inject, const struct proc_map *map)
{
	char magic[SELFMAG];
	return !remote_read(inject->memory_fd, map->start, magic, sizeof magic) &&
	       !memcmp(magic, ELFMAG, SELFMAG);
}

/* Is our symbol among its names? */
static bool is_agent(const struct inject *inject, const struct proc_map *map)
{
	size_t bytes = map->end - map->start;
	bytes = bytes < NAMES_BYTES ? bytes : NAMES_BYTES;
	char *head = tm_alloc(bytes);
	bool found = head && !remote_read(inject->memory_fd, map->start, head, bytes) &&
		     memmem(head, bytes, WIRE_ATTACH_SYMBOL, sizeof WIRE_ATTACH_SYMBOL) != NULL;
	tm_free(head);
	return found;
}

/* The same file as ours: headers and build-id are equal. */
static bool is_same_build(const struct inject *inject, const struct proc_map *map)
{
	uint8_t head[HEAD_BYTES];
	return !remote_read(inject->memory_fd, map->start, head, sizeof head) &&
	       !memcmp(head, inject->image.bytes, sizeof head);
}

static int other_version(const struct inject *inject, struct tm_error *err)
{
	return tm_fail(err, -EPROTONOSUPPORT,
		       "another version of tidemark has been in process %d and left its agent "
		       "there: attach with that version (this one is %s), or restart the process",
		       (int)inject->facts.pid, TIDEMARK_VERSION);
}

static void use_base(struct inject *inject, uint64_t base)
{
	inject->base = base;
	inject->block = base + image_symbol(&inject->image, WIRE_ATTACH_SYMBOL);
	inject->glue = base + image_symbol(&inject->image, PATCH_GLUE_SYMBOL);
}

int session_find(struct inject *inject, const struct proc_maps *maps, struct tm_error *err)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct proc_map *map = &maps->maps[i];
		if (map->inode || !map->executable || !map->readable || *map->path ||
		    !begins_with_elf(inject, map) || !is_agent(inject, map))
			continue;
		if (!is_same_build(inject, map))
			return other_version(inject, err);
		use_base(inject, map->start);
		inject->facts.present = true;
		return 0;
	}
	return 0;
}

/* ---- mapping ---- */

/* A `syscall` instruction: the kernel's own page has some. */
static uint64_t find_syscall(const struct inject *inject)
{
	static const uint8_t instruction[2] = {0x0f, 0x05};
	uint8_t code[CODE_BYTES];
	uint64_t vdso = proc_auxv_find(inject->auxv, inject->auxv_words, AT_SYSINFO_EHDR);
	for (size_t bytes = CODE_BYTES; vdso && bytes >= HEAD_BYTES; bytes /= 2) {
		if (remote_read(inject->memory_fd, vdso, code, bytes))
			continue;
		const uint8_t *found = memmem(code, bytes, instruction, sizeof instruction);
		return found ? vdso + (uint64_t)(found - code) : 0;
	}
	return 0;
}

/* The bytes behind the last that is not zero are zero in the new mapping anyway. */
static size_t used_bytes(const struct image *image)
{
	size_t bytes = image->count;
	while (bytes && !image->bytes[bytes - 1])
		bytes--;
	return bytes;
}

static void fill_block(struct inject *inject)
{
	struct wire_attach_block *block =
		(struct wire_attach_block *)(void *)(inject->image.bytes + inject->block -
						     inject->base);
	block->image = inject->base;
	block->image_bytes = inject->image.count;
	memcpy(block->auxv, inject->auxv, inject->auxv_words * sizeof inject->auxv[0]);
}

/* Room at the end of the kernel's own page, of which the process gets a copy by writing; or 0. */
static uint64_t find_kernel_cave(struct inject *inject)
{
	static const uint8_t empty[CAVE_BYTES];
	uint8_t now[CAVE_BYTES];
	struct proc_maps maps;
	uint64_t vdso = proc_auxv_find(inject->auxv, inject->auxv_words, AT_SYSINFO_EHDR);
	if (!vdso || islands_maps(inject, &maps))
		return 0;
	const struct proc_map *map = proc_maps_find(&maps, vdso);
	uint64_t place = map && map->executable ? map->end - CAVE_BYTES : 0;
	proc_maps_done(&maps);
	if (!place || remote_read(inject->memory_fd, place, now, sizeof now))
		return 0;
	return !memcmp(now, empty, sizeof now) || cave_is_ours(now) ? place : 0;
}

/* Room behind somebody's code; 0: nowhere. */
static uint64_t find_cave(struct inject *inject)
{
	uint64_t place = 0;
	bool none = steps_race(&inject->stop.steps, "cave");
	for (size_t i = 0; !none && !place && i < inject->object_count; i++)
		place = cave_after(inject->objects[i].code_end);
	return place ? place : find_kernel_cave(inject);
}

/* One system call by code that brings the thread back if we die; else by the kernel's page. */
static int call_from_cave(struct inject *inject, const uint64_t call[7], int64_t *ret,
			  struct tm_error *err)
{
	uint64_t cave = find_cave(inject), at = cave ? cave : find_syscall(inject);
	uint8_t old[CAVE_BYTES], code[CAVE_BYTES];
	struct remote *remote = &inject->remote;
	if (!at)
		return tm_fail(err, -ENOTSUP,
			       "process %d has no vdso (vdso=0 at boot?) and no room in its code, "
			       "without which there is no way in; start the program with "
			       "'tidemark run'",
			       (int)inject->facts.pid);
	if (!cave)
		return remote_system(remote, at, call, ret, err);
	struct user_regs_struct resumed = remote_resumed(&remote->registers);
	cave_fill(&resumed, remote->mask, code);
	int error = remote_read(inject->memory_fd, cave, old, sizeof old);
	if (!error && cave_is_ours(old))
		memset(old, 0, sizeof old);
	if (!error)
		error = remote_write(inject->memory_fd, cave, code, sizeof code);
	if (error)
		return tm_fail(err, error, "cannot write to the code of process %d: %s",
			       (int)inject->facts.pid, strerror(-error));
	error = remote_system(remote, cave, call, ret, err);
	if (!error && remote_write(inject->memory_fd, cave, old, sizeof old))
		error = tm_fail(err, -ESRCH, "process %d has ended", (int)inject->facts.pid);
	return error;
}

static int map_agent(struct inject *inject, struct tm_error *err)
{
	int64_t address = 0;
	const uint64_t call[7] = {SYS_mmap,
				  0,
				  inject->image.count,
				  PROT_READ | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				  (uint64_t)-1,
				  0};
	int error = call_from_cave(inject, call, &address, err);
	if (error)
		return error;
	if (address < 0 && address > -4096)
		return tm_fail(err, (int)address,
			       "process %d may not map code (%s): a limit on its address space, "
			       "or a security module that forbids it; start it with 'tidemark run'",
			       (int)inject->facts.pid, strerror((int)-address));
	image_relocate(&inject->image, (uint64_t)address);
	use_base(inject, (uint64_t)address);
	fill_block(inject);
	error = remote_write(inject->memory_fd, inject->base, inject->image.bytes,
			     used_bytes(&inject->image));
	if (error)
		return tm_fail(err, error, "cannot write the agent into process %d: %s",
			       (int)inject->facts.pid, strerror(-error));
	steps_reach(&inject->stop.steps, "written");
	return 0;
}

/* A tracer was killed while it had a thread: that one gives itself back in some seconds. */
static int wait_for_server(const struct inject *inject, struct tm_error *err)
{
	uint32_t serving = 0;
	for (int i = 0; i < SERVER_STEPS; i++) {
		if (session_read(inject, offsetof(struct wire_attach_block, serving), &serving,
				 sizeof serving))
			return tm_fail(err, -ESRCH, "process %d has ended", (int)inject->facts.pid);
		if (!serving)
			return 0;
		usleep(SERVER_STEP_US);
	}
	if (proc_thread_state(inject->facts.pid, inject->tid) != 'T')
		return 0; /* it was killed before the thread had begun */
	return tm_fail(err, -EBUSY,
		       "process %d is stopped, and a tidemark that was killed had one of its "
		       "threads: continue it first (kill -CONT)",
		       (int)inject->facts.pid);
}

/* Who is the tracer: for other tidemarks, and for the thread that serves it. */
static int note_tracer(const struct inject *inject)
{
	const struct proc_status *target = &inject->target.status;
	uint32_t pid = (uint32_t)getpid(), inside = target->inner == target->group ? pid : 0;
	uint32_t seccomp = inject->facts.seccomp;
	uint64_t start = proc_start_ticks(getpid());
	int error = session_write(inject, offsetof(struct wire_attach_block, tracer_start), &start,
				  sizeof start);
	if (!error)
		error = session_write(inject, offsetof(struct wire_attach_block, tracer_pid), &pid,
				      sizeof pid);
	if (!error)
		error = session_write(inject, offsetof(struct wire_attach_block, seccomp), &seccomp,
				      sizeof seccomp);
	return error ? error
		     : session_write(inject, offsetof(struct wire_attach_block, tracer_inside),
				     &inside, sizeof inside);
}

int session_borrow(struct inject *inject, struct tm_error *err)
{
	int error = inject->base ? wait_for_server(inject, err) : 0;
	if (error)
		return error;
	error = remote_borrow(&inject->remote, &inject->stop, inject->memory_fd, err);
	if (error == -EPERM)
		return target_explain_eperm(&inject->target, err);
	if (error)
		return error;
	if (!inject->base)
		error = map_agent(inject, err);
	uint64_t entry = 0;
	if (!error && (session_read(inject, offsetof(struct wire_attach_block, entry), &entry,
				    sizeof entry) ||
		       note_tracer(inject)))
		error = tm_fail(err, -EIO, "the agent in process %d cannot be read",
				(int)inject->facts.pid);
	if (!error) {
		struct remote_start start = {.block = inject->block,
					     .entry = entry,
					     .data_start = inject->base + inject->image.data_start,
					     .data_bytes = inject->image.data_bytes};
		error = remote_start(&inject->remote, &start, err);
	}
	if (error)
		remote_return(&inject->remote);
	return error;
}
