/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a frame is: its kind, so that views can fold what nobody wants to read,
 * and its package, so that they can group by it. docs/kinds.md is the manual.
 *
 * The kind comes from rules: those of the user first, then the built-in ones
 * (kinds.rules), the first that fits wins. Where none fits, the package decides:
 * the user's own workspace is the application, the rest are libraries.
 *
 * Not thread-safe: one `struct kinds` belongs to one thread.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_kind {
	KIND_UNKNOWN = 0, /* no name, or no function at all */
	KIND_APPLICATION, /* of the user's workspace */
	KIND_LIBRARY,     /* somebody else's: cargo's registry, node_modules, a system library */
	KIND_STANDARD,    /* the language's standard library */
	KIND_RUNTIME,     /* start-up, executors, interpreters, garbage collectors */
	KIND_ALLOCATOR,   /* malloc and its kin, and thin wrappers of them */
	KIND_COUNT,
};

struct kinds;

/* The built-in rules only. -ENOMEM. */
TM_MUST_CHECK int kinds_new(struct kinds **ret_kinds, struct tm_error *err);
struct kinds *kinds_free(struct kinds *kinds);

/*
 * The rules in a file, before all that are there. -ENOENT, -EFBIG, -EINVAL with
 * the line and what is wrong in it; the rules are then as they were.
 */
TM_MUST_CHECK int kinds_read_file(struct kinds *kinds, const char *path, struct tm_error *err);
/* The same from memory; `name` is for messages. */
TM_MUST_CHECK int kinds_read(struct kinds *kinds, const char *name, const char *rules, size_t bytes,
			     struct tm_error *err);
/*
 * The user's own file, if there is one: $XDG_CONFIG_HOME/tidemark/kinds, else
 * ~/.config/tidemark/kinds. 0 also when there is none.
 */
TM_MUST_CHECK int kinds_read_default(struct kinds *kinds, struct tm_error *err);

/* A frame as a trace has it. */
struct kinds_frame {
	const char *function; /* demangled; NULL = unknown */
	const char *file;     /* of the source; NULL = unknown */
	const char *module;   /* path of the ELF file, "[vdso]", "[anonymous]" */
	bool jit;             /* the name came from a JIT: file and function are a script's */
};

struct kinds_answer {
	enum frame_kind kind;
	const char *package; /* never NULL, "" = unknown; lives as long as the struct kinds */
};

/* O(length of the names). Package "" when memory runs out. */
struct kinds_answer kinds_of(struct kinds *kinds, const struct kinds_frame *frame);

/* "allocator"; never NULL. */
const char *kinds_name(enum frame_kind kind);
/* The kind of that name; KIND_UNKNOWN if there is none. */
enum frame_kind kinds_find(const char *name, size_t bytes);
