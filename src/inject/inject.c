/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "inject/guard.h"
#include "inject/state.h"

enum {
	CAPABILITY_NICE = 23,
	CAPABILITY_ADMIN = 21,
	GUARD_STEP_US = 2 * 1000,
	GUARD_STEPS = 5000, /* longer than a guard needs to leave by itself */
};

const struct inject_facts *inject_facts(const struct inject *inject)
{
	return &inject->facts;
}

const char *inject_unhooked(const struct inject *inject)
{
	return inject->unhooked;
}

/* ---- opening ---- */

static bool is_alive(uint32_t pid, uint64_t start)
{
	char state = pid ? proc_thread_state((pid_t)pid, (pid_t)pid) : 0;
	return state && !strchr("ZXx", state) && start && proc_start_ticks((pid_t)pid) == start;
}

/* Of a process that the block names: it and when it was started. */
static bool read_alive(const struct inject *inject, size_t pid_at, size_t start_at, pid_t *ret)
{
	uint32_t pid = 0;
	uint64_t start = 0;
	if (session_read(inject, pid_at, &pid, sizeof pid) ||
	    session_read(inject, start_at, &start, sizeof start))
		return false;
	*ret = (pid_t)pid;
	return is_alive(pid, start);
}

static bool has_collector(const struct inject *inject, pid_t *ret)
{
	return read_alive(inject, offsetof(struct wire_attach_block, collector_pid),
			  offsetof(struct wire_attach_block, collector_start), ret);
}

/* A recorder was killed: its tracer is just leaving the process. */
static void wait_for_tracer(const struct inject *inject)
{
	pid_t pid;
	for (int i = 0; i < GUARD_STEPS && !has_collector(inject, &pid) &&
			read_alive(inject, offsetof(struct wire_attach_block, tracer_pid),
				   offsetof(struct wire_attach_block, tracer_start), &pid);
	     i++)
		usleep(GUARD_STEP_US);
}

/* Who records it now, if the agent is there. */
static int look_at_session(struct inject *inject, struct tm_error *err)
{
	uint32_t patches = 0;
	pid_t pid = 0;
	wait_for_tracer(inject);
	bool alive = has_collector(inject, &pid);
	if (session_read(inject, offsetof(struct wire_attach_block, patch_count), &patches,
			 sizeof patches))
		return tm_fail(err, -EIO, "the agent in process %d cannot be read",
			       (int)inject->facts.pid);
	inject->facts.collector = alive ? pid : 0;
	inject->facts.orphan = patches && !inject->facts.collector;
	if (inject->facts.collector && !inject->options.any_session)
		return tm_fail(err, -EBUSY,
			       "process %d is being recorded already, by tidemark process %d: "
			       "'tidemark detach %d' ends that",
			       (int)inject->facts.pid, (int)pid, (int)inject->facts.pid);
	return 0;
}

static int find_agent(struct inject *inject, struct tm_error *err)
{
	struct proc_maps maps;
	int error = islands_maps(inject, &maps);
	if (error)
		return tm_fail(err, error, "cannot read what process %d has mapped: %s",
			       (int)inject->facts.pid, strerror(-error));
	error = session_find(inject, &maps, err);
	proc_maps_done(&maps);
	if (!error && inject->facts.present)
		error = look_at_session(inject, err);
	return error;
}

static int open_memory(struct inject *inject, struct tm_error *err)
{
	char path[64];
	proc_path(path, sizeof path, inject->facts.pid, inject->tid, "mem");
	inject->memory_fd = open(path, O_RDWR | O_CLOEXEC);
	if (inject->memory_fd >= 0)
		return 0;
	if (errno == EACCES || errno == EPERM)
		return target_explain_eperm(&inject->target, err);
	return tm_fail(err, -errno, "cannot open the memory of process %d: %s",
		       (int)inject->facts.pid, strerror(errno));
}

static void count_threads(struct inject *inject)
{
	pid_t *tids = NULL;
	size_t count = 0;
	if (!proc_threads(inject->facts.pid, &tids, &count))
		inject->facts.threads = count;
	tm_free(tids);
}

/* Who we are, what it is. */
static int look(struct inject *inject, struct tm_error *err)
{
	target_look(inject->options.pid, &inject->target);
	for (int i = 0; i < GUARD_STEPS && !strcmp(inject->target.tracer_name, GUARD_NAME); i++) {
		usleep(GUARD_STEP_US); /* ours, for some milliseconds */
		target_look(inject->options.pid, &inject->target);
	}
	int error = target_judge(&inject->target, err);
	if (error)
		return error;
	const struct proc_status *status = &inject->target.status;
	struct rlimit hurry = {0};
	getrlimit(RLIMIT_RTPRIO, &hurry);
	inject->facts.pid = status->group;
	inject->facts.inner = status->inner;
	inject->facts.seccomp = status->seccomp != 0;
	inject->facts.may_hurry =
		target_capable(&inject->target.own, CAPABILITY_NICE) || hurry.rlim_cur > 0;
	inject->tid = proc_live_thread(status->group);
	int words = proc_auxv(status->group, inject->tid, inject->auxv, WIRE_ATTACH_AUXV_WORDS);
	if (words < 0 || !inject->tid)
		return tm_fail(err, words < 0 ? words : -ESRCH, "process %d cannot be read: %s",
			       (int)inject->facts.pid, strerror(words < 0 ? -words : ESRCH));
	inject->auxv_words = (size_t)words;
	count_threads(inject);
	return 0;
}

static int explain_nothing(const struct inject *inject, struct tm_error *err)
{
	int pid = (int)inject->facts.pid;
	bool symbols = false;
	for (size_t i = 0; i < inject->object_count; i++)
		symbols |= inject->objects[i].plan && inject->objects[i].plan->has_symbols;
	if (inject->facts.refused)
		return tm_fail(err, -ENOTSUP, "process %d cannot be entered: %s", pid,
			       inject->unhooked);
	if (!symbols)
		return tm_fail(
			err, -ENOTSUP,
			"process %d is linked statically and stripped: there is no telling "
			"where its allocator is. Use a build with symbols (not stripped), or "
			"name its functions with --hook",
			pid);
	return tm_fail(err, -ENOTSUP,
		       "nothing in process %d defines malloc or another known allocator (is it "
		       "written in Go, or does it use mmap alone?); --hook names functions of an "
		       "allocator of its own",
		       pid);
}

int inject_open(const struct inject_options *options, struct inject **ret, struct tm_error *err)
{
	struct inject *inject = tm_alloc(sizeof *inject);
	if (!inject)
		return tm_fail(err, -ENOMEM, "out of memory");
	inject->options = *options;
	inject->memory_fd = -1;
	int error = look(inject, err);
	stop_init(&inject->stop, inject->facts.pid, inject->facts.seccomp);
	if (!error)
		error = open_memory(inject, err);
	if (!error)
		error = image_load(options->agent_path, &inject->image, err);
	if (!error)
		error = find_agent(inject, err);
	if (!error && !options->any_session) {
		int found = islands_plan(inject, err);
		error = found < 0 ? found : 0;
		inject->facts.objects = inject->object_count - inject->has_unload;
		if (!error && !inject->facts.functions)
			error = explain_nothing(inject, err);
	}
	if (error) {
		inject_close(inject);
		return error;
	}
	*ret = inject;
	return 0;
}

struct inject *inject_close(struct inject *inject)
{
	if (!inject)
		return NULL;
	guard_end(inject);
	stop_done(&inject->stop);
	for (size_t i = 0; i < inject->object_count; i++) {
		patch_set_free(inject->objects[i].set);
		plan_free(inject->objects[i].plan);
		tm_free(inject->objects[i].path);
	}
	tm_free(inject->objects);
	image_done(&inject->image);
	if (inject->memory_fd >= 0)
		close(inject->memory_fd);
	return tm_free(inject);
}

void inject_describe(const struct inject *inject, struct text *text)
{
	for (size_t i = 0; i < inject->object_count; i++) {
		const struct inject_object *object = &inject->objects[i];
		const struct plan *plan = object->plan;
		if (!plan || object->unload || (!plan->entry_count && !plan->refusal_count))
			continue;
		text_put(text, "  ");
		text_put_visible(text, object->path, strlen(object->path));
		text_print(text, ": %zu function%s:", plan->entry_count,
			   plan->entry_count == 1 ? "" : "s");
		for (size_t k = 0; k < plan->entry_count; k++)
			text_print(text, " %.80s", plan->entries[k].name);
		text_put(text, "\n");
		for (size_t k = 0; k < plan->refusal_count; k++)
			text_print(text, "    not %.80s: %s\n", plan->refusals[k].name,
				   plan->refusals[k].reason);
	}
}

/* ---- by the tracer ---- */

int inject_enter(struct inject *inject, inject_fill_fn fill, void *ctx, struct tm_error *err)
{
	struct guard_order order = {.what = GUARD_ENTER, .fill = fill, .ctx = ctx};
	return guard_do(inject, &order, err);
}

int inject_patch(struct inject *inject, struct tm_error *err)
{
	return guard_do(inject, &(struct guard_order){.what = GUARD_PATCH}, err);
}

int inject_look(struct inject *inject, struct tm_error *err)
{
	/* A second tracer does not know what the first has planned; it can still leave. */
	return inject->guard_lost
		       ? 0
		       : guard_do(inject, &(struct guard_order){.what = GUARD_LOOK}, err);
}

int inject_leave(struct inject *inject, struct tm_error *err)
{
	return guard_do(inject, &(struct guard_order){.what = GUARD_LEAVE}, err);
}

bool inject_is_same(const struct inject *inject)
{
	uint64_t auxv[WIRE_ATTACH_AUXV_WORDS];
	pid_t tid = proc_live_thread(inject->facts.pid);
	int words = tid ? proc_auxv(inject->facts.pid, tid, auxv, WIRE_ATTACH_AUXV_WORDS) : -ESRCH;
	return words > 0 && proc_auxv_find(auxv, (size_t)words, AT_RANDOM) ==
				    proc_auxv_find(inject->auxv, inject->auxv_words, AT_RANDOM);
}
