/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a file, unpacked as they are needed. gzip (several members) and
 * zstd (several frames) are seen by their content.
 *
 * A packed file that ends early or is damaged simply ends: input_problem() says
 * why, and what came before can be used.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_input;

enum {
	INPUT_PEEK_MAX = 1 << 20, /* that can be seen at once; a longer line is an error */
};

/* Borrows fd, which must be seekable; reads from its start. */
TM_MUST_CHECK int input_open(int fd, struct import_input **ret_input, struct tm_error *err);
struct import_input *input_close(struct import_input *in);
/* From the start again. */
TM_MUST_CHECK int input_rewind(struct import_input *in, struct tm_error *err);

/*
 * The bytes that come next, at least `want` of them (up to INPUT_PEEK_MAX) unless
 * the file ends before; *ret_data is valid until the next call. 0 at the end.
 */
size_t input_peek(struct import_input *in, size_t want, const char **ret_data);
/* Goes on by so many of the bytes that were seen. */
void input_take(struct import_input *in, size_t bytes);
/* Skips bytes, seen or not. False: it ended before. */
bool input_skip(struct import_input *in, uint64_t bytes);
/*
 * The next line without its LF (the last may have none); valid until the next
 * call. 1, or 0 at the end, or -E2BIG: longer than INPUT_PEEK_MAX.
 */
int input_line(struct import_input *in, const char **ret_line, size_t *ret_length);

/* Unpacked bytes so far, as taken; bytes of the file so far, as read; bytes of the file. */
uint64_t input_position(const struct import_input *in);
uint64_t input_packed_position(const struct import_input *in);
uint64_t input_packed_bytes(const struct import_input *in);
/* Why it ended before its end, or cannot be read; NULL: it did not. */
const char *input_problem(const struct import_input *in);
/* By gzip or zstd. */
bool input_is_packed(const struct import_input *in);
