/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from the thread that makes an answer to the one that sends it, with a
 * bound: a slow client makes the maker wait, never the memory grow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pipe_out;

/* NULL when there is no memory. Has two ends; each is released once. */
struct pipe_out *pipe_new(void);

/* Maker: waits for room. -EPIPE: the reader is gone. */
int pipe_write(struct pipe_out *pipe, const void *data, size_t bytes);
/* Maker: what was written is not whole, and the reader is to know. */
void pipe_fail(struct pipe_out *pipe);
/* Maker: nothing more comes. Releases its end. */
void pipe_close_writer(struct pipe_out *pipe);

/* Reader: waits for at least one byte. 0: the end. */
size_t pipe_read(struct pipe_out *pipe, void *data, size_t room);
/* Reader: after the end: whether what was read is not whole. */
bool pipe_has_failed(struct pipe_out *pipe);
/* Reader: does not want more. Releases its end. */
void pipe_close_reader(struct pipe_out *pipe);
/* Maker: whether the reader has left. */
bool pipe_is_left(struct pipe_out *pipe);
