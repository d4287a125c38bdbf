/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose code a frame is, told by the path of its source, else by its function's
 * name, else by its module: a Rust crate, a C or C++ library, an npm package, a
 * Nim module.
 */
#pragma once

#include "symbols/kinds.h"

enum { PACKAGE_NAME_MAX = 128 };

struct package {
	char name[PACKAGE_NAME_MAX]; /* "" = unknown */
	enum frame_kind kind;        /* what it is if no rule says more; never an allocator */
};

/* O(length of the names). */
void package_of(const struct kinds_frame *frame, struct package *ret_package);

/* Base name of a path; the path itself if it has no slash. Points into it. */
const char *package_base_name(const char *path);
