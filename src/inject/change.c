/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/change.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/memory.h"
#include "inject/frames.h"
#include "inject/state.h"

/* ---- in ---- */

/* pc within an object that is being patched. */
static uint64_t move_pc(void *ctx, uint64_t pc)
{
	const struct inject *inject = ctx;
	for (size_t i = 0; i < inject->object_count; i++) {
		const struct inject_object *object = &inject->objects[i];
		if (object->set && !object->in_place && pc >= object->start && pc < object->end)
			return patch_move_pc(object->set, pc);
	}
	return pc;
}

static void find_bounds(const struct inject *inject, struct frames_scan *scan)
{
	scan->low = UINT64_MAX;
	for (size_t i = 0; i < inject->object_count; i++) {
		const struct inject_object *object = &inject->objects[i];
		for (size_t k = 0; object->set && !object->in_place && k < object->set->count;
		     k++) {
			uint64_t address = object->set->patches[k].address;
			if (address < scan->low)
				scan->low = address;
			if (address + RELOC_PATCH_BYTES > scan->high)
				scan->high = address + RELOC_PATCH_BYTES;
		}
	}
}

static int move_thread(struct inject *inject, const struct frames_scan *scan,
		       struct stop_thread *thread)
{
	uint64_t mask = 0, pc = thread->registers.rip, to = move_pc(inject, pc);
	int error = 0;
	if (to != pc) {
		error = stop_set_pc(&inject->stop, thread, to);
		inject->facts.moved++;
	}
	if (error)
		return error == -ESRCH ? 0 : error;
	ptrace(PTRACE_GETSIGMASK, thread->tid, (void *)sizeof mask, &mask);
	int moved = frames_repair(scan, thread->registers.rsp, mask != 0);
	if (moved < 0)
		return moved;
	inject->facts.moved += (unsigned)moved;
	return 0;
}

/* Does the code still look as the plan expects? */
static int check_code(struct inject *inject, struct tm_error *err)
{
	for (size_t i = 0; i < inject->object_count; i++) {
		const struct inject_object *object = &inject->objects[i];
		for (size_t k = 0; object->set && !object->in_place && k < object->set->count;
		     k++) {
			const struct patch *patch = &object->set->patches[k];
			uint8_t now[RELOC_PATCH_BYTES];
			if (remote_read(inject->memory_fd, patch->address, now, sizeof now))
				return tm_fail(err, -ESRCH, "%s was unloaded meanwhile",
					       object->path);
			if (memcmp(now, patch->old, sizeof now) != 0)
				return tm_fail(err, -EBUSY,
					       "the code of %s in process %d differs from that in "
					       "its file: another tool has patched %s",
					       object->path, (int)inject->facts.pid,
					       patch->entry->name);
		}
	}
	return 0;
}

static int write_patches(struct inject *inject, struct tm_error *err)
{
	for (size_t i = 0; i < inject->object_count; i++) {
		struct inject_object *object = &inject->objects[i];
		for (size_t k = 0; object->set && !object->in_place && k < object->set->count;
		     k++) {
			const struct patch *patch = &object->set->patches[k];
			int error = remote_write(inject->memory_fd, patch->address, patch->new,
						 sizeof patch->new);
			if (error)
				return tm_fail(err, error, "cannot patch %s in process %d: %s",
					       patch->entry->name, (int)inject->facts.pid,
					       strerror(-error));
			inject->facts.patched++;
			steps_reach(&inject->stop.steps, "patching");
		}
		object->in_place |= object->set != NULL;
	}
	return 0;
}

int change_do(struct inject *inject, struct tm_error *err)
{
	struct frames_scan scan = {.memory_fd = inject->memory_fd, .move = move_pc, .ctx = inject};
	find_bounds(inject, &scan);
	int error = check_code(inject, err);
	if (!error)
		error = stop_all(&inject->stop, 0, err);
	if (error)
		return error;
	steps_reach(&inject->stop.steps, "stopped");
	error = check_code(inject, err);
	for (size_t i = 0; !error && i < inject->stop.count; i++) {
		error = move_thread(inject, &scan, &inject->stop.threads[i]);
		if (error)
			tm_fail(err, error, "cannot move thread %d of process %d: %s",
				(int)inject->stop.threads[i].tid, (int)inject->facts.pid,
				strerror(-error));
	}
	steps_reach(&inject->stop.steps, "moved");
	if (!error)
		error = write_patches(inject, err);
	steps_reach(&inject->stop.steps, "patched");
	return error;
}

/* ---- out ---- */

/* Only where our jump still is: the library may have gone, and another come. */
static int restore(struct inject *inject, const struct wire_attach_patch *patch)
{
	uint8_t now[sizeof patch->new];
	if (!patch->in_place || patch->bytes > sizeof patch->new ||
	    remote_read(inject->memory_fd, patch->address, now, patch->bytes) ||
	    memcmp(now, patch->new, patch->bytes) != 0)
		return 0;
	return remote_write(inject->memory_fd, patch->address, patch->old, patch->bytes);
}

static int read_patches(struct inject *inject, struct wire_attach_patch **ret, uint32_t *ret_count)
{
	uint32_t count = 0;
	int error = session_read(inject, offsetof(struct wire_attach_block, patch_count), &count,
				 sizeof count);
	if (error || count > WIRE_ATTACH_PATCHES)
		return error ? error : -EBADMSG;
	struct wire_attach_patch *patches = tm_alloc_array(count + 1, sizeof *patches);
	if (!patches)
		return -ENOMEM;
	error = session_read(inject, offsetof(struct wire_attach_block, patches), patches,
			     count * sizeof *patches);
	if (error)
		tm_free(patches);
	else
		*ret = patches;
	*ret_count = error ? 0 : count;
	return error;
}

int change_undo(struct inject *inject, struct tm_error *err)
{
	struct wire_attach_patch *patches = NULL;
	uint32_t count = 0, none = 0;
	int error = read_patches(inject, &patches, &count);
	if (error)
		return tm_fail(err, error == -EIO ? -ESRCH : error,
			       "cannot read what was patched in process %d: %s",
			       (int)inject->facts.pid, strerror(-error));
	if (count)
		error = stop_all(&inject->stop, 0, err);
	steps_reach(&inject->stop.steps, "stopped-again");
	for (uint32_t i = 0; !error && i < count; i++) {
		error = restore(inject, &patches[i]);
		steps_reach(&inject->stop.steps, "restoring");
	}
	steps_reach(&inject->stop.steps, "restored");
	if (!error)
		error = session_write(inject, offsetof(struct wire_attach_block, patch_count),
				      &none, sizeof none);
	stop_release(&inject->stop);
	inject->facts.leave_pause_ns = inject->stop.pause_ns;
	tm_free(patches);
	for (size_t i = 0; i < inject->object_count; i++)
		inject->objects[i].in_place = false;
	return error;
}
