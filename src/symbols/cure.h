/* SPDX-License-Identifier: Apache-2.0 */
/* What would give the functions of a module their names and lines. */
#pragma once

#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>

enum cure {
	CURE_NONE,
	CURE_NODE,    /* JavaScript without a map */
	CURE_JAVA,    /* the same of a Java machine */
	CURE_JIT,     /* code that a program made itself */
	CURE_MAP,     /* the same, where its map names other code */
	CURE_ADDON,   /* a native addon of node */
	CURE_PACKAGE, /* of the distribution: debug symbols are a package */
	CURE_RUST,
	CURE_BUILD, /* build it with debug information */
};

/* What its frames tell of a module. */
struct cure_signs {
	bool rust;
	bool mapped; /* one has a name by a map that the program wrote */
};

/* module: path, "[anonymous]". modules: all of the section, [0] unused. O(modules). */
enum cure cure_of(const char *module, struct cure_signs signs, const struct trace_module *modules,
		  size_t module_count);
/* Is a function of this name (NULL: unknown) from this file (likewise) Rust's? */
bool cure_is_rust(const char *function, const char *file);

/* What to do, as a sentence without its full stop. */
const char *cure_text(enum cure cure);
