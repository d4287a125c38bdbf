/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a program that is about to be executed. Where LD_PRELOAD
 * has been replaced or taken away (a script that wants jemalloc, env -i), or
 * TIDEMARK_SESSION has gone with the rest, they are put back: ours in front of
 * what LD_PRELOAD says, everything else as it is. A program that would not be
 * recorded gets what it is given; so does one whose TIDEMARK_SESSION is there and
 * says something else: an empty one leaves a program out.
 *
 * The caller gives the room, on its stack: a child of vfork comes by.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Is what this process executes, or (spawn) starts, recorded by its session? */
bool preload_wanted(bool spawn);
/* Bytes that preload_put() needs; 0: it stays as it is, or cannot be read. envp may be NULL. */
size_t preload_room(char *const *envp);
/* The list, in `room` bytes at `memory` (aligned to 8). It points to the old one's texts. */
char *const *preload_put(char *const *envp, void *memory, size_t room);
