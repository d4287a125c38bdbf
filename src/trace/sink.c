/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing thread. What it owns alone: the packed bytes, the end of the
 * sealed blocks, the journal. What it shares: the queue under the lock, and a
 * few numbers as atomics.
 *
 * A full or failing disk or a size limit of the system ends the events, keeps the
 * last whole block, gives the journal's room back and still tries to write the END.
 */
#include "trace/sink.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/memory.h"
#include "trace/block.h"
#include "trace/index.h"
#include "trace/sink_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* LATE: so many more, of batches without events. */
enum { SINK_QUEUE_BLOCKS = 16, SINK_QUEUE_SHORT = 3, SINK_QUEUE_LATE = 64 };
enum { SINK_PATIENCE_S = 15, SINK_IMPATIENCE_S = 1 };

static void set_error(struct sink *s, int code)
{
	int none = 0;
	atomic_compare_exchange_strong(&s->error, &none, code);
	atomic_store(&s->events_stopped, true);
}

/* The disk refused, or hung; a small block may still fit, or a device come back. */
static bool may_try_again(int code)
{
	return code == -ENOSPC || code == -EDQUOT || code == -EFBIG || code == -EIO ||
	       code == -ETIMEDOUT;
}

/* Count the events of a batch: all, or those that were left out when it was packed. */
static void count_unstored(struct sink *s, const struct sink_batch *batch, bool written)
{
	for (size_t i = 0; i < batch->count; i++) {
		const struct sink_part *part = &batch->parts[i];
		if (part->header.type == FORMAT_EVENTS && !batch->journal &&
		    !(written && part->packed))
			atomic_fetch_add(&s->unstored, part->header.count);
	}
}

static bool is_of_events(unsigned type)
{
	return type == FORMAT_EVENTS || type == FORMAT_ADDRESSES || type == FORMAT_ENDS;
}

/* Pack one block behind those packed; events that would exceed the limit are left out. */
static void pack_part(struct sink *s, struct sink_batch *batch, struct sink_part *part)
{
	bool events = is_of_events(part->header.type);
	if (events && (batch->bare || atomic_load(&s->events_stopped)))
		return;
	size_t before = s->packed.used;
	if (batch->journal)
		part->header.flags |= FORMAT_JOURNAL;
	part->header.sequence = batch->journal ? s->journal_sequence : s->sequence;
	if (part->raw.failed || part->raw.used > FORMAT_RAW_MAX) {
		set_error(s, part->raw.failed ? -ENOMEM : -EFBIG);
		return;
	}
	/* The journal is soon written over; and there is no use in small files when somebody waits.
	 */
	block_packer_hurry(s->zstd, batch->journal || (events && atomic_load(&s->hurried)));
	block_pack(s->zstd, s->file_id, &part->header, part->raw.data, part->raw.used, &s->packed);
	if (events && !batch->journal && s->max_bytes > 0 &&
	    s->sealed_end + s->packed.used > s->max_bytes) {
		s->packed.used = before;
		atomic_store(&s->events_stopped, true);
		return;
	}
	part->packed = true;
	if (batch->journal)
		s->journal_sequence++;
	else
		s->sequence++;
}

static void write_journal(struct sink *s, bool replace)
{
	if (s->journal_off)
		return;
	int rc = replace ? journal_replace(&s->journal, s->packed.data, s->packed.used,
					   s->sealed_end)
			 : journal_append(&s->journal, s->packed.data, s->packed.used,
					  s->sealed_end);
	/* No room so far out: sealed blocks may still fit, and say so themselves if not. */
	if (rc < 0)
		s->journal_off = true;
}

/* The last whole block stays the last; what the journal occupied is given back. */
static void cut_at_sealed_end(struct sink *s)
{
	uint64_t none = 0;
	size_t word = offsetof(struct format_file_header, journal_offset);
	int rc = io_pwrite(s->fd, &none, sizeof none, word);
	if (rc == 0 && ftruncate(s->fd, (off_t)s->sealed_end) < 0)
		rc = -errno;
	if (rc < 0)
		set_error(s, rc);
	s->journal.start = s->journal.end = 0;
	s->journal_off = true;
}

/* The disk is full: what the journal takes is room for sealed blocks. True: try again. */
static bool drop_journal(struct sink *s, int error)
{
	if ((error != -ENOSPC && error != -EDQUOT) || s->journal_off)
		return false;
	cut_at_sealed_end(s);
	return true;
}

static int write_sealed(struct sink *s)
{
	uint64_t end = s->sealed_end + s->packed.used;
	if (journal_make_way(&s->journal, end) < 0)
		cut_at_sealed_end(s);
	int rc = io_pwrite(s->fd, s->packed.data, s->packed.used, s->sealed_end);
	if (drop_journal(s, rc))
		rc = io_pwrite(s->fd, s->packed.data, s->packed.used, s->sealed_end);
	if (rc == 0) {
		s->sealed_end = end;
		atomic_store(&s->bytes, end);
		return 0;
	}
	set_error(s, rc);
	cut_at_sealed_end(s);
	return rc;
}

/* ---- where room is given back and used again ---- */

static void tell_room(struct sink *s)
{
	atomic_store(&s->bytes, s->sealed_end - s->room.gap_bytes);
	atomic_store(&s->folded, s->room.folded);
	atomic_store(&s->since_ns, room_since(&s->room));
	atomic_store(&s->covered, s->room.covered);
	atomic_store(&s->wants_slice, room_wants_slice(&s->room));
}

/* The packed block goes into a gap, or to the end. 0, 1: there is no room for it; -errno. */
static int place_part(struct sink *s, const struct sink_part *part, bool must_keep,
		      uint64_t *ret_offset)
{
	struct room *room = &s->room;
	uint64_t bytes = s->packed.used, offset;
	if (!room_place(room, bytes, must_keep, s->sealed_end, &offset))
		return 1;
	*ret_offset = offset;
	bool at_end = offset == s->sealed_end;
	if (at_end && journal_make_way(&s->journal, offset + bytes) < 0)
		cut_at_sealed_end(s);
	int rc = room_write(room, offset, s->packed.data, bytes, at_end);
	if (drop_journal(s, rc))
		rc = room_write(room, offset, s->packed.data, bytes, at_end);
	if (rc < 0)
		return rc;
	if (at_end)
		s->sealed_end += bytes;
	if (part->covers)
		room_cover(room, part->covers);
	return room_note(room, &part->header, offset, bytes);
}

/*
 * What ages made of older blocks is written, then they are given back: at any moment the file has
 * the one or the others. 1: there is no room for it.
 */
static int replace_blocks(struct sink *s, struct sink_part *part)
{
	struct sink_batch none = {0};
	uint64_t offset = 0;
	s->packed.used = 0;
	pack_part(s, &none, part);
	int rc = s->packed.failed || s->packed.used == 0 ? 1 : 0;
	if (rc == 0)
		rc = place_part(s, part, false, &offset);
	bool of_rows = part->header.type == FORMAT_MAPS || part->header.type == FORMAT_SAMPLES;
	if (rc == 0 && of_rows)
		rc = old_rows_replaced(&s->old, &s->room, &part->header, offset, s->packed.used);
	else if (rc == 0)
		rc = ages_replaced(&s->ages, &s->room, &part->header, offset, s->packed.used);
	bytes_done(&part->raw);
	return rc;
}

static int write_curve(struct sink *s, bool at_end)
{
	struct sink_part part = {0};
	if (!ages_curve(&s->ages, at_end, &part.header, &part.raw))
		return 0;
	int rc = replace_blocks(s, &part);
	return rc < 0 ? rc : 0;
}

/* Where old slices take too much room, they get coarser: a few at a time. */
static int merge_slices(struct sink *s)
{
	int rc = 0;
	for (int i = 0; i < AGES_STEPS && rc == 0; i++) {
		struct sink_part part = {0};
		enum ages_step step =
			ages_merge(&s->ages, &s->room, s->sealed_end, &part.header, &part.raw);
		if (step == AGES_NOTHING)
			break;
		if (step == AGES_FOLD)
			rc = room_fold_one(&s->room, &rc) ? rc : 1;
		else
			rc = replace_blocks(s, &part);
	}
	return rc < 0 ? rc : write_curve(s, false);
}

/* The same of other rows. */
static int merge_rows(struct sink *s)
{
	int rc = 0;
	for (int i = 0; i < AGES_STEPS && rc == 0; i++) {
		struct sink_part part = {0};
		if (!old_rows_merge(&s->old, &s->room, &part.header, &part.raw))
			break;
		rc = replace_blocks(s, &part);
	}
	return rc < 0 ? rc : 0;
}

/* One block after the other: what is referred to is whole before. */
static bool write_apart(struct sink *s, struct sink_batch *batch)
{
	int rc = 0;
	for (size_t i = 0; i < batch->count && rc >= 0; i++) {
		struct sink_part *part = &batch->parts[i];
		if (part->header.type == FORMAT_END)
			rc = write_curve(s, true);
		if (rc < 0)
			break;
		s->packed.used = 0;
		pack_part(s, batch, part);
		if (s->packed.used == 0 || s->packed.failed)
			continue;
		uint64_t offset = 0;
		rc = place_part(s, part, !is_of_events(part->header.type), &offset);
		part->packed = rc == 0;
		if (rc == 0) {
			ages_note(&s->ages, &part->header, &part->raw, offset, s->packed.used);
			old_rows_note(&s->old, &part->header, offset, s->packed.used);
		}
	}
	if (rc >= 0)
		rc = s->packed.failed ? -ENOMEM : room_fold(&s->room);
	if (rc >= 0)
		rc = merge_slices(s);
	if (rc >= 0)
		rc = merge_rows(s);
	tell_room(s);
	if (rc < 0) {
		set_error(s, rc);
		cut_at_sealed_end(s);
	}
	return rc >= 0;
}

/* Near the end of the disk: old events make room for new ones, or no more are stored. */
static void watch_disk(struct sink *s)
{
	space_watch(&s->space, s->fd, s->sealed_end, &s->space_low);
	s->room.no_growth = s->space_low;
	if (!s->space_low)
		return;
	atomic_store(&s->disk_low, true);
	drop_journal(s, -ENOSPC);
	if (!s->room.active)
		atomic_store(&s->events_stopped, true);
}

static bool has_end(const struct sink_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		if (batch->parts[i].header.type == FORMAT_END)
			return true;
	return false;
}

/* After an error the end is, and where one batch was not taken all that came before it. */
static bool is_to_write(const struct sink *s, const struct sink_batch *batch)
{
	int error = sink_error(s);
	return error == 0 || (error == -ETIMEDOUT && !batch->after_gap) ||
	       (may_try_again(error) && has_end(batch));
}

/* true: what was packed is in the file. */
static bool write_batch(struct sink *s, struct sink_batch *batch)
{
	if (!is_to_write(s, batch))
		return false;
	if (!batch->journal)
		watch_disk(s);
	if (s->room.active && !batch->journal) {
		bool apart = write_apart(s, batch);
		if (apart && batch->sync)
			syncer_ask(&s->syncer);
		return apart;
	}
	s->packed.used = 0;
	for (size_t i = 0; i < batch->count; i++)
		pack_part(s, batch, &batch->parts[i]);
	if (s->packed.failed) {
		set_error(s, -ENOMEM);
		return false;
	}
	bool written = true;
	if (s->packed.used > 0 && !batch->journal)
		written = write_sealed(s) == 0;
	if (written && batch->sync)
		syncer_ask(&s->syncer);
	if (s->packed.used == 0 || !batch->journal)
		return written;
	write_journal(s, batch->replace);
	return true;
}

/* The next batch, or NULL when there will be none. */
static struct sink_batch *take(struct sink *s)
{
	pthread_mutex_lock(&s->lock);
	while (!s->first && !s->stopping)
		pthread_cond_wait(&s->filled, &s->lock);
	struct sink_batch *batch = s->first;
	if (batch) {
		s->first = batch->next;
		if (!s->first)
			s->last = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	return batch;
}

static int write_index(struct sink *s)
{
	s->packed.used = 0;
	int rc = index_build(s->fd, s->file_id, s->sealed_end, s->zstd, &s->packed);
	if (rc == 0)
		rc = journal_make_way(&s->journal, s->sealed_end + s->packed.used);
	if (rc == 0)
		rc = io_pwrite(s->fd, s->packed.data, s->packed.used, s->sealed_end);
	if (rc == 0)
		s->sealed_end += s->packed.used;
	return rc;
}

/* The file's end; also after the disk was full, where the journal's room may be enough for it. */
static void finish(struct sink *s)
{
	int error = sink_error(s);
	if (error < 0 && !may_try_again(error))
		return;
	int rc = write_index(s);
	/* All is sealed: what the journal takes is room for the index. */
	if (drop_journal(s, rc))
		rc = write_index(s);
	if (rc < 0)
		set_error(s, rc);
	cut_at_sealed_end(s);
}

static void *run(void *argument)
{
	struct sink *s = argument;
	for (;;) {
		struct sink_batch *batch = take(s);
		if (!batch) {
			finish(s);
			return NULL;
		}
		count_unstored(s, batch, write_batch(s, batch));
		sink_batch_free(batch);
		pthread_mutex_lock(&s->lock);
		s->queued--;
		pthread_cond_signal(&s->drained);
		pthread_mutex_unlock(&s->lock);
	}
}

/* Fewer than this in the queue, or false after so long. Called with the lock held. */
static bool wait_for_fewer(struct sink *s, uint32_t batches, int seconds)
{
	struct timespec deadline;
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += seconds;
	while (s->queued >= batches)
		if (pthread_cond_timedwait(&s->drained, &s->lock, &deadline) == ETIMEDOUT)
			return s->queued < batches;
	return true;
}

void sink_drain(struct sink *s)
{
	pthread_mutex_lock(&s->lock);
	wait_for_fewer(s, 1, SINK_PATIENCE_S);
	pthread_mutex_unlock(&s->lock);
}

void sink_shrink(struct sink *s)
{
	pthread_mutex_lock(&s->lock);
	if (s->queue_blocks > SINK_QUEUE_SHORT)
		s->queue_blocks = SINK_QUEUE_SHORT;
	s->no_spares = true;
	sink_drop_spares(s);
	pthread_mutex_unlock(&s->lock);
}

void sink_hurry(struct sink *s, bool hurried)
{
	atomic_store_explicit(&s->hurried, hurried, memory_order_relaxed);
}

/*
 * The program waits with us: for a disk that hangs once, not for every block again. From then on
 * events are counted and not stored; the rest is small, and waits for the disk without the program.
 * Called with the lock held.
 */
static bool make_room(struct sink *s, const struct sink_batch *batch)
{
	if (!atomic_load(&s->late)) {
		if (wait_for_fewer(s, s->queue_blocks, SINK_PATIENCE_S))
			return true;
		atomic_store(&s->late, true);
	}
	return wait_for_fewer(s, s->queue_blocks + SINK_QUEUE_LATE,
			      has_end(batch) ? SINK_PATIENCE_S : SINK_IMPATIENCE_S);
}

/* Its events are not written: their memory is free. */
static void make_bare(struct sink_batch *batch)
{
	batch->bare = true;
	for (size_t i = 0; i < batch->count; i++)
		if (is_of_events(batch->parts[i].header.type))
			bytes_done(&batch->parts[i].raw);
}

int sink_put(struct sink *s, struct sink_batch *batch)
{
	if (!batch) {
		set_error(s, -ENOMEM);
		return sink_error(s);
	}
	pthread_mutex_lock(&s->lock);
	bool refused = batch->journal ? s->queued >= s->queue_blocks : !make_room(s, batch);
	if (atomic_load(&s->late))
		make_bare(batch);
	batch->after_gap = sink_error(s) == -ETIMEDOUT;
	if (!refused) {
		if (s->last)
			s->last->next = batch;
		else
			s->first = batch;
		s->last = batch;
		s->queued++;
		pthread_cond_signal(&s->filled);
	}
	pthread_mutex_unlock(&s->lock);
	if (refused && batch->journal) {
		sink_batch_free(batch);
		return -EAGAIN;
	}
	if (refused) {
		set_error(s, -ETIMEDOUT);
		count_unstored(s, batch, false);
		sink_batch_free(batch);
	}
	return sink_error(s);
}

static int write_file_header(struct sink *s)
{
	struct format_file_header header;
	int rc = io_random(&s->file_id, sizeof s->file_id);
	if (rc)
		return rc;
	block_file_header_init(&header, s->file_id);
	header.reuse = s->room.active;
	s->room.fd = s->fd;
	s->room.file_id = s->file_id;
	s->sealed_end = sizeof header;
	atomic_store(&s->bytes, sizeof header);
	return io_pwrite(s->fd, &header, sizeof header, 0);
}

/*
 * A record lock says that somebody writes: readers of a file without an end tell by it whether one
 * will come (source_is_written). Unlike other locks it does not live on in forked processes.
 */
static void hold(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	(void)fcntl(fd, F_SETLK, &whole); /* where there are no locks nobody can tell */
}

/* The thread takes no signal: a file size limit then shows as an error, not as SIGXFSZ. */
static int start_thread(struct sink *s)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static void release(struct sink *s)
{
	syncer_done(&s->syncer);
	bytes_done(&s->packed);
	sink_drop_spares(s);
	room_done(&s->room);
	ages_done(&s->ages);
	old_rows_done(&s->old);
	ZSTD_freeCCtx(s->zstd);
	pthread_cond_destroy(&s->filled);
	pthread_cond_destroy(&s->drained);
	pthread_mutex_destroy(&s->lock);
	close(s->fd);
	tm_free(s);
}

static void init_locks(struct sink *s)
{
	pthread_condattr_t steady;
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->filled, NULL);
	pthread_cond_init(&s->drained, &steady);
	pthread_condattr_destroy(&steady);
}

int sink_open(int fd, const struct trace_writer_options *options, struct sink **ret_sink,
	      struct tm_error *err)
{
	struct sink *s = tm_alloc(sizeof *s);
	if (!s) {
		close(fd);
		return tm_fail(err, -ENOMEM, "There is no memory to write a trace");
	}
	s->fd = s->journal.fd = fd;
	syncer_init(&s->syncer, fd);
	hold(fd);
	s->max_bytes = options->max_bytes;
	s->room = (struct room){.active = options->retain_ns || options->retain_bytes,
				.keep_ns = options->retain_ns,
				.limit_bytes = options->retain_bytes};
	s->old.restate = options->restate;
	s->queue_blocks = options->queue_blocks ? options->queue_blocks : SINK_QUEUE_BLOCKS;
	init_locks(s);
	s->zstd = block_packer();
	int rc = s->zstd ? write_file_header(s) : -ENOMEM;
	if (rc == 0)
		rc = start_thread(s);
	if (rc < 0) {
		release(s);
		return tm_fail(err, rc, "The trace file cannot be written: %s", strerror(-rc));
	}
	*ret_sink = s;
	return 0;
}

int sink_close(struct sink *s, struct tm_error *err)
{
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_signal(&s->filled);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	int rc = sink_error(s);
	if (rc == -ETIMEDOUT)
		tm_fail(err, rc, "The trace file is not complete: the disk hung");
	else if (rc < 0)
		tm_fail(err, rc, "The trace file is not complete: %s", strerror(-rc));
	release(s);
	return rc;
}
