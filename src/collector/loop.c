/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While the program runs, the main thread waits for signals, for agents that
 * knock, for processes that end, and for the time to pass.
 */
#include "collector/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collector/procfs.h"

enum {
	GREETING_NS = 2 * 1000 * 1000 * 1000, /* to say hello in */
	IDLE_POLL_MS = 1000,
	WAKE_POLL_MS = 50, /* while a program is to be woken */
};

/* What is always polled, in this order. */
enum {
	POLL_SIGNALS,
	POLL_RENDEZVOUS,
	POLL_CONTROL,
	POLL_USR1,
	POLL_FOLLOW,
	POLL_ENTRANTS,
	POLL_PEERS
};

static void drop_peer(struct rendezvous_peer *peer)
{
	rendezvous_answer(peer, -1);
}

static void greet(struct session *session, struct rendezvous_peer *peer)
{
	struct tm_error err = {0};
	int result = rendezvous_greet(&session->rendezvous, peer, &err);
	if (result > 0) {
		admit_peer(session, peer);
	} else if (result < 0) {
		if (result == -EPROTONOSUPPORT && !session->warning.code)
			session->warning = err;
		drop_peer(peer);
	}
}

static void accept_peers(struct session *session)
{
	for (int i = 0; i < SESSION_PEERS; i++) {
		struct rendezvous_peer *peer = &session->peers[i];
		if (peer->fd >= 0)
			continue;
		if (!rendezvous_accept(&session->rendezvous, peer)) {
			peer->fd = -1;
			return;
		}
		greet(session, peer);
	}
}

static void expire_peers(struct session *session, uint64_t now_ns)
{
	for (int i = 0; i < SESSION_PEERS; i++)
		if (session->peers[i].fd >= 0 && now_ns - session->peers[i].since_ns > GREETING_NS)
			drop_peer(&session->peers[i]);
}

static struct section_ending ending_of(int wait_status)
{
	bool by_signal = WIFSIGNALED(wait_status);
	return (struct section_ending){.cause = by_signal ? TRACE_END_SIGNAL : TRACE_END_EXIT,
				       .status = by_signal ? WTERMSIG(wait_status)
							   : WEXITSTATUS(wait_status)};
}

/* Processes that are not our children: newer kernels tell how they ended, older only that. */
static void process_ended(struct session *session, struct session_process *process)
{
	int wait_status;
	struct section_ending ending = {
		.cause = TRACE_END_EXIT, .status = -1, .status_unknown = true};
	if (procfs_exit_status(process->pid, process->pidfd, &wait_status))
		ending = ending_of(wait_status);
	admit_end_process(session, process, &ending);
}

static void check_processes(struct session *session, const struct pollfd *polls, size_t count)
{
	for (size_t i = 0; i < session->process_count; i++)
		for (size_t k = 0; k < count && session->processes[i].pidfd >= 0; k++)
			if (polls[k].fd == session->processes[i].pidfd && polls[k].revents)
				process_ended(session, &session->processes[i]);
}

static void set_states(struct session *session, enum wire_state state)
{
	for (size_t i = 0; i < session->process_count; i++) {
		struct section *section = recording_section(session->processes[i].recording);
		if (session->processes[i].alive && section && section_state(section) != WIRE_OFF)
			section_set_state(section, state);
	}
}

/* All recordings end; the programs go on. */
static void stop_all(struct session *session, uint32_t cause, const char *note)
{
	set_states(session, WIRE_OFF);
	entering_tell(session);
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		struct section *section = recording_section(process->recording);
		recording_close(process->recording);
		if (!process->alive || !section)
			continue;
		section_end(section, &(struct section_ending){.cause = cause,
							      .note = entering_note(process, note),
							      .children_recorded =
								      process->children_recorded,
							      .still_runs = true});
	}
}

/* Milliseconds until the next thing that happens by time. */
static int run_timers(struct session *session)
{
	const struct collector_options *options = session->options;
	bool waits = waking_waits(session);
	uint64_t now = clock_steady_ns();
	uint64_t next = now + (waits ? WAKE_POLL_MS : IDLE_POLL_MS) * 1000000ull;
	uint64_t begin = session->start_ns + options->delay_ns;
	expire_peers(session, now);
	if (!session->recording_now) {
		if (now >= begin) {
			session->recording_now = true;
			set_states(session, WIRE_RECORD);
		} else {
			next = begin < next ? begin : next;
		}
	}
	if (options->time_limit_ns && session->recording_allowed) {
		uint64_t limit = begin + options->time_limit_ns;
		if (now >= limit) {
			session->recording_allowed = false;
			stop_all(session, TRACE_END_STOPPED, "The time limit was reached.");
		} else {
			next = limit < next ? limit : next;
		}
	}
	uint64_t look = rotate_tick(session);
	if (look < next - now)
		next = now + look;
	return next > now ? (int)((next - now + 999999) / 1000000) : 0;
}

/* The first process, where it is not our child, has ended. */
static void followed_ended(struct session *session)
{
	session->ended = true;
	session->status_unknown =
		!procfs_exit_status(session->launch.pid, session->follow_fd, &session->wait_status);
	if (session->follow_fd >= 0)
		close(session->follow_fd);
	session->follow_fd = -1;
}

static size_t fill_polls(struct session *session, struct pollfd *polls, size_t room)
{
	size_t count = 0;
	polls[count++] = (struct pollfd){.fd = session->signal_fd, .events = POLLIN};
	polls[count++] = (struct pollfd){.fd = session->rendezvous.fd, .events = POLLIN};
	polls[count++] = (struct pollfd){.fd = session->control.fd, .events = POLLIN};
	polls[count++] = (struct pollfd){.fd = session->usr1_fd, .events = POLLIN};
	polls[count++] = (struct pollfd){.fd = session->follow_fd, .events = POLLIN};
	polls[count++] = (struct pollfd){.fd = session->entrants.done_fd, .events = POLLIN};
	for (int i = 0; i < SESSION_PEERS; i++)
		if (session->peers[i].fd >= 0)
			polls[count++] =
				(struct pollfd){.fd = session->peers[i].fd, .events = POLLIN};
	for (size_t i = 0; i < session->process_count && count < room; i++)
		if (session->processes[i].pidfd >= 0)
			polls[count++] = (struct pollfd){.fd = session->processes[i].pidfd,
							 .events = POLLIN};
	return count;
}

/* A program was entered, or could not be: who waited for it may go on. */
static void entrants_over(struct session *session)
{
	uint64_t count;
	if (read(session->entrants.done_fd, &count, sizeof count) != sizeof count)
		return;
	entering_tell(session);
	if (!session->beside)
		signals_reap(session);
}

static void handle_polls(struct session *session, const struct pollfd *polls, size_t count)
{
	for (int i = 0; i < SESSION_PEERS; i++)
		for (size_t k = POLL_PEERS; k < count && session->peers[i].fd >= 0; k++)
			if (polls[k].fd == session->peers[i].fd && polls[k].revents) {
				greet(session, &session->peers[i]);
				break;
			}
	if (polls[POLL_RENDEZVOUS].revents)
		accept_peers(session);
	if (polls[POLL_SIGNALS].revents)
		signals_handle(session);
	check_processes(session, polls, count);
	if (polls[POLL_CONTROL].revents)
		command_serve(session);
	if (polls[POLL_USR1].revents)
		command_usr1(session);
	if (polls[POLL_FOLLOW].revents)
		followed_ended(session);
	if (polls[POLL_ENTRANTS].revents)
		entrants_over(session);
}

static bool others_alive(const struct session *session)
{
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].alive && session->processes[i].pidfd >= 0)
			return true;
	return false;
}

/* Of a program that was woken: its recording has ended, or it would not come. */
static bool is_over(struct session *session)
{
	return !session->recording_allowed || waking_refusal(session);
}

static bool goes_on(struct session *session)
{
	if (!session->ended)
		return !session->beside ||
		       !(session->stop_waiting || (session->options->pid && is_over(session)));
	return session->options->children && !session->stop_waiting && others_alive(session);
}

static void end_first(struct session *session)
{
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		if (process->pid == session->launch.pid && process->alive) {
			struct section_ending ending = ending_of(session->wait_status);
			ending.peak_rss_bytes = session->peak_rss_bytes;
			if (session->status_unknown) {
				ending.status = -1;
				ending.status_unknown = true;
			}
			admit_end_process(session, process, &ending);
		}
	}
}

void loop_run(struct session *session)
{
	struct pollfd polls[POLL_PEERS + SESSION_PEERS + 1024];
	bool first_ended = false;
	if (!session->beside)
		signals_reap(session);
	while (goes_on(session)) {
		waking_look(session);
		size_t count = fill_polls(session, polls, sizeof polls / sizeof polls[0]);
		int timeout_ms = run_timers(session);
		if (poll(polls, count, timeout_ms) > 0)
			handle_polls(session, polls, count);
		/* An older kernel has no descriptor that tells. */
		if (session->beside && session->follow_fd < 0 && !session->ended &&
		    kill(session->launch.pid, 0) && errno == ESRCH)
			followed_ended(session);
		if (session->ended && !first_ended) {
			first_ended = true;
			end_first(session);
		}
		session_harvest(session, false);
		rotate_prune(session);
	}
	if (!first_ended && session->ended)
		end_first(session);
	/* What the program left running is recorded no longer: our exit is its exit. */
	stop_all(session, TRACE_END_DETACHED,
		 session->beside && !session->ended
			 ? NULL
			 : "It was still running when the program that had started it ended.");
}
