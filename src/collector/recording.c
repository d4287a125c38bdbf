/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/recording.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "collector/output.h"
#include "model/maps_restate.h"

struct recording {
	char *path;
	struct replaced replaced;    /* until there is something to put in its place */
	struct trace_writer *writer; /* of the thread; NULL once it is being closed: under lock */
	pthread_t thread;
	bool finished;     /* the thread is joined */
	_Atomic bool done; /* the thread has closed the file */
	uint64_t bytes;    /* once finished */
	uint64_t device, inode;
	int error; /* the thread's: valid once it is done */
	struct tm_error why;
	pthread_mutex_t lock; /* for the queue below */
	pthread_cond_t changed;
	struct section **sections;
	size_t section_count, section_room, section_done;
	bool closing; /* nothing will be added */
};

/* The next section to run, or NULL when there is none and none will come. */
static struct section *next_section(struct recording *recording)
{
	struct section *next = NULL;
	pthread_mutex_lock(&recording->lock);
	while (recording->section_done == recording->section_count && !recording->closing)
		pthread_cond_wait(&recording->changed, &recording->lock);
	if (recording->section_done < recording->section_count)
		next = recording->sections[recording->section_done++];
	pthread_mutex_unlock(&recording->lock);
	return next;
}

static void close_file(struct recording *recording)
{
	struct tm_error why = {0};
	pthread_mutex_lock(&recording->lock); /* who asks for its size must not meet its end */
	struct trace_writer *writer = recording->writer;
	recording->writer = NULL;
	pthread_mutex_unlock(&recording->lock);
	int error = trace_writer_close(writer, &why);
	if (error) {
		recording->error = error;
		recording->why = why;
	}
}

static void *run(void *arg)
{
	struct recording *recording = arg;
	struct section *last = NULL;
	for (struct section *section; (section = next_section(recording)); last = section) {
		struct tm_error err = {0};
		section_follow(section, last);
		int error = section_run(section, recording->writer, &err);
		if (error && !recording->error) {
			recording->error = error;
			recording->why = err;
		}
	}
	for (size_t i = 0; i < recording->section_done; i++)
		section_finish_names(recording->sections[i], recording->writer);
	close_file(recording);
	for (size_t i = 0; i < recording->section_done; i++)
		section_settle(recording->sections[i]);
	/* Pairs with the acquire in recording_is_done(). */
	atomic_store_explicit(&recording->done, true, memory_order_release);
	return NULL;
}

/* The file that was made for it holds nothing. */
static int give_up(const struct recording_options *options, int error)
{
	struct replaced replaced = options->replaced;
	if (replaced.aside)
		replaced_undo(&replaced);
	else
		unlink(options->path);
	return error;
}

int recording_new(const struct recording_options *options, struct recording **ret_recording,
		  struct tm_error *err)
{
	tm_map_large_blocks(TM_LARGE_FOR_WEEKS);
	struct recording *recording = tm_alloc(sizeof *recording);
	char *path = tm_strdup(options->path);
	if (!recording || !path) {
		close(options->fd);
		tm_free(recording);
		tm_free(path);
		return give_up(options, tm_fail(err, -ENOMEM, "out of memory for the recording"));
	}
	recording->path = path;
	recording->replaced = options->replaced;
	struct stat facts;
	if (!fstat(options->fd, &facts)) {
		recording->device = facts.st_dev;
		recording->inode = facts.st_ino;
	}
	struct trace_writer_options writer = {.addresses = options->addresses,
					      .max_bytes = options->max_bytes,
					      .retain_ns = options->retain_ns,
					      .retain_bytes = options->retain_bytes,
					      .restate = maps_restate};
	int error = trace_writer_open(options->fd, &writer, &recording->writer, err);
	if (!error) {
		pthread_mutex_init(&recording->lock, NULL);
		pthread_cond_init(&recording->changed, NULL);
		error = -pthread_create(&recording->thread, NULL, run, recording);
		if (error) {
			tm_fail(err, error, "cannot start a thread: %s", strerror(-error));
			trace_writer_close(recording->writer, NULL);
		}
	}
	if (error) {
		tm_free(path);
		tm_free(recording);
		return give_up(options, error);
	}
	*ret_recording = recording;
	return 0;
}

int recording_add(struct recording *recording, struct section *section, struct tm_error *err)
{
	int error = 0;
	pthread_mutex_lock(&recording->lock);
	if (recording->section_count == recording->section_room) {
		size_t room = recording->section_room ? recording->section_room * 2 : 4;
		struct section **grown = tm_grow_array(recording->sections, room, sizeof *grown);
		if (grown) {
			recording->sections = grown;
			recording->section_room = room;
		} else {
			error = -ENOMEM;
		}
	}
	if (!error) {
		recording->sections[recording->section_count++] = section;
		pthread_cond_signal(&recording->changed);
	}
	pthread_mutex_unlock(&recording->lock);
	if (error)
		return tm_fail(err, error, "out of memory for another image");
	replaced_commit(&recording->replaced);
	return 0;
}

/* Sections are added by the main thread only, which asks. */
bool recording_awaits(struct recording *recording, const struct recording *parent)
{
	for (size_t i = 0; i < recording->section_count; i++) {
		const struct section *awaited = section_awaits(recording->sections[i]);
		for (size_t k = 0; awaited && k < parent->section_count; k++)
			if (parent->sections[k] == awaited)
				return true;
	}
	return false;
}

struct section *recording_section(const struct recording *recording)
{
	size_t count = recording->section_count;
	return count ? recording->sections[count - 1] : NULL;
}

uint64_t recording_earlier_events(const struct recording *recording)
{
	uint64_t events = 0;
	for (size_t i = 0; i + 1 < recording->section_count; i++)
		events += section_result(recording->sections[i])->totals.events;
	return events;
}

void recording_close(struct recording *recording)
{
	pthread_mutex_lock(&recording->lock);
	recording->closing = true;
	pthread_cond_signal(&recording->changed);
	pthread_mutex_unlock(&recording->lock);
}

bool recording_is_done(const struct recording *recording)
{
	return atomic_load_explicit(&recording->done, memory_order_acquire);
}

int recording_finish(struct recording *recording, struct tm_error *err)
{
	if (!recording->finished) {
		struct stat facts;
		recording_close(recording);
		pthread_join(recording->thread, NULL);
		recording->finished = true;
		if (stat(recording->path, &facts) == 0)
			recording->bytes = (uint64_t)facts.st_size;
	}
	if (recording->error && err)
		*err = recording->why;
	return recording->error;
}

const char *recording_path(const struct recording *recording)
{
	return recording->path;
}

int recording_rename(struct recording *recording, const char *path)
{
	char *copy = tm_strdup(path);
	if (!copy)
		return -ENOMEM;
	if (rename(recording->path, path)) {
		int error = -errno;
		tm_free(copy);
		return error;
	}
	tm_free(recording->path);
	recording->path = copy;
	return 0;
}

uint64_t recording_written(const struct recording *recording)
{
	struct recording *unlocked = (struct recording *)recording;
	pthread_mutex_lock(&unlocked->lock);
	uint64_t bytes =
		recording->writer ? trace_writer_bytes(recording->writer) : recording->bytes;
	pthread_mutex_unlock(&unlocked->lock);
	return bytes;
}

uint64_t recording_folded(const struct recording *recording)
{
	struct recording *unlocked = (struct recording *)recording;
	pthread_mutex_lock(&unlocked->lock);
	uint64_t folded = recording->writer ? trace_writer_folded(recording->writer) : 0;
	pthread_mutex_unlock(&unlocked->lock);
	return folded;
}

void recording_identity(const struct recording *recording, uint64_t *ret_device,
			uint64_t *ret_inode)
{
	*ret_device = recording->device;
	*ret_inode = recording->inode;
}

uint64_t recording_bytes(const struct recording *recording)
{
	return recording->bytes;
}

bool recording_closed(const struct recording *recording)
{
	return recording->closing;
}

/* With --force its name may be a link that leads to the file: then both go. */
static void remove_file(const struct recording *recording)
{
	char real[PATH_MAX], any;
	if (realpath(recording->path, real) &&
	    output_remove(real, recording->device, recording->inode) &&
	    readlink(recording->path, &any, 1) > 0)
		unlink(recording->path);
}

void recording_remove(struct recording *recording)
{
	recording_finish(recording, NULL);
	if (recording->replaced.aside)
		replaced_undo(&recording->replaced);
	else
		remove_file(recording);
}

struct recording *recording_discard(struct recording *recording)
{
	if (recording)
		recording_remove(recording);
	return recording_free(recording);
}

struct recording *recording_free(struct recording *recording)
{
	if (!recording)
		return NULL;
	replaced_commit(&recording->replaced);
	for (size_t i = 0; i < recording->section_count; i++)
		section_free(recording->sections[i]);
	tm_free(recording->sections);
	pthread_mutex_destroy(&recording->lock);
	pthread_cond_destroy(&recording->changed);
	tm_free(recording->path);
	return tm_free(recording);
}
