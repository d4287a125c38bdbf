/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of a process when recording it is over: its file, and what the
 * end lines say of it. Everything else it had in the recorder (thread, stacks,
 * live blocks, descriptors) is given back while others are still recorded: a
 * build starts thousands of processes, of which few live at a time.
 */
#include "collector/harvest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/admit_drop.h"
#include "collector/rate.h"
#include "collector/session.h"

/* ---- one trace ---- */

/* Not a single event: is there an allocator in the program that hides it? */
static void explain_silence(struct collector_trace *trace)
{
	struct preflight facts;
	if (preflight_check(trace->program ? trace->program : "", NULL, &facts, NULL) ==
	    PREFLIGHT_GOOD)
		trace->sanitizer = *facts.sanitizer;
	preflight_done(&facts);
}

static void fill_trace(const struct session *session, const struct session_process *process,
		       struct collector_trace *trace)
{
	struct section *section = recording_section(process->recording);
	int error = recording_finish(process->recording, &trace->problem);
	if (error && !trace->problem.code)
		tm_fail(&trace->problem, error, "the trace is incomplete: %s", strerror(-error));
	trace->path = tm_strdup(recording_path(process->recording));
	trace->program = tm_strdup(process->program ? process->program : "");
	trace->pid = process->pid;
	trace->piece = process->piece;
	trace->file_bytes = recording_bytes(process->recording);
	recording_identity(process->recording, &trace->file_device, &trace->file_inode);
	if (!section)
		return;
	const struct section_result *result = section_result(section);
	trace->totals = result->totals;
	trace->end = result->end;
	trace->sample_bytes = result->sampled_bytes;
	if (trace->path)
		trace->rate = rate_of(session->options, trace->path, trace->file_bytes,
				      trace->end.duration_ns);
	trace->bad_events = result->bad_events;
	trace->agent_began = result->agent_ready;
	trace->never_on = result->never_on;
	trace->earlier_events = recording_earlier_events(process->recording);
	trace->name_warnings = result->name_warnings;
	memcpy(trace->name_warning, result->name_warning, sizeof trace->name_warning);
	trace->names_cut = result->names_cut;
	trace->unnamed = result->unnamed;
}

/* ---- while others are recorded ---- */

/* A child's section may still look into its parent's. */
static bool is_awaited(const struct session *session, const struct session_process *parent)
{
	for (size_t i = 0; i < session->process_count; i++)
		if (recording_awaits(session->processes[i].recording, parent->recording))
			return true;
	return false;
}

/*
 * Nothing is added to its recording any more. What the first process was decides at the end which
 * traces stay: its last entry stays as well.
 */
static bool is_spent(const struct session *session, const struct session_process *process)
{
	return !process->alive && (process->replaced || process->pid != session->launch.pid);
}

static bool keep_finished(struct session *session, struct session_process *process)
{
	if (session->finished_count == session->finished_room) {
		size_t room = session->finished_room ? session->finished_room * 2 : 8;
		struct session_finished *grown =
			tm_grow_array(session->finished, room, sizeof *grown);
		if (!grown)
			return false;
		session->finished = grown;
		session->finished_room = room;
	}
	struct session_finished *finished = &session->finished[session->finished_count++];
	*finished = (struct session_finished){.role = process->role,
					      .moved_from = process->moved_from,
					      .not_entered = process->not_entered,
					      .dropped = process->dropped};
	process->moved_from = process->not_entered = NULL;
	fill_trace(session, process, &finished->trace);
	return true;
}

void session_finished_done(struct session_finished *finished)
{
	tm_free(finished->trace.path);
	tm_free(finished->trace.program);
	tm_free(finished->moved_from);
	tm_free(finished->not_entered);
}

void session_forget_process(struct session *session, struct session_process *process)
{
	size_t index = (size_t)(process - session->processes);
	tm_free(process->program);
	tm_free(process->moved_from);
	recording_free(process->recording);
	tm_free(process->not_entered);
	tm_free(process->end_note);
	patching_known_done(&process->known);
	if (process->pidfd >= 0)
		close(process->pidfd);
	session->process_count--;
	memmove(process, process + 1, (session->process_count - index) * sizeof *process);
}

void session_harvest(struct session *session, bool wait)
{
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		if (!is_spent(session, process) ||
		    (!wait && !recording_is_done(process->recording)) ||
		    is_awaited(session, process))
			continue; /* or the next time */
		if (!keep_finished(session, process))
			return;
		session_forget_process(session, process);
		i--;
	}
}

size_t session_unfinished(const struct session *session)
{
	size_t count = 0;
	for (size_t i = 0; i < session->process_count; i++)
		count += !session->processes[i].alive &&
			 !recording_is_done(session->processes[i].recording);
	return count;
}

/* ---- the end ---- */

static int compare_traces(const void *a, const void *b)
{
	const struct collector_trace *x = a, *y = b;
	uint64_t x_bytes = x->totals.peak_bytes, y_bytes = y->totals.peak_bytes;
	return x_bytes < y_bytes ? 1 : -(x_bytes > y_bytes);
}

/* Those that stay, in the order in which they were begun. */
static void list_traces(struct session *session, struct collector_result *result)
{
	for (size_t i = 0; i < session->finished_count; i++)
		if (!session->finished[i].dropped) {
			result->traces[result->trace_count++] = session->finished[i].trace;
			session->finished[i].trace = (struct collector_trace){0};
		}
	for (size_t i = 0; i < session->process_count; i++)
		if (!session->processes[i].dropped)
			fill_trace(session, &session->processes[i],
				   &result->traces[result->trace_count++]);
	for (size_t i = 0; i < result->trace_count; i++)
		if (!result->traces[i].totals.events)
			explain_silence(&result->traces[i]);
	qsort(result->traces, result->trace_count, sizeof *result->traces, compare_traces);
}

void session_fill_result(struct session *session, struct collector_result *result)
{
	admit_drop_starters(session);
	entering_tell(session);
	/* Pieces may be done in another order than they were begun: the last of them only now. */
	session_harvest(session, true);
	rotate_prune(session);
	result->ran = true;
	result->plain = session->plain;
	result->wait_status = session->wait_status;
	result->duration_ns = clock_steady_ns() - session->start_ns;
	result->warning = session->warning;
	result->pieces_deleted = session->pieces_deleted;
	result->recorded = session->process_count + session->finished_count > 0;
	result->traces = tm_alloc_array(session->process_count + session->finished_count + 1,
					sizeof *result->traces);
	if (result->traces)
		list_traces(session, result);
}

void session_free_entries(struct session *session)
{
	while (session->process_count)
		session_forget_process(session, &session->processes[session->process_count - 1]);
	tm_free(session->processes);
	for (size_t i = 0; i < session->finished_count; i++)
		session_finished_done(&session->finished[i]);
	tm_free(session->finished);
}
