/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files in which a recording goes on (rotation): a trace that was named alone
 * brings its next pieces along. They lie beside it, are named alike, and say that
 * they are of the same series. Not thread-safe.
 */
#pragma once

#include <stddef.h>

struct pieces;

/* NULL without memory. */
struct pieces *pieces_new(void);
struct pieces *pieces_free(struct pieces *pieces);
/* Looks for pieces of this file from now on. 0 or -ENOMEM. */
int pieces_watch(struct pieces *pieces, const char *path);

typedef void (*piece_fn)(void *ctx, const char *path);
/* Tells each piece once; looks at most once a second. */
void pieces_look(struct pieces *pieces, piece_fn fn, void *ctx);
