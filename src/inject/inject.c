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
#include "inject/change.h"
#include "inject/state.h"

enum {
	CAPABILITY_NICE = 23,
	CAPABILITY_ADMIN = 21,
	BUSY_TRIES = 200,
	BUSY_PAUSE_US = 2 * 1000,
	LOOK_NS = 500 * 1000 * 1000,
	LOOK_SHARE = 100, /* looking takes at most that part of the time */
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
	return pid && proc_start_ticks((pid_t)pid) == start && start;
}

/* Who records it now, if the agent is there. */
static int look_at_session(struct inject *inject, struct tm_error *err)
{
	uint32_t pid = 0, patches = 0;
	uint64_t start = 0;
	int error =
		session_read(inject, offsetof(struct wire_attach_block, collector_pid), &pid, 4);
	if (!error)
		error = session_read(inject, offsetof(struct wire_attach_block, collector_start),
				     &start, sizeof start);
	if (!error)
		error = session_read(inject, offsetof(struct wire_attach_block, patch_count),
				     &patches, sizeof patches);
	if (error)
		return tm_fail(err, error, "the agent in process %d cannot be read",
			       (int)inject->facts.pid);
	if (is_alive(pid, start))
		inject->facts.collector = (pid_t)pid;
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
	remote_return(&inject->remote);
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

/* ---- entering ---- */

static int note_collector(struct inject *inject, bool present)
{
	uint32_t pid = present ? (uint32_t)getpid() : 0;
	uint64_t start = present ? proc_start_ticks(getpid()) : 0;
	int error = session_write(inject, offsetof(struct wire_attach_block, collector_start),
				  &start, sizeof start);
	return error ? error
		     : session_write(inject, offsetof(struct wire_attach_block, collector_pid),
				     &pid, sizeof pid);
}

/* The thread that is in the middle of something may be the very one that was borrowed. */
static int borrow_another(struct inject *inject, struct tm_error *err)
{
	remote_return(&inject->remote);
	usleep(BUSY_PAUSE_US);
	return session_borrow(inject, err);
}

/* A thread may still be writing an event of the session before; not for long. */
static int begin(struct inject *inject, int fd, struct tm_error *err)
{
	for (int i = 0; i <= BUSY_TRIES; i++) {
		int64_t result = 0;
		int error = remote_order(&inject->remote, WIRE_ATTACH_BEGIN, (uint64_t)fd,
					 i == BUSY_TRIES, &result, err);
		if (error)
			return error;
		if (result == -EPERM)
			return tm_fail(err, -EPERM,
				       "process %d has forbidden itself to read the time-stamp "
				       "counter (PR_SET_TSC), which the agent needs; start it with "
				       "'tidemark run'",
				       (int)inject->facts.pid);
		if (result != -EBUSY)
			return result ? tm_fail(err, (int)result,
						"the agent cannot begin in process %d: %s (a "
						"limit on its memory?)",
						(int)inject->facts.pid, strerror((int)-result))
				      : 0;
		error = borrow_another(inject, err);
		if (error)
			return error;
	}
	return -EBUSY;
}

/* With a thread that serves. */
static int enter(struct inject *inject, inject_fill_fn fill, void *ctx, struct tm_error *err)
{
	char name[32], path[64];
	int64_t fd = -1, ignored;
	uint32_t seccomp = inject->facts.seccomp;
	int error = session_write(inject, offsetof(struct wire_attach_block, seccomp), &seccomp,
				  sizeof seccomp)
			    ? -ESRCH
			    : 0;
	if (!error)
		error = remote_order(&inject->remote, WIRE_ATTACH_OPEN, 0, 0, &fd, err);
	if (!error && fd < 0)
		return tm_fail(err, (int)fd,
			       "process %d cannot open another descriptor, which is needed for a "
			       "moment: %s",
			       (int)inject->facts.pid, strerror((int)-fd));
	if (error)
		return error;
	snprintf(name, sizeof name, "fd/%d", (int)fd);
	proc_path(path, sizeof path, inject->facts.pid, inject->remote.tid, name);
	error = fill(ctx, path, err);
	if (!error)
		error = islands_map(inject, err);
	if (!error)
		error = begin(inject, (int)fd, err);
	if (error && remote_order(&inject->remote, WIRE_ATTACH_CLOSE, (uint64_t)fd, 0, &ignored,
				  &(struct tm_error){0}))
		return error;
	return error;
}

int inject_enter(struct inject *inject, inject_fill_fn fill, void *ctx, struct tm_error *err)
{
	int error = inject->facts.orphan ? change_undo(inject, err) : 0;
	if (error)
		return error;
	uint64_t began = clock_steady_ns();
	error = session_borrow(inject, err);
	if (error)
		return error;
	error = enter(inject, fill, ctx, err);
	remote_return(&inject->remote);
	inject->facts.borrow_ns = clock_steady_ns() - began;
	if (!error && note_collector(inject, true))
		error = tm_fail(err, -ESRCH, "process %d has ended", (int)inject->facts.pid);
	if (error)
		stop_release(&inject->stop);
	return error;
}

int inject_patch(struct inject *inject, struct tm_error *err)
{
	int error = islands_note(inject, err);
	if (!error)
		error = change_do(inject, err);
	stop_release(&inject->stop);
	inject->facts.enter_pause_ns = inject->stop.pause_ns;
	return error;
}

int inject_look(struct inject *inject, struct tm_error *err)
{
	uint64_t began = clock_steady_ns();
	if (!stop_settle(&inject->stop) || began < inject->next_look_ns)
		return 0;
	size_t before = inject->facts.functions;
	int found = islands_plan(inject, err);
	uint64_t cost = (clock_steady_ns() - began) * LOOK_SHARE;
	inject->next_look_ns = began + (cost > LOOK_NS ? cost : LOOK_NS);
	if (found <= 0)
		return found;
	int error = session_borrow(inject, err);
	if (error)
		return error;
	error = islands_map(inject, err);
	remote_return(&inject->remote);
	if (!error)
		error = islands_note(inject, err);
	if (!error)
		error = change_do(inject, err);
	stop_release(&inject->stop);
	return error ? error : (int)(inject->facts.functions - before);
}

int inject_leave(struct inject *inject, struct tm_error *err)
{
	int error = inject->facts.present || inject->base ? change_undo(inject, err) : 0;
	if (!error && inject->base && note_collector(inject, false))
		error = -ESRCH;
	return error;
}

bool inject_is_same(const struct inject *inject)
{
	uint64_t auxv[WIRE_ATTACH_AUXV_WORDS];
	pid_t tid = proc_live_thread(inject->facts.pid);
	int words = tid ? proc_auxv(inject->facts.pid, tid, auxv, WIRE_ATTACH_AUXV_WORDS) : -ESRCH;
	return words > 0 && proc_auxv_find(auxv, (size_t)words, AT_RANDOM) ==
				    proc_auxv_find(inject->auxv, inject->auxv_words, AT_RANDOM);
}
