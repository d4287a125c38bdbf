/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind inject.h share. */
#pragma once

#include "inject/image.h"
#include "inject/inject.h"
#include "inject/objects.h"
#include "inject/patch.h"
#include "inject/remote.h"
#include "inject/target.h"
#include "wire/wire.h"

/* An object with entry points. */
struct inject_object {
	uint64_t bias, start, end, inode;
	char *path;
	struct plan *plan;
	struct patch_set *set; /* once its island has a place */
	uint64_t code_end;     /* where the bytes of its code end in memory */
	bool in_place;
	bool unload; /* not an allocator: dlclose */
};

struct inject {
	struct inject_options options;
	struct inject_facts facts;
	struct target_facts target;
	pid_t tid; /* whose /proc files are read: the first thread may be a zombie */
	int memory_fd;
	struct stop stop;
	struct remote remote;
	struct image image;
	uint64_t base; /* of the agent; 0: not there yet */
	uint64_t block, glue;
	uint64_t auxv[WIRE_ATTACH_AUXV_WORDS];
	size_t auxv_words;
	struct inject_object *objects; /* all that were looked at; most have no entry points */
	size_t object_count, object_room;
	bool has_unload; /* dlclose is among them */
	uint64_t next_look_ns;
	char unhooked[400];
	pid_t recorder;               /* the process that the user sees */
	bool inside;                  /* a session was begun, and is to be left */
	struct wire_control *control; /* the tracer's view of the session's memory; may be NULL */
	/* The recorder's side of guard.h. */
	pid_t guard_pid; /* 0: none */
	int guard_fd;
	bool guard_lost; /* it was killed */
};

/* ---- session.c: the agent and its block ---- */

/* Looks for an agent of an earlier session. -EPROTONOSUPPORT: of another version. */
TM_MUST_CHECK int session_find(struct inject *inject, const struct proc_maps *maps,
			       struct tm_error *err);
/* A thread serves orders; the agent is mapped first where it is not there. */
TM_MUST_CHECK int session_borrow(struct inject *inject, struct tm_error *err);
TM_MUST_CHECK int session_read(const struct inject *inject, size_t offset, void *data,
			       size_t bytes);
TM_MUST_CHECK int session_write(const struct inject *inject, size_t offset, const void *data,
				size_t bytes);

/* ---- islands.c: plans and the memory they need ---- */

/* What it has mapped, by a thread that lives. */
TM_MUST_CHECK int islands_maps(struct inject *inject, struct proc_maps *ret);
/* Reads what is new among the process's objects; how many with entry points. */
int islands_plan(struct inject *inject, struct tm_error *err);
/* Maps and fills islands for objects that have none. While a thread serves. */
TM_MUST_CHECK int islands_map(struct inject *inject, struct tm_error *err);
/* Writes down in the block what is about to be patched, so that anybody can undo it. */
TM_MUST_CHECK int islands_note(struct inject *inject, struct tm_error *err);

/* ---- unload.c: dlclose ---- */

/* NULL: the file does not define it, or it cannot be patched. */
struct plan *unload_plan(int fd, uint64_t bias);
TM_MUST_CHECK int unload_place(struct inject *inject, struct plan *plan, uint64_t place,
			       struct patch_set **ret);
/* Where the agent finds the original. */
TM_MUST_CHECK int unload_tell(const struct inject *inject, const struct patch_set *set);
