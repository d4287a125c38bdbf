/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotation by time or size, and deleting old pieces. A piece is deleted only
 * when it is whole, when as many newer ones as are to be kept are open or whole,
 * and when its name still leads to the very file that was written.
 */
#include "collector/session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/output.h"

enum { OPEN_MOST = 4 };            /* pieces that are not whole yet; more would take any memory */
#define LEAST_AGE_NS 1000000000ull /* of a piece: what lives at its start may fill it at once */
#define LOOK_NS      200000000ull  /* at sizes */

/* Of a process: the one that is written, and those that wait for the disk or for names. */
static unsigned open_pieces(const struct session *session, pid_t pid)
{
	unsigned open = 0;
	for (size_t i = 0; i < session->process_count; i++)
		open += session->processes[i].pid == pid && session->processes[i].recording;
	return open;
}

static bool is_due(const struct session *session, const struct session_process *process,
		   uint64_t *ret_left_ns)
{
	const struct collector_bounds *bounds = &session->options->bounds;
	const struct section *section =
		process->alive && process->recording ? recording_section(process->recording) : NULL;
	struct section_figures figures;
	if (!section || section_state(section) == WIRE_OFF || section_state(section) == WIRE_IDLE)
		return false;
	if (open_pieces(session, process->pid) >= OPEN_MOST) {
		*ret_left_ns = LOOK_NS;
		return false;
	}
	section_figures(section, &figures);
	if (bounds->rotate_bytes) {
		*ret_left_ns = LOOK_NS;
		return figures.age_ns >= LEAST_AGE_NS &&
		       recording_written(process->recording) >= bounds->rotate_bytes;
	}
	*ret_left_ns = figures.age_ns < bounds->rotate_ns ? bounds->rotate_ns - figures.age_ns : 0;
	return *ret_left_ns == 0;
}

uint64_t rotate_tick(struct session *session)
{
	const struct collector_bounds *bounds = &session->options->bounds;
	uint64_t least_ns = UINT64_MAX;
	if (!bounds->rotate_ns && !bounds->rotate_bytes)
		return least_ns;
	/* Those that come with a rotation are behind `count`. */
	size_t count = session->process_count;
	for (size_t i = 0; i < count; i++) {
		struct session_process *process = &session->processes[i];
		struct tm_error err = {0};
		uint64_t left_ns = UINT64_MAX;
		bool due = is_due(session, process, &left_ns);
		if (due && admit_rotate(session, process, &err) && !session->warning.code)
			session->warning = err;
		if (due || left_ns < LOOK_NS)
			left_ns = LOOK_NS;
		least_ns = left_ns < least_ns ? left_ns : least_ns;
	}
	return least_ns;
}

/* ---- deleting ---- */

/* The number of the newest piece, which is written or was the last; 0: none is known. */
static uint32_t newest_piece(const struct session *session, pid_t pid)
{
	uint32_t newest = 0;
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].pid == pid && session->processes[i].piece > newest)
			newest = session->processes[i].piece;
	/* An older one may be the last that is done. */
	for (size_t i = 0; i < session->finished_count; i++)
		if (session->finished[i].trace.pid == pid &&
		    session->finished[i].trace.piece > newest)
			newest = session->finished[i].trace.piece;
	return newest;
}

/* A process that is switched off may be switched on again. */
static bool may_go_on(const struct session *session, pid_t pid)
{
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].pid == pid)
			return true;
	return !kill(pid, 0) || errno != ESRCH;
}

void rotate_prune(struct session *session)
{
	uint32_t keep = session->options->bounds.keep;
	for (size_t i = 0; keep && i < session->finished_count; i++) {
		struct session_finished *finished = &session->finished[i];
		struct collector_trace *trace = &finished->trace;
		if (finished->settled)
			continue;
		uint32_t newest = newest_piece(session, trace->pid);
		if (newest < keep || trace->piece > newest - keep) {
			/* No more of its pieces come: this one stays. */
			finished->settled = !may_go_on(session, trace->pid);
			continue;
		}
		if (trace->path && !finished->dropped &&
		    output_remove(trace->path, trace->file_device, trace->file_inode))
			session->pieces_deleted++;
		session_finished_done(finished);
		session->finished_count--;
		memmove(finished, finished + 1, (session->finished_count - i) * sizeof *finished);
		i--;
	}
}
