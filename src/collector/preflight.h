/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can this program be recorded? Looked at before it is started, so that the
 * answer is a sentence and not an empty trace.
 */
#pragma once

#include "base/error.h"
#include "collector/patching.h"

#include <stdbool.h>

enum preflight_verdict {
	PREFLIGHT_GOOD = 0,
	PREFLIGHT_NOT_FOUND,      /* 127 */
	PREFLIGHT_NOT_EXECUTABLE, /* 126 */
	PREFLIGHT_UNRECORDABLE,   /* it would run, but not be seen */
};

struct preflight {
	char *path;  /* the file that is executed; tm_free() it */
	char *image; /* the program behind it: the interpreter of a script; tm_free() it */
	bool script;
	char sanitizer[64]; /* the run-time library of a sanitizer that must be first, or "" */
	bool is_static; /* no loader will bring the agent in: it must be entered (inject/enter.h) */
	char unhooked[PATCHING_UNHOOKED_BYTES]; /* is_static: what cannot be hooked, or "" */
};

/*
 * Finds the program as a shell would (PATH, unless there is a slash in it) and
 * looks at the file, and at the interpreter if it is a script. The sentence is
 * in err for all but PREFLIGHT_GOOD. hooks: the user's own, may be NULL. *ret is filled as far as
 * known; call preflight_done() in any case.
 */
enum preflight_verdict preflight_check(const char *program, const struct plan_hooks *hooks,
				       struct preflight *ret, struct tm_error *err);
void preflight_done(struct preflight *preflight);
