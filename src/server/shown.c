/* SPDX-License-Identifier: Apache-2.0 */
#include "server/shown.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/kept.h"
#include "server/look.h"

/* A growing file is read anew at most so often. */
#define REFRESH_NS 500000000ull

struct held {                     /* the facts with what keeps them alive */
	struct shown_facts facts; /* first: callers have a pointer to it */
	pthread_mutex_t lock;
	_Atomic unsigned users;
};

/* What tells a file from another, and from itself when it has grown. */
struct file_facts {
	uint64_t device, inode, bytes;
	int64_t changed_s;
	long changed_ns;
};

struct shown {
	const char *path;
	pthread_mutex_t lock;
	struct held *held;      /* NULL = not read */
	struct file_facts file; /* when it was read */
	uint64_t read_ns;       /* when that was */
	const struct shown_watcher *watcher;
	uint64_t version;
	_Atomic int state; /* enum shown_state */
	_Atomic uint64_t done, total;
	_Atomic bool cancelled;
};

const char *shown_state_name(enum shown_state state)
{
	static const char *const names[] = {
		[SHOWN_CLOSED] = "closed",
		[SHOWN_LOADING] = "loading",
		[SHOWN_READY] = "ready",
		[SHOWN_FAILED] = "failed",
	};
	return names[state];
}

struct shown *shown_new(const char *path, const struct shown_watcher *watcher)
{
	struct shown *shown = tm_alloc(sizeof *shown);
	if (!shown)
		return NULL;
	shown->path = path;
	shown->watcher = watcher;
	pthread_mutex_init(&shown->lock, NULL);
	return shown;
}

void shown_leave(struct shown_facts *facts)
{
	struct held *held = (struct held *)facts;
	if (!held || atomic_fetch_sub(&held->users, 1) != 1)
		return;
	kept_free(facts->kept);
	looks_free(facts->looks);
	view_data_free(facts->data);
	query_close(facts->section);
	trace_reader_close(facts->reader);
	pthread_mutex_destroy(&held->lock);
	tm_free(held);
}

struct shown *shown_free(struct shown *shown)
{
	if (!shown)
		return NULL;
	if (shown->held)
		shown_leave(&shown->held->facts);
	pthread_mutex_destroy(&shown->lock);
	return tm_free(shown);
}

enum shown_state shown_state(const struct shown *shown)
{
	return (enum shown_state)atomic_load(&shown->state);
}

void shown_progress(const struct shown *shown, uint64_t *ret_done, uint64_t *ret_total)
{
	*ret_done = atomic_load(&shown->done);
	*ret_total = atomic_load(&shown->total);
}

void shown_cancel(struct shown *shown)
{
	if (shown_state(shown) == SHOWN_LOADING)
		atomic_store(&shown->cancelled, true);
}

static int on_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct shown *shown = ctx;
	atomic_store(&shown->done, done);
	atomic_store(&shown->total, total);
	if (shown->watcher && shown->watcher->fn)
		shown->watcher->fn(shown->watcher->ctx, shown->path, done, total);
	return atomic_load(&shown->cancelled) ? -ECANCELED : 0;
}

/* `ticks` of what was read before of the same file; NULL: none. */
static int load(struct shown *shown, struct shown_facts *facts, struct tick_store *ticks,
		struct tm_error *err)
{
	const struct query_open_options options = {.progress = {.fn = on_progress, .ctx = shown},
						   .ticks = ticks};
	int code = trace_reader_open(facts->path, &facts->reader, err);
	if (!code && !trace_reader_section_count(facts->reader))
		code = tm_fail(err, -ENODATA,
			       "'%s' holds no recording yet: nothing was written to it so far",
			       facts->path);
	if (!code)
		code = query_open(facts->reader, &options, &facts->section, err);
	if (!code)
		code = view_input_read(facts->reader, &facts->input, err);
	if (code)
		return code;
	facts->input.model = query_model(facts->section);
	facts->complete = trace_reader_complete(facts->reader);
	facts->version = ++shown->version;
	model_totals(facts->input.model, &facts->totals);
	facts->kept = kept_new();
	facts->looks = looks_new();
	if (!facts->looks)
		return tm_fail(err, -ENOMEM, "no memory for '%s'", facts->path);
	return view_data_new(&facts->input, &facts->data, err);
}

/* False: it is not there. */
static bool file_facts(const char *path, struct file_facts *ret)
{
	struct stat status;
	if (stat(path, &status))
		return false;
	*ret = (struct file_facts){.device = status.st_dev,
				   .inode = status.st_ino,
				   .bytes = (uint64_t)status.st_size,
				   .changed_s = status.st_mtim.tv_sec,
				   .changed_ns = status.st_mtim.tv_nsec};
	return true;
}

/* There is more of the file by now, or another in its place. */
static bool is_stale(const struct shown *shown)
{
	const struct file_facts *then = &shown->file;
	struct file_facts now;
	if (!shown->held)
		return true;
	if (clock_steady_ns() - shown->read_ns < REFRESH_NS || !file_facts(shown->path, &now))
		return false;
	return now.device != then->device || now.inode != then->inode || now.bytes != then->bytes ||
	       now.changed_s != then->changed_s || now.changed_ns != then->changed_ns;
}

static void forget(struct shown *shown)
{
	if (shown->held)
		shown_leave(&shown->held->facts);
	shown->held = NULL;
	atomic_store(&shown->state, SHOWN_CLOSED);
}

/* Of the file that was read, if it has only grown since; NULL: it is another. */
static struct tick_store *keep_ticks(const struct shown *shown)
{
	struct file_facts now;
	if (!shown->held || !file_facts(shown->path, &now) || now.inode != shown->file.inode ||
	    now.device != shown->file.device || now.bytes < shown->file.bytes)
		return NULL;
	return query_keep_ticks(shown->held->facts.section);
}

static int read_file(struct shown *shown, struct tm_error *err)
{
	struct held *held = tm_alloc(sizeof *held);
	if (!held)
		return tm_fail(err, -ENOMEM, "no memory for '%s'", shown->path);
	struct tick_store *ticks = keep_ticks(shown);
	held->facts.path = shown->path;
	atomic_store(&held->users, 1);
	pthread_mutex_init(&held->lock, NULL);
	forget(shown);
	atomic_store(&shown->cancelled, false);
	atomic_store(&shown->done, 0);
	atomic_store(&shown->total, 0);
	atomic_store(&shown->state, SHOWN_LOADING);
	shown->file = (struct file_facts){0};
	(void)file_facts(shown->path, &shown->file);
	held->facts.changed_unix_ns = shown->file.changed_s * 1000000000 + shown->file.changed_ns;
	int code = load(shown, &held->facts, ticks, err);
	query_drop_ticks(ticks);
	shown->read_ns = clock_steady_ns();
	if (shown->watcher && shown->watcher->fn && atomic_load(&shown->total))
		shown->watcher->fn(shown->watcher->ctx, shown->path, 1, 1);
	atomic_store(&shown->state, code ? SHOWN_FAILED : SHOWN_READY);
	if (code)
		shown_leave(&held->facts);
	else
		shown->held = held;
	return code;
}

int shown_enter(struct shown *shown, struct shown_facts **ret_facts, struct tm_error *err)
{
	pthread_mutex_lock(&shown->lock);
	int code = is_stale(shown) ? read_file(shown, err) : 0;
	if (!code) {
		atomic_fetch_add(&shown->held->users, 1);
		*ret_facts = &shown->held->facts;
	}
	pthread_mutex_unlock(&shown->lock);
	return code;
}

void shown_lock(struct shown_facts *facts)
{
	pthread_mutex_lock(&((struct held *)facts)->lock);
}

void shown_unlock(struct shown_facts *facts)
{
	pthread_mutex_unlock(&((struct held *)facts)->lock);
}

void shown_close_idle(struct shown *shown)
{
	if (pthread_mutex_trylock(&shown->lock))
		return;
	forget(shown);
	pthread_mutex_unlock(&shown->lock);
}
