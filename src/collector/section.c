/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/section.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/version.h"
#include "collector/procfs.h"
#include "collector/section_state.h"

static void forked(void *ctx, uint32_t thread_id, uint32_t pid, bool done)
{
	struct section *section = ctx;
	if (done)
		inherit_box_label(section->box, thread_id, pid);
	else
		inherit_box_put(section->box, &section->feed, thread_id);
}

static int fill_texts(struct section *section, const struct section_options *options,
		      struct mode_lock *mode_lock)
{
	section->mode_lock = mode_lock_share(mode_lock);
	section->program = tm_strdup(options->program);
	section->command = tm_strdup(options->command ? options->command : "");
	section->folder = tm_strdup(options->folder ? options->folder : "");
	section->extra.folder = section->folder;
	if (options->unhooked)
		snprintf(section->unhooked, sizeof section->unhooked, "%s", options->unhooked);
	section->options.program = section->program;
	section->options.command = section->command;
	section->start_unix_ns = clock_wall_ns();
	pthread_mutex_init(&section->lock, NULL);
	pthread_condattr_t steady; /* a wait must not depend on somebody's setting of the clock */
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&section->given, &steady);
	pthread_condattr_destroy(&steady);
	return section->program && section->command && section->folder && section->mode_lock
		       ? 0
		       : -ENOMEM;
}

int section_connect(struct section *section, struct tm_error *err)
{
	if (section->options.follow_forks && !section->box)
		section->box = inherit_box_new();
	section->extra.fork = section->box ? forked : NULL;
	section->extra.ctx = section;
	section->extra.feed = &section->feed;
	if (merge_init(&section->merge, &section->cursors, &section->feed, &section->extra))
		return tm_fail(err, -ENOMEM, "out of memory for the recording");
	return 0;
}

/* Without memory for names the events are still worth recording. */
static void look_up_names(struct section *section, const struct section_options *options)
{
	if (options->names_fd <= 0)
		return;
	if (options->tell_unnamed && unnamed_new(&section->unnamed))
		section->unnamed = NULL;
	if (names_new(options->names_fd, &section->feed, section->unnamed, &section->names))
		section->names = NULL;
}

static int fill(struct section *section, const struct section_options *options,
		struct tm_error *err)
{
	section->control = section->shm.map.control;
	section->filter = section->shm.map.filter;
	section->piece = 1;
	if (fill_texts(section, options, NULL) ||
	    cursors_init(&section->cursors, &section->shm.map))
		return tm_fail(err, -ENOMEM, "out of memory for the recording");
	int error = feed_init(&section->feed, &section->shm.map, options->tsc, &options->earlier,
			      options->cull_ns, err);
	if (error)
		return error;
	/* What a parent did not record its child may free. */
	const struct section *parent = options->forked_from;
	if (options->woken || (parent && parent->feed.late) ||
	    atomic_load(&section->control->state) == WIRE_IDLE)
		feed_expect_strangers(&section->feed);
	atomic_store(&section->feed.sampled.on,
		     options->sample_log2 != 0 ||
			     (parent && atomic_load(&parent->feed.sampled.on)));
	atomic_store(&section->origin_ns, section->feed.clock.origin_ns);
	return section_connect(section, err);
}

int section_new_piece(const struct section_options *options, struct section *before,
		      struct section **ret_section, struct tm_error *err)
{
	struct section *section = tm_alloc(sizeof *section);
	if (section)
		section->shm = (struct shm){.fd = -1};
	if (!section || fill_texts(section, options, before->mode_lock)) {
		section_free(section);
		if (options->names_fd > 0)
			close(options->names_fd);
		return tm_fail(err, -ENOMEM, "out of memory for the next piece");
	}
	section->options = *options;
	section->options.program = section->program;
	section->options.command = section->command;
	section->options.forked_from = NULL;
	section->options.woken = before->options.woken;
	section->options.depth = before->options.depth;
	section->control = before->control;
	section->filter = before->filter;
	section->elder = before;
	section->start = before->start;
	section->piece = before->piece + 1;
	atomic_store(&section->origin_ns, clock_steady_ns());
	look_up_names(section, options);
	*ret_section = section;
	return 0;
}

int section_new(const struct section_options *options, struct shm *shm,
		struct section **ret_section, struct tm_error *err)
{
	struct section *section = tm_alloc(sizeof *section);
	if (!section) {
		shm_close(shm);
		if (options->names_fd > 0)
			close(options->names_fd);
		return tm_fail(err, -ENOMEM, "out of memory for the recording");
	}
	section->options = *options;
	lookout_find(options->pid, &section->start);
	section->shm = *shm;
	*shm = (struct shm){.fd = -1};
	look_up_names(section, options);
	int error = fill(section, options, err);
	if (error) {
		section_free(section);
		return error;
	}
	*ret_section = section;
	return 0;
}

struct section *section_free(struct section *section)
{
	if (!section)
		return NULL;
	section_settle(section);
	watch_stop(section->watch);
	merge_done(&section->merge);
	extra_done(&section->extra);
	feed_done(&section->feed);
	cursors_done(&section->cursors);
	inherit_box_free(section->box);
	names_free(section->names);
	unnamed_free(section->unnamed);
	if (section->options.woken)
		shm_empty(&section->shm);
	shm_close(&section->shm);
	model_free(section->elder_model);
	for (uint32_t i = 0; i < section->moment_count; i++)
		tm_free(section->moments[i].text);
	pthread_mutex_destroy(&section->lock);
	mode_lock_free(section->mode_lock);
	pthread_cond_destroy(&section->given);
	tm_free(section->program);
	tm_free(section->command);
	tm_free(section->folder);
	return tm_free(section);
}

void section_end(struct section *section, const struct section_ending *ending)
{
	if (atomic_load(&section->ending))
		return;
	section->how = *ending;
	/* Pairs with the acquire in section_run(): `how` is read after. */
	atomic_store_explicit(&section->ending, true, memory_order_release);
	section_wake(section);
}

void section_set_unhooked(struct section *section, const char *text)
{
	pthread_mutex_lock(&section->lock);
	snprintf(section->unhooked, sizeof section->unhooked, "%s", text);
	pthread_mutex_unlock(&section->lock);
}

const struct section_result *section_result(const struct section *section)
{
	return &section->result;
}

/* The largest interval of the blocks that it begins with, and of those to come. */
static uint64_t began_by(uint64_t now, const struct inherit_set *inherited,
			 const struct resume *resume)
{
	uint64_t before = 0;
	if (resume)
		before = resume_interval(resume);
	else if (inherited)
		before = inherit_set_interval(inherited);
	return now > before ? now : before;
}

static void write_meta(struct section *section, const struct inherit_set *inherited,
		       const struct resume *resume, uint64_t sampled)
{
	char host[256] = "";
	gethostname(host, sizeof host - 1);
	const struct section_options *options = &section->options;
	struct trace_meta meta = {
		.tool_version = TIDEMARK_VERSION,
		.program = section->program,
		.command = section->command,
		.host = host,
		.mode = sampled ? "sampled" : "exact",
		.sample_bytes = sampled,
		.cull_ns = options->cull_ns,
		.unknown = sampled ? TRACE_UNKNOWN_TEMPORARY : 0,
		.source = options->woken ? "attach" : "run",
		.clock = options->tsc ? "tsc" : "monotonic",
		.pid = (uint32_t)options->pid,
		.ppid = (uint32_t)options->parent,
		.start_unix_ns = section->start_unix_ns,
		.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
		.machine_bytes =
			(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
		.addresses = options->addresses,
		.free_stacks = options->free_stacks,
		.children = options->follow_forks,
		.depth = options->depth,
		.series_id = options->series_id, /* the first piece cannot know of the next */
		.piece = section->piece,
		.piece_start_ns = section->piece_start_ns,
		.inherited_blocks = resume ? resume_blocks(resume) : 0,
		.inherited_bytes = resume ? resume_bytes(resume) : 0,
	};
	if (inherited)
		inherit_set_sums(inherited, &meta.inherited_blocks, &meta.inherited_bytes);
	trace_writer_begin(section->feed.writer, &meta);
}

static const char *why_off(uint32_t reason)
{
	switch ((enum wire_off_reason)reason) {
	case WIRE_OFF_NONE:
	case WIRE_OFF_STOPPED:
		return NULL;
	case WIRE_OFF_COLLECTOR_DEAD:
		return "Recording ended early: the agent took the recording process for dead.";
	case WIRE_OFF_COLLECTOR_STUCK:
		return "Recording ended early: the recording process was stopped for 5 seconds, or "
		       "did not get on for 30.";
	case WIRE_OFF_NO_MEMORY:
		return "Recording ended early: the agent got no memory.";
	case WIRE_OFF_INTERNAL:
		return "Recording ended early: the agent met an error of its own.";
	}
	return "Recording ended early, for a reason that this version does not know.";
}

/* A sentence about the end, if there is one to say. */
static const char *choose_note(const struct section *section, const struct trace_end *end)
{
	if (why_off(end->off_reason))
		return why_off(end->off_reason);
	if (section->feed.error)
		return section->feed.error == -ENOMEM
			       ? "The recorder got no memory: what came then is not in the file."
			       : "The recorder failed: what came then is not in the file.";
	if (section->result.never_on)
		return "The recording ended before its delay was over.";
	if (section->shrink.step && !end->events_not_stored && end->cause != TRACE_END_DISK_ERROR &&
	    end->cause != TRACE_END_DISK_FULL)
		return "Memory was short, and the recorder gave things up: the report's timeline "
		       "says what, and when.";
	if (end->cause == TRACE_END_DISK_ERROR)
		return "The disk failed: what came after is not in the file.";
	if (end->cause == TRACE_END_DISK_FULL)
		return "The disk was full: what came after is not in the file.";
	if (end->events_not_stored && section->disk_hung)
		return "The disk took nothing for a while: later events are in the figures only.";
	if (end->events_not_stored && section->disk_low)
		return "The disk was nearly full: later events are in the figures only.";
	if (end->folded_events && section->disk_low)
		return "The disk was nearly full: more events were folded than was asked for.";
	if (end->events_not_stored && !end->folded_events)
		return "The file has reached its size limit: later events are in the figures only.";
	if (section->how.note)
		return section->how.note;
	/* The next image would have called: it could not, or could not be entered. */
	if (section->extra.executing && section->how.cause != TRACE_END_EXEC)
		return "The program executed another one, which was not recorded: its agent did "
		       "not reach us (a network namespace of its own, a seccomp filter, or an "
		       "environment that leaves it out).";
	return "";
}

/* The writer keeps its first error; asking costs nothing. */
static void blame_disk(struct trace_end *end, int error)
{
	if (error == -ENOSPC || error == -EDQUOT || error == -EFBIG)
		end->cause = TRACE_END_DISK_FULL;
	else if (error == -EIO || error == -ETIMEDOUT)
		end->cause = TRACE_END_DISK_ERROR;
}

/* Whole, or as much as there is room for. */
static void add_sentence(char *note, size_t room, const char *text)
{
	size_t at = strlen(note);
	if (*text && at + 2 < room)
		snprintf(note + at, room - at, "%s%s.", at ? " " : "", text);
}

/* What the end says of the events: from here on neither model nor stacks are needed for it. */
static void take_totals(struct section *section)
{
	struct section_result *result = &section->result;
	model_totals(section->feed.model, &result->totals);
	result->bad_events =
		section->feed.bad_events + section->cursors.bad + section->feed.stacks.bad_nodes;
}

static void fill_end(struct section *section, struct trace_writer *writer)
{
	struct wire_control *control = section->control;
	struct cursor_counters counters = cursors_counters(&section->cursors);
	const struct cursor_counters *before = &section->counted;
	struct section_result *result = &section->result;
	/* Whether the disk took all is known when all is written; only the last image can wait. */
	if (!section->heir && !section->how.more_follows) {
		trace_writer_seal(writer);
		trace_writer_flush(writer);
	}
	uint64_t children = section->extra.forks;
	uint64_t recorded = section->how.children_recorded;
	uint32_t off_reason = atomic_load(&control->off_reason);
	result->sampled_bytes = atomic_load(&section->sampled_bytes);
	result->agent_ready = section_agent_ready(section);
	result->never_on = atomic_load(&section->never_on) || section_state(section) == WIRE_IDLE;
	result->end = (struct trace_end){
		.cause = section->how.cause,
		.status = section->how.status,
		.duration_ns = clock_steady_ns() - section->feed.clock.origin_ns,
		.lost_events = counters.lost - before->lost + atomic_load(&control->lost) -
			       section->lost_before + section->feed.dropped,
		.cut_stacks = counters.cut - before->cut,
		.fp_frames = counters.fp_frames - before->fp_frames,
		.waited_ns = counters.waited_ns - before->waited_ns,
		.agent_bytes = atomic_load(&control->agent_bytes),
		.collector_cpu_ns = clock_cpu_ns(),
		.collector_bytes = procfs_peak_bytes(getpid()),
		.freed_unseen = result->totals.freed_unseen,
		.freed_older = result->totals.freed_older,
		.children_not_recorded = children > recorded ? children - recorded : 0,
		.off_reason = off_reason,
		.events_not_stored = trace_writer_unstored(writer),
		.folded_events = trace_writer_folded(writer),
		.paused_births = section->feed.paused.births,
		.freed_paused = section->feed.paused.frees,
	};
	if (off_reason != WIRE_OFF_NONE && off_reason != WIRE_OFF_STOPPED)
		result->end.cause = TRACE_END_AGENT_OFF;
	else
		blame_disk(&result->end, trace_writer_tick(writer));
	section->disk_low = trace_writer_disk_low(writer);
	section->disk_hung = trace_writer_disk_hung(writer);
	char *note = result->end.note;
	snprintf(note, sizeof result->end.note, "%s", choose_note(section, &result->end));
	pthread_mutex_lock(&section->lock);
	add_sentence(note, sizeof result->end.note, section->unhooked);
	pthread_mutex_unlock(&section->lock);
	add_sentence(note, sizeof result->end.note, section->extra.unhooked);
}

/*
 * Samples miss the peak; the kernel does not, but it tells neither when nor what
 * of: the anonymous share is taken to be that of the largest sample, unless less
 * than half was resident then.
 */
static void sample_peak(struct section *section)
{
	struct model_totals totals;
	model_totals(section->feed.model, &totals);
	if (section->how.peak_rss_bytes <= totals.peak_rss_bytes)
		return;
	double times = totals.peak_rss_bytes
			       ? (double)section->how.peak_rss_bytes / (double)totals.peak_rss_bytes
			       : 0.0;
	struct trace_sample sample = {
		.time_ns = clock_steady_ns() - section->feed.clock.origin_ns,
		.rss_bytes = section->how.peak_rss_bytes,
		.anon_bytes = times <= 2.0 ? (uint64_t)((double)totals.rss_anon_bytes * times) : 0,
		.agent_bytes = atomic_load(&section->shm.map.control->agent_bytes),
	};
	feed_sample(&section->feed, &sample);
}

/* OOM kills are SIGKILL from the kernel: told apart by the cgroup's count. */
static void refine_cause(struct section *section)
{
	if (section->how.status_unknown && section->extra.exiting)
		section->how.status = section->extra.exit_status;
	if (section->how.cause == TRACE_END_SIGNAL && section->how.status == 9 && section->watch &&
	    watch_oom_kills(section->watch))
		section->how.cause = TRACE_END_OOM;
}

/* What a forked child has from its parent; NULL: nothing. */
static struct inherit_set *take_inherited(const struct section *section)
{
	const struct section *parent = section->options.forked_from;
	if (!parent || !parent->box)
		return NULL;
	return inherit_box_take(parent->box, (uint32_t)section->options.pid);
}

const struct section *section_awaits(const struct section *section)
{
	return atomic_load(&section->begun) ? NULL : section->options.forked_from;
}

static void inherit(struct section *section, struct inherit_set *set)
{
	if (!set)
		return;
	inherit_apply(set, &section->feed, (uint32_t)section->options.pid);
	section->inherited = section->feed.thread_count > 0;
	inherit_set_free(set);
}

void section_follow(struct section *section, struct section *before)
{
	section->before = before;
}

/* The section's begin in the file, and for a piece what lives then. */
static int begin(struct section *section, struct trace_writer *writer)
{
	struct resume *resume = NULL;
	int error = section->elder ? section_take_over(section) : 0;
	if (error)
		return error;
	section->feed.writer = writer;
	owner_enter(&section->owner, &section->control->owner);
	if (section->elder_model &&
	    resume_new(section->elder_model, section->feed.thread_count, &resume))
		resume = NULL; /* then their ends will be those of older blocks */
	struct inherit_set *inherited = section->elder ? NULL : take_inherited(section);
	atomic_store(&section->begun, true);
	bool told;
	uint64_t now = section_begin_mode(section, &told);
	uint64_t sampled = began_by(now, inherited, resume);
	atomic_store(&section->sampled_bytes, sampled);
	write_meta(section, inherited, resume, sampled);
	if (section->names)
		names_begin(section->names, trace_writer_section(writer));
	struct watch_options watch = {.pid = section->options.pid,
				      .map = &section->shm.map,
				      .start = &section->start,
				      .dead = section->cursors.dead,
				      .urgent = &section->urgent,
				      .giveway = section->options.giveway,
				      .pair = &section->giveway,
				      .helper = section->options.helper,
				      .max_memory_bytes = section->options.max_memory_bytes,
				      .origin_ns = section->feed.clock.origin_ns};
	/* Without a watch there are no samples, but the events are what counts. */
	if (watch_start(&watch, &section->watch, NULL))
		section->watch = NULL;
	if (section->elder)
		section_resume(section, resume);
	else
		inherit(section, inherited);
	resume_free(resume);
	if (sampled != now && !told)
		section_tell_begin(section, now);
	return 0;
}

/* What is left of it goes to the next piece, which need not wait for the names. */
static void end_piece(struct section *section, struct trace_writer *writer)
{
	fill_end(section, writer);
	section->watch = watch_stop(section->watch);
	owner_leave(&section->owner, &section->control->owner);
	section_hand_over(section);
	section_finish_names(section, writer);
}

static void end_image(struct section *section, struct trace_writer *writer)
{
	/* With another image waiting to be drained, the names come while it runs. */
	if (section->names && section->how.more_follows)
		names_end(section->names);
	else
		section_finish_names(section, writer);
	fill_end(section, writer);
	owner_leave(&section->owner, &section->control->owner);
}

/*
 * Another image of the process follows, so this one stays until that ends: for its result, and for
 * names that are still coming. The rest would add up in a long chain of executions. Other threads
 * look at the control page, which stays mapped.
 */
static void put_to_rest(struct section *section)
{
	section_settle(section);
	cursors_done(&section->cursors);
	feed_rest(&section->feed);
}

/* They are looked up while the last slice is made. */
static void ask_last_names(struct section *section, struct trace_writer *writer)
{
	feed_flush(&section->feed, true);
	if (!section->names || section->how.more_follows)
		return;
	names_end(section->names);
	names_tick(section->names, writer);
}

int section_run(struct section *section, struct trace_writer *writer, struct tm_error *err)
{
	int error = begin(section, writer);
	if (error)
		return tm_fail(err, error, "out of memory for the next piece");
	section_drain(section);
	if (section->box && !section->heir)
		inherit_box_close(section->box);
	section_read_notes(section);
	section_take_moments(section, true);
	sample_peak(section);
	refine_cause(section);
	ask_last_names(section, writer);
	feed_close_slice(&section->feed);
	if (section->unnamed)
		unnamed_weigh(section->unnamed, section->feed.model);
	take_totals(section);
	if (!section->heir)
		section_rest(section);
	trace_writer_sums(writer);
	if (section->heir)
		end_piece(section, writer);
	else
		end_image(section, writer);
	trace_writer_end(writer, &section->result.end);
	section->result.end = *trace_writer_ended(writer);
	section->watch = watch_stop(section->watch);
	if (section->how.more_follows)
		put_to_rest(section);
	if (section->feed.error && err)
		*err = section->feed.why;
	return section->feed.error;
}
