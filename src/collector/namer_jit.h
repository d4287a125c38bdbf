/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that name the code which a process made itself: found and opened while
 * it lives, in its own root folder and under the number it has there.
 */
#pragma once

#include "base/text.h"
#include "collector/names_wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A line of maps; `path` points into the text. */
struct namer_mapping {
	uint64_t start, end, offset;
	unsigned long inode;
	const char *path;
	size_t path_bytes;
};

struct namer_jit {
	pid_t pid, inner;               /* as we see the process, and as it sees itself */
	uid_t user;                     /* whose files are believed, besides root's */
	uint64_t start_ns;              /* of the process, wall clock; UINT64_MAX unknown */
	int map_fd, dump_fd;            /* -1: not found so far */
	struct text maps;               /* /proc/PID/maps, as last seen */
	struct namer_mapping *mappings; /* the same, read when it is first asked for; by start */
	size_t mapping_count;
	unsigned tries;
	uint64_t next_ns;
	uint64_t read_bytes; /* of both files together, when they were read last */
};

/* While the process lives: what is known of it stays known. */
void namer_jit_init(struct namer_jit *jit, const struct names_stream *begin);
/* Closes the files: they are not read again. */
void namer_jit_forget(struct namer_jit *jit);
void namer_jit_done(struct namer_jit *jit);
/* Looks for them, unless it did so a moment ago. May block on /proc. */
void namer_jit_look(struct namer_jit *jit, int root_fd, uint64_t now_ns);
/* Is there more in the files than when this was asked last? */
bool namer_jit_grown(struct namer_jit *jit);
/*
 * Some programs map a part of themselves a second time (V8 its built-ins). The
 * address of the same code in another mapping of the same file; false: none.
 */
bool namer_jit_twin(struct namer_jit *jit, uint64_t address, uint64_t *ret_address);
/* "[anonymous code]", or what the mapping at the address is called, into out. */
void namer_jit_mapping(struct namer_jit *jit, uint64_t address, char *out, size_t out_bytes);
