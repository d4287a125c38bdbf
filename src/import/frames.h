/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, modules and stacks of files that name their frames. A frame is what one
 * address stands for: a function and those inlined into it. Frames without an
 * address get one that is made up, the same for the same names; stacks are
 * interned, so that the same path is one stack.
 */
#pragma once

#include "import/reader.h"

struct frames;

/* A text that need not end with a NUL. data NULL: unknown. Embedded NULs cut it. */
struct frames_text {
	const char *data;
	size_t length;
};
static inline struct frames_text frames_text(const char *data, size_t length)
{
	return (struct frames_text){data, length};
}

struct frames_name {
	struct frames_text function, file;
	uint32_t line, column;
};

struct frames_module {
	struct frames_text path;
	uint64_t start, end, bias; /* 0 = not known */
	const uint8_t *build_id;
	uint32_t build_id_bytes;
};

TM_MUST_CHECK int frames_new(struct import_job *job, struct frames **ret_frames,
			     struct tm_error *err);
struct frames *frames_free(struct frames *f);

/* Its id, from 1; the same for the same path and start. */
TM_MUST_CHECK int frames_module(struct frames *f, const struct frames_module *module,
				uint32_t *ret_module_id, struct tm_error *err);
/* Of a module's id; NULL for 0. */
const char *frames_module_path(const struct frames *f, uint32_t module_id);
/*
 * A frame: names innermost first, the last is the function itself, those before
 * it are inlined into it; count 0: none are known. address is that of the call
 * (not of the return), 0 = made up. module_id 0 = none. The same address and module
 * is the same frame, and its first names count. At most 64 names are kept.
 */
TM_MUST_CHECK int frames_add(struct frames *f, uint32_t module_id, uint64_t address,
			     const struct frames_name *names, size_t count, uint32_t *ret_frame_id,
			     struct tm_error *err);
/* The stack of a frame called by the parent (0 = outermost): its id, from 1. */
TM_MUST_CHECK int frames_stack(struct frames *f, uint32_t parent_stack_id, uint32_t frame_id,
			       uint32_t *ret_stack_id, struct tm_error *err);
/* A stack that says that there is none: "[no stack]". */
TM_MUST_CHECK int frames_no_stack(struct frames *f, uint32_t *ret_stack_id, struct tm_error *err);
/*
 * Looks up names for frames that have an address in a module and no names, in the
 * modules' files. *ret_unnamed of *ret_asked addresses found none. Before
 * frames_finish().
 */
struct symbols_options;
TM_MUST_CHECK int frames_resolve(struct frames *f, const struct symbols_options *options,
				 uint64_t *ret_asked, uint64_t *ret_unnamed, struct tm_error *err);
/* Writes what is left: symbols, modules. Before import_end(). */
TM_MUST_CHECK int frames_finish(struct frames *f, struct tm_error *err);
uint64_t frames_stack_count(const struct frames *f);
