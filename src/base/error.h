/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One small error value. It carries the sentence a user will read, and never
 * allocates, so that it can report that memory has run out.
 */
#pragma once

struct tm_error {
	int code;       /* 0 or -errno */
	char text[400]; /* a whole sentence: what happened, to what, what to do */
};

#define TM_MUST_CHECK __attribute__((warn_unused_result))

/*
 * Write the sentence into *err (which may be NULL) and return code, so that a
 * caller can say: return tm_fail(err, -EBADMSG, "'%s': ...", path);
 * An overlong sentence is cut. Thread-safe; keeps errno.
 */
int tm_fail(struct tm_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* clang's analyser sees one file at a time, and must be told that what fails is not 0. */
#ifdef __clang_analyzer__
#define tm_fail(err, code, ...) (tm_fail(err, code, __VA_ARGS__), (code))
#endif
