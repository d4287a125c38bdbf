/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pipe.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"

enum { ROOM_BYTES = 256 * 1024 };

struct pipe_out {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool writer_gone, reader_gone, failed;
	size_t first, count; /* a ring */
	char data[ROOM_BYTES];
};

struct pipe_out *pipe_new(void)
{
	struct pipe_out *pipe = tm_alloc(sizeof *pipe);
	if (!pipe)
		return NULL;
	pthread_mutex_init(&pipe->lock, NULL);
	pthread_cond_init(&pipe->changed, NULL);
	return pipe;
}

/* With the lock held, which is released; frees the pipe when both ends are gone. */
static void leave(struct pipe_out *pipe)
{
	bool last = pipe->writer_gone && pipe->reader_gone;
	pthread_cond_broadcast(&pipe->changed);
	pthread_mutex_unlock(&pipe->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&pipe->lock);
	pthread_cond_destroy(&pipe->changed);
	tm_free(pipe);
}

static size_t put(struct pipe_out *pipe, const char *data, size_t bytes)
{
	size_t at = (pipe->first + pipe->count) % ROOM_BYTES;
	size_t room = ROOM_BYTES - pipe->count, to_end = ROOM_BYTES - at;
	size_t now = bytes < room ? bytes : room;
	size_t head = now < to_end ? now : to_end;
	memcpy(pipe->data + at, data, head);
	memcpy(pipe->data, data + head, now - head);
	pipe->count += now;
	return now;
}

int pipe_write(struct pipe_out *pipe, const void *data, size_t bytes)
{
	const char *at = data;
	pthread_mutex_lock(&pipe->lock);
	while (bytes && !pipe->reader_gone) {
		if (pipe->count == ROOM_BYTES) {
			pthread_cond_wait(&pipe->changed, &pipe->lock);
			continue;
		}
		size_t done = put(pipe, at, bytes);
		at += done;
		bytes -= done;
		pthread_cond_broadcast(&pipe->changed);
	}
	int code = pipe->reader_gone ? -EPIPE : 0;
	pthread_mutex_unlock(&pipe->lock);
	return code;
}

void pipe_close_writer(struct pipe_out *pipe)
{
	pthread_mutex_lock(&pipe->lock);
	pipe->writer_gone = true;
	leave(pipe);
}

size_t pipe_read(struct pipe_out *pipe, void *data, size_t room)
{
	pthread_mutex_lock(&pipe->lock);
	while (!pipe->count && !pipe->writer_gone)
		pthread_cond_wait(&pipe->changed, &pipe->lock);
	size_t to_end = ROOM_BYTES - pipe->first;
	size_t bytes = pipe->count < room ? pipe->count : room;
	bytes = bytes < to_end ? bytes : to_end;
	memcpy(data, pipe->data + pipe->first, bytes);
	pipe->first = (pipe->first + bytes) % ROOM_BYTES;
	pipe->count -= bytes;
	pthread_cond_broadcast(&pipe->changed);
	pthread_mutex_unlock(&pipe->lock);
	return bytes;
}

void pipe_close_reader(struct pipe_out *pipe)
{
	pthread_mutex_lock(&pipe->lock);
	pipe->reader_gone = true;
	leave(pipe);
}

bool pipe_is_left(struct pipe_out *pipe)
{
	pthread_mutex_lock(&pipe->lock);
	bool left = pipe->reader_gone;
	pthread_mutex_unlock(&pipe->lock);
	return left;
}

void pipe_fail(struct pipe_out *pipe)
{
	pthread_mutex_lock(&pipe->lock);
	pipe->failed = true;
	pthread_mutex_unlock(&pipe->lock);
}

bool pipe_has_failed(struct pipe_out *pipe)
{
	pthread_mutex_lock(&pipe->lock);
	bool failed = pipe->failed;
	pthread_mutex_unlock(&pipe->lock);
	return failed;
}
