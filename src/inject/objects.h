/* SPDX-License-Identifier: Apache-2.0 */
/* The programs and libraries that a process has mapped, found without its loader's help. */
#pragma once

#include "base/error.h"
#include "inject/proc.h"

struct object {
	uint64_t bias;       /* run-time address = bias + ELF address */
	uint64_t start, end; /* its mappings of the file */
	uint64_t code_end;   /* of its code: the rest of that page belongs to nobody */
	uint64_t device, inode;
	const char *path; /* borrowed from the maps */
};

struct objects {
	struct object *list;
	size_t count;
};

/* Those with code. maps must live as long. Files that cannot be read are left out. */
TM_MUST_CHECK int objects_find(pid_t pid, pid_t tid, const struct proc_maps *maps,
			       struct objects *ret, struct tm_error *err);
void objects_done(struct objects *objects);

/* Its file, for reading; -errno when it cannot be had (it was replaced, or hidden). */
int objects_open(pid_t pid, pid_t tid, const struct proc_map *map);
