/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's half of writing: records become columns here, and columns
 * become batches for the writing thread (sink.c).
 *
 * Whatever is in the columns is written twice: within a tick into the journal,
 * as the part that is new, and once more when a block is full and sealed.
 * Readers ignore in the journal what is sealed.
 */
#include "trace/trace.h"

#include "base/memory.h"
#include "trace/container.h"
#include "trace/encode.h"
#include "trace/rows.h"
#include "trace/sink.h"
#include "trace/slices.h"
#include "trace/writer_state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	WRITER_STREAM_BYTES = 1 << 20,  /* a stream that grows beyond this is sealed ... */
	WRITER_STREAM_SHARE = 32,       /* ... or beyond this share of the file's limit */
	WRITER_JOURNAL_BYTES = 1 << 20, /* a journal beyond this begins anew after a seal */
	WRITER_SUMS_RATIO = 12,         /* rows of slices for one row of sums, at least */
	WRITER_SUMS_SLICES = 4,         /* slices between sums, at least */
	WRITER_GATHER_BYTES = 16 << 10, /* of rows that wait in the journal, at most */
};

int trace_writer_open(int fd, const struct trace_writer_options *options,
		      struct trace_writer **ret_writer, struct tm_error *err)
{
	struct trace_writer *w = tm_alloc(sizeof *w);
	if (!w) {
		close(fd);
		return tm_fail(err, -ENOMEM, "There is no memory to write a trace");
	}
	stream_init(&w->streams[WRITER_MODULES], FORMAT_MODULES, 1);
	stream_init(&w->streams[WRITER_STACKS], FORMAT_STACKS, 3);
	stream_init(&w->streams[WRITER_THREADS], FORMAT_THREADS, 1);
	stream_init(&w->streams[WRITER_MAPS], FORMAT_MAPS, 1);
	stream_init(&w->streams[WRITER_SAMPLES], FORMAT_SAMPLES, 1);
	stream_init(&w->streams[WRITER_MOMENTS], FORMAT_MOMENTS, 1);
	stream_init(&w->symbols, FORMAT_SYMBOLS, 1);
	stream_init(&w->sources, FORMAT_SOURCES, 1);
	stream_init(&w->refs, FORMAT_REFS, 3);
	w->addresses = options->addresses;
	w->lean = options->lean;
	w->gathers = options->retain_ns || options->retain_bytes;
	w->stream_bytes = WRITER_STREAM_BYTES;
	if (options->retain_bytes && options->retain_bytes / WRITER_STREAM_SHARE < w->stream_bytes)
		w->stream_bytes = options->retain_bytes / WRITER_STREAM_SHARE + WRITER_GATHER_BYTES;
	int rc = encode_new(options->addresses, &w->encode);
	if (rc < 0) {
		close(fd);
		tm_fail(err, rc, "There is no memory to write a trace");
	} else {
		rc = sink_open(fd, options, &w->sink, err);
	}
	if (rc < 0) {
		encode_free(w->encode);
		tm_free(w);
		return rc;
	}
	*ret_writer = w;
	return 0;
}

int writer_error(const struct trace_writer *w)
{
	return w->error < 0 ? w->error : sink_error(w->sink);
}

int writer_check_open(struct trace_writer *w)
{
	if (!w->open && w->error == 0)
		w->error = -EINVAL;
	return writer_error(w);
}

void writer_add_stream(struct sink_batch *batch, uint32_t section, const struct stream *s,
		       uint32_t from[STREAM_COLUMNS])
{
	struct sink_part *part = sink_batch_add(batch, s->type, section);
	stream_summary(s, &part->header);
	stream_piece(s, from, &part->raw);
}

/* Readers refuse events of threads that are not in the file: nameless is better than that. */
static void add_missing_threads(struct trace_writer *w)
{
	struct stream *s = &w->streams[WRITER_THREADS];
	while (s->id_end < encode_thread_end(w->encode)) {
		struct trace_thread thread = {.thread_id = s->id_end, .end_ns = UINT64_MAX};
		rows_put_thread(s, &thread);
	}
}

/* Samples and maps: nothing refers to them, and each seal would make a tiny block of them. */
static bool may_wait(const struct trace_writer *w, const struct stream *s)
{
	return w->gathers && (s->type == FORMAT_SAMPLES || s->type == FORMAT_MAPS) &&
	       stream_bytes(s) < WRITER_GATHER_BYTES;
}

static void add_streams(struct trace_writer *w, struct sink_batch *batch, bool all)
{
	add_missing_threads(w);
	for (int i = 0; i < WRITER_STREAM_COUNT; i++) {
		uint32_t from[STREAM_COLUMNS] = {0};
		if (w->streams[i].count == 0 || (!all && may_wait(w, &w->streams[i])))
			continue;
		writer_add_stream(batch, w->section, &w->streams[i], from);
		stream_restart(&w->streams[i]);
	}
}

static void add_columns(struct trace_writer *w, struct sink_batch *batch,
			uint32_t from[COLUMN_COUNT])
{
	for (int addresses = 0; addresses <= w->addresses; addresses++) {
		struct sink_part *part = sink_batch_add(
			batch, addresses ? FORMAT_ADDRESSES : FORMAT_EVENTS, w->section);
		encode_summary(w->encode, &part->header);
		encode_piece(w->encode, addresses, from, &part->raw);
	}
}

/* Readers can do without it, so a failure only leaves it out. */
static void add_ends(struct trace_writer *w, struct sink_batch *batch)
{
	const struct stream *stacks = &w->streams[WRITER_STACKS];
	uint32_t stack_end = (uint32_t)(stacks->first_ordinal + stacks->count + 1);
	struct sink_part *part = sink_batch_add(batch, FORMAT_ENDS, w->section);
	encode_summary(w->encode, &part->header);
	part->header.flags = 0;
	if (encode_ends(w->encode, stack_end, &part->header, &part->raw))
		return;
	sink_batch_drop(batch);
}

/* A batch with all that is in the streams, or NULL. */
static struct sink_batch *seal_streams(struct trace_writer *w, bool all)
{
	struct sink_batch *batch = sink_batch_new(w->sink);
	if (batch)
		add_streams(w, batch, all);
	return batch;
}

/* The events with what they refer to, or simply `all`. */
static struct sink_batch *seal_events(struct trace_writer *w, bool all)
{
	struct sink_batch *batch = seal_streams(w, all);
	if (!batch || encode_count(w->encode) == 0)
		return batch;
	uint32_t from[COLUMN_COUNT] = {0};
	add_columns(w, batch, from);
	if (!w->lean)
		add_ends(w, batch);
	encode_restart(w->encode);
	w->journal_events = 0;
	memset(w->journal_from, 0, sizeof w->journal_from);
	if (w->journal_bytes > WRITER_JOURNAL_BYTES)
		w->journal_stale = true;
	return batch;
}

static struct sink_batch *seal_all(struct trace_writer *w)
{
	return seal_events(w, true);
}

/* After a record was put into a stream. */
static int stream_added(struct trace_writer *w, const struct stream *s)
{
	if (stream_bytes(s) > w->stream_bytes)
		return sink_put(w->sink, seal_streams(w, false));
	return writer_error(w);
}

static int put_payload(struct trace_writer *w, struct sink_batch *batch, struct sink_part *part)
{
	if (part->raw.failed) {
		sink_batch_free(batch);
		batch = NULL;
	}
	return sink_put(w->sink, batch);
}

static void forget_sums(struct trace_writer *w)
{
	sums_done(&w->sums);
	bytes_done(&w->curve);
	w->sums_slices = 0;
	w->sums_rows = 0;
	w->sums_off = w->lean;
}

void trace_writer_lean(struct trace_writer *w, bool lean)
{
	w->lean = lean;
}

int trace_writer_begin(struct trace_writer *w, const struct trace_meta *meta)
{
	if (w->open && w->error == 0)
		w->error = -EINVAL;
	if (writer_error(w) < 0)
		return writer_error(w);
	for (int i = 0; i < WRITER_STREAM_COUNT; i++)
		stream_section(&w->streams[i]);
	stream_section(&w->symbols);
	stream_section(&w->sources);
	stream_section(&w->refs);
	encode_section(w->encode, meta->free_stacks, &w->refs);
	if (meta->cull_ns && encode_culled(w->encode))
		return w->error = -ENOMEM;
	forget_sums(w);
	w->slice_end = w->culled = 0;
	w->unstored_before = sink_unstored(w->sink);
	w->open = true;
	w->journal_stale = true;
	struct sink_batch *batch = sink_batch_new(w->sink);
	if (!batch)
		return sink_put(w->sink, NULL);
	struct sink_part *part = sink_batch_add(batch, FORMAT_BEGIN, w->section);
	rows_put_meta(&part->raw, meta);
	return put_payload(w, batch, part);
}

int trace_writer_stacks(struct trace_writer *w, const struct trace_stack *stacks, size_t count)
{
	struct stream *s = &w->streams[WRITER_STACKS];
	int rc = writer_check_open(w);
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (stacks[i].parent_id > s->first_ordinal + s->count)
			return w->error = -EINVAL;
		rows_put_stack(s, &stacks[i]);
		rc = stream_added(w, s);
	}
	return rc;
}

int trace_writer_module(struct trace_writer *w, const struct trace_module *module)
{
	if (writer_check_open(w) < 0)
		return writer_error(w);
	rows_put_module(&w->streams[WRITER_MODULES], module);
	return stream_added(w, &w->streams[WRITER_MODULES]);
}

int trace_writer_thread(struct trace_writer *w, const struct trace_thread *thread)
{
	if (writer_check_open(w) < 0)
		return writer_error(w);
	rows_put_thread(&w->streams[WRITER_THREADS], thread);
	return stream_added(w, &w->streams[WRITER_THREADS]);
}

int trace_writer_maps(struct trace_writer *w, const struct trace_map_event *events, size_t count)
{
	int rc = writer_check_open(w);
	for (size_t i = 0; i < count && rc == 0; i++) {
		rows_put_map(&w->streams[WRITER_MAPS], &events[i]);
		rc = stream_added(w, &w->streams[WRITER_MAPS]);
	}
	return rc;
}

int trace_writer_sample(struct trace_writer *w, const struct trace_sample *sample)
{
	if (writer_check_open(w) < 0)
		return writer_error(w);
	rows_put_sample(&w->streams[WRITER_SAMPLES], sample);
	return stream_added(w, &w->streams[WRITER_SAMPLES]);
}

int trace_writer_moment(struct trace_writer *w, const struct trace_moment *moment)
{
	if (writer_check_open(w) < 0)
		return writer_error(w);
	rows_put_moment(&w->streams[WRITER_MOMENTS], moment);
	return stream_added(w, &w->streams[WRITER_MOMENTS]);
}

int trace_writer_events(struct trace_writer *w, const struct trace_event *events, size_t count)
{
	const struct stream *stacks = &w->streams[WRITER_STACKS];
	uint32_t stack_end = (uint32_t)(stacks->first_ordinal + stacks->count + 1);
	int rc = writer_check_open(w);
	while (count > 0 && rc == 0 && !sink_events_stopped(w->sink)) {
		size_t taken = 0;
		rc = w->error = encode_events(w->encode, stack_end, events, count, &taken);
		events += taken;
		count -= taken;
		if (rc == 0 && encode_full(w->encode))
			rc = sink_put(w->sink, seal_events(w, false));
	}
	sink_add_unstored(w->sink, count);
	return rc;
}

int trace_writer_skip(struct trace_writer *w, uint64_t event, uint64_t block_id)
{
	int rc = writer_check_open(w);
	if (rc == 0)
		rc = sink_put(w->sink, seal_events(w, false));
	if (rc == 0)
		rc = w->error = encode_skip(w->encode, event, block_id);
	return rc;
}

static void add_sums(struct trace_writer *w, struct sink_batch *batch)
{
	uint32_t slices = w->sums.slices - w->sums_slices;
	if (w->sums_off || slices < WRITER_SUMS_SLICES)
		return;
	struct sink_part *part = sink_batch_add(batch, FORMAT_CURVE, w->section);
	part->header.first_ordinal = w->sums_slices;
	part->header.count = slices;
	struct span facts = span_of(w->curve.data, w->curve.used);
	container_put(&part->raw, &facts, 1);
	part = sink_batch_add(batch, FORMAT_SUMS, w->section);
	part->header.first_ordinal = w->sums.slices;
	part->header.count = (uint32_t)w->sums.count;
	sums_put(&part->raw, &w->sums);
	if (part->raw.failed) /* readers can do without */
		sink_batch_drop(batch);
	w->sums_slices = w->sums.slices;
	w->sums_rows = 0;
	w->curve.used = 0;
}

/* So seldom that they stay small beside the slices, so often that few slices are between. */
static void count_slice(struct trace_writer *w, const struct trace_slice *slice,
			struct sink_batch *batch)
{
	if (w->sums_off)
		return;
	if (slice->slice_id != w->sums.slices || sums_add(&w->sums, slice)) {
		w->sums_off = true;
		return;
	}
	slices_put_facts(&w->curve, slice);
	w->sums_rows += slice->row_count;
	w->sums_off = w->curve.failed;
	if (w->sums_rows >= WRITER_SUMS_RATIO * w->sums.count)
		add_sums(w, batch);
}

int trace_writer_slice(struct trace_writer *w, const struct trace_slice *slice)
{
	if (writer_check_open(w) < 0)
		return writer_error(w);
	struct sink_batch *batch = seal_streams(w, false);
	if (!batch)
		return sink_put(w->sink, NULL);
	struct sink_part *part = sink_batch_add(batch, FORMAT_SLICE, w->section);
	part->header.first_ordinal = slice->slice_id;
	part->header.count = 1;
	part->header.start_ns = slice->start_ns;
	part->header.end_ns = slice->end_ns;
	part->covers = w->slice_end = slice->first_event + slice->event_count;
	slices_put(&part->raw, slice);
	w->culled = slice->culled_events;
	if (!part->raw.failed)
		count_slice(w, slice, batch);
	stream_restart(&w->refs);
	w->journal_stale = true;
	return put_payload(w, batch, part);
}

/* What the journal does not have yet of one stream. */
static void journal_stream(struct trace_writer *w, struct sink_batch *batch, struct stream *s)
{
	if (s->count == s->journal_count)
		return;
	bool continues = s->journal_count > 0;
	writer_add_stream(batch, w->section, s, s->journal_from);
	s->journal_count = s->count;
	struct sink_part *part = &batch->parts[batch->count - 1];
	if (continues)
		part->header.flags |= FORMAT_CONTINUES;
	w->journal_bytes += part->raw.used;
}

static void journal_columns(struct trace_writer *w, struct sink_batch *batch)
{
	if (encode_count(w->encode) == w->journal_events)
		return;
	bool continues = w->journal_events > 0;
	size_t first = batch->count;
	add_columns(w, batch, w->journal_from);
	w->journal_events = (uint32_t)encode_count(w->encode);
	for (size_t i = first; i < batch->count; i++) {
		if (continues)
			batch->parts[i].header.flags |= FORMAT_CONTINUES;
		w->journal_bytes += batch->parts[i].raw.used;
	}
}

/* The journal has nothing: all that is in the columns goes into it at the next tick. */
static void journal_forget(struct trace_writer *w)
{
	for (int i = 0; i < WRITER_STREAM_COUNT; i++) {
		w->streams[i].journal_count = 0;
		memset(w->streams[i].journal_from, 0, sizeof w->streams[i].journal_from);
	}
	w->refs.journal_count = 0;
	memset(w->refs.journal_from, 0, sizeof w->refs.journal_from);
	w->journal_events = 0;
	memset(w->journal_from, 0, sizeof w->journal_from);
	w->journal_bytes = 0;
}

/* Later ones of the same number count: readers know. False: it is not in the batch. */
static bool journal_slice(struct trace_writer *w, struct sink_batch *batch,
			  const struct trace_slice *slice)
{
	struct sink_part *part = sink_batch_add(batch, FORMAT_SLICE, w->section);
	part->header.first_ordinal = slice->slice_id;
	part->header.count = 1;
	part->header.start_ns = slice->start_ns;
	part->header.end_ns = slice->end_ns;
	slices_put(&part->raw, slice);
	w->journal_bytes += part->raw.used;
	if (!part->raw.failed)
		return true;
	sink_batch_drop(batch);
	return false;
}

int trace_writer_tick(struct trace_writer *w)
{
	return trace_writer_tick_slice(w, NULL);
}

int trace_writer_tick_slice(struct trace_writer *w, const struct trace_slice *open)
{
	if (!w->open || writer_error(w) < 0)
		return writer_error(w);
	if (w->journal_bytes > WRITER_JOURNAL_BYTES && open)
		w->journal_stale = true;
	struct sink_batch *batch = sink_batch_new(w->sink);
	if (!batch)
		return sink_put(w->sink, NULL);
	batch->journal = true;
	batch->replace = w->journal_stale;
	if (w->journal_stale)
		journal_forget(w);
	add_missing_threads(w);
	for (int i = 0; i < WRITER_STREAM_COUNT; i++)
		journal_stream(w, batch, &w->streams[i]);
	journal_columns(w, batch);
	journal_stream(w, batch, &w->refs);
	bool whole = !open || journal_slice(w, batch, open);
	if (batch->count == 0) {
		sink_batch_free(batch);
		return writer_error(w);
	}
	w->journal_stale = !whole;
	int rc = sink_put(w->sink, batch);
	if (rc == -EAGAIN) {
		/* Sealed blocks wait for the disk: what this tick had goes with the next. */
		w->journal_stale = true;
		return writer_error(w);
	}
	return rc;
}

bool trace_writer_renews(const struct trace_writer *w)
{
	return w->journal_stale;
}

int trace_writer_sync(struct trace_writer *w)
{
	int rc = writer_check_open(w);
	if (rc < 0)
		return rc;
	struct sink_batch *batch = seal_all(w);
	if (batch)
		batch->sync = true;
	return sink_put(w->sink, batch);
}

void trace_writer_seal(struct trace_writer *w)
{
	if (writer_check_open(w) == 0)
		sink_put(w->sink, seal_all(w));
}

void trace_writer_flush(struct trace_writer *w)
{
	sink_drain(w->sink);
}

void trace_writer_sums(struct trace_writer *w)
{
	struct sink_batch *batch = w->open ? sink_batch_new(w->sink) : NULL;
	if (!batch)
		return;
	add_sums(w, batch);
	sink_put(w->sink, batch);
}

int trace_writer_end(struct trace_writer *w, const struct trace_end *end)
{
	w->ended = *end;
	if (!w->open)
		return writer_check_open(w);
	sink_put(w->sink, seal_all(w));
	w->open = false;
	/* Only when all is written it is known how much is not. */
	sink_drain(w->sink);
	struct trace_end *counted = &w->ended;
	if (counted->events_not_stored < trace_writer_unstored(w))
		counted->events_not_stored = trace_writer_unstored(w);
	uint64_t folded = sink_folded(w->sink), since_ns = sink_since_ns(w->sink);
	if (folded) {
		counted->folded_events = folded;
		counted->events_not_stored += folded;
		counted->exact_since_ns = since_ns < end->duration_ns ? since_ns : end->duration_ns;
	}
	if (w->culled && !counted->culled_events) {
		counted->culled_events = w->culled;
		counted->events_not_stored += w->culled;
	}
	struct sink_batch *batch = sink_batch_new(w->sink);
	if (!batch)
		return sink_put(w->sink, NULL);
	add_sums(w, batch);
	struct sink_part *part = sink_batch_add(batch, FORMAT_END, w->section++);
	part->header.end_ns = end->duration_ns;
	rows_put_end(&part->raw, counted);
	int rc = put_payload(w, batch, part);
	forget_sums(w);
	return rc;
}

const struct trace_end *trace_writer_ended(const struct trace_writer *w)
{
	return &w->ended;
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return sink_bytes(w->sink);
}

bool trace_writer_disk_low(const struct trace_writer *w)
{
	return sink_disk_low(w->sink);
}

bool trace_writer_disk_hung(const struct trace_writer *w)
{
	return sink_was_late(w->sink);
}

bool trace_writer_wants_slice(const struct trace_writer *w)
{
	/* Until the last slice is in the file it is not known what it made foldable. */
	return sink_wants_slice(w->sink) && sink_covered(w->sink) == w->slice_end;
}

uint64_t trace_writer_folded(const struct trace_writer *w)
{
	return sink_folded(w->sink);
}

uint64_t trace_writer_unstored(const struct trace_writer *w)
{
	return sink_unstored(w->sink) - w->unstored_before;
}

int trace_writer_close(struct trace_writer *w, struct tm_error *err)
{
	if (!w)
		return 0;
	if (w->open && writer_error(w) == 0)
		sink_put(w->sink, seal_all(w));
	int error = w->error;
	int rc = sink_close(w->sink, err);
	if (rc == 0 && error < 0)
		rc = tm_fail(err, error, "The trace file is not complete: %s", strerror(-error));
	for (int i = 0; i < WRITER_STREAM_COUNT; i++)
		stream_done(&w->streams[i]);
	stream_done(&w->symbols);
	stream_done(&w->sources);
	stream_done(&w->refs);
	forget_sums(w);
	encode_free(w->encode);
	tm_free(w);
	return rc;
}
