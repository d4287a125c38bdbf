/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While the program runs, the main thread waits for signals, for agents that
 * knock, for processes that end, and for the time to pass.
 */
#include "collector/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/procfs.h"

enum {
	GREETING_NS = 2 * 1000 * 1000 * 1000, /* to say hello in */
	IDLE_POLL_MS = 1000,
	WAKE_POLL_MS = 50,                 /* while a program is to be woken */
	HOLD_MS = 5,                       /* while nobody is let in */
	NO_ROOM_NS = 20 * 1000 * 1000,     /* until somebody may be let in again, if there were no
					      descriptors */
	UNFINISHED_MOST = 32,              /* beyond, new ones wait, but only while it gets on: */
	UNFINISHED_NS = 200 * 1000 * 1000, /* one must be done within this time */
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

/* Then the peers, and behind them a place for each entry of a process. */
struct polls {
	struct pollfd few[POLL_PEERS + SESSION_PEERS];
	struct pollfd *more; /* owned; NULL: few are enough */
	struct pollfd *rows;
	size_t count, room;
	size_t first_process, process_count;
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
		int error = rendezvous_accept(&session->rendezvous, peer);
		if (error) {
			peer->fd = -1;
			/* Who knocks stays at the door, which would be looked at all the time. */
			if (error != -EAGAIN)
				session->accept_ns = clock_steady_ns() + NO_ROOM_NS;
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

static void check_processes(struct session *session, const struct polls *polls)
{
	for (size_t i = 0; i < polls->process_count; i++) {
		struct session_process *process = &session->processes[i];
		const struct pollfd *row = &polls->rows[polls->first_process + i];
		if (row->fd >= 0 && row->fd == process->pidfd && row->revents)
			admit_see_end(session, process);
	}
}

/* Without a descriptor (none was left, or the kernel is old) the end of a process is not told. */
static void check_unwatched(struct session *session)
{
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		if (process->alive && process->pidfd < 0 && process->pid != session->launch.pid &&
		    kill(process->pid, 0) && errno == ESRCH)
			admit_see_end(session, process);
	}
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

/*
 * Processes that end faster than their files are finished would fill the memory: who comes then
 * waits a little. Not if it does not get on, for names may take minutes.
 */
static bool falls_behind(struct session *session, uint64_t now_ns)
{
	size_t count = session_unfinished(session), most = session->origin.files.rlim_max / 16;
	bool fewer = count < session->unfinished_count;
	session->unfinished_count = count;
	if (count <= (most < UNFINISHED_MOST ? most : UNFINISHED_MOST))
		session->unfinished_ns = 0;
	else if (fewer || !session->unfinished_ns)
		session->unfinished_ns = now_ns;
	return session->unfinished_ns && now_ns - session->unfinished_ns < UNFINISHED_NS;
}

static bool has_place(const struct session *session)
{
	for (int i = 0; i < SESSION_PEERS; i++)
		if (session->peers[i].fd < 0)
			return true;
	return false;
}

/* Who knocks must wait. */
static bool is_held(struct session *session)
{
	uint64_t now_ns = clock_steady_ns();
	return now_ns < session->accept_ns || !has_place(session) || falls_behind(session, now_ns);
}

/* Milliseconds until the next thing that happens by time. */
static int run_timers(struct session *session, bool held)
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
	if (held && next > now + HOLD_MS * 1000000ull)
		next = now + HOLD_MS * 1000000ull;
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

/* Without memory for more rows those that have none are looked at later. */
static void make_room(struct polls *polls, size_t process_count)
{
	size_t room = POLL_PEERS + SESSION_PEERS + process_count;
	if (room <= polls->room)
		return;
	struct pollfd *grown = tm_grow_array(polls->more, 2 * room, sizeof *grown);
	if (grown) {
		polls->rows = polls->more = grown;
		polls->room = 2 * room;
	}
}

static void add_poll(struct polls *polls, int fd)
{
	polls->rows[polls->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void fill_polls(struct session *session, struct polls *polls, bool held)
{
	make_room(polls, session->process_count);
	polls->count = 0;
	add_poll(polls, session->signal_fd);
	add_poll(polls, held ? -1 : session->rendezvous.fd);
	add_poll(polls, session->control.fd);
	add_poll(polls, session->usr1_fd);
	add_poll(polls, session->follow_fd);
	add_poll(polls, session->entrants.done_fd);
	for (int i = 0; i < SESSION_PEERS; i++)
		if (session->peers[i].fd >= 0)
			add_poll(polls, session->peers[i].fd);
	polls->first_process = polls->count;
	for (size_t i = 0; i < session->process_count && polls->count < polls->room; i++)
		add_poll(polls, session->processes[i].pidfd);
	polls->process_count = polls->count - polls->first_process;
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

static void handle_polls(struct session *session, const struct polls *all)
{
	const struct pollfd *polls = all->rows;
	for (int i = 0; i < SESSION_PEERS; i++)
		for (size_t k = POLL_PEERS; k < all->first_process && session->peers[i].fd >= 0;
		     k++)
			if (polls[k].fd == session->peers[i].fd && polls[k].revents) {
				greet(session, &session->peers[i]);
				break;
			}
	if (polls[POLL_RENDEZVOUS].revents)
		accept_peers(session);
	if (polls[POLL_SIGNALS].revents)
		signals_handle(session);
	check_processes(session, all);
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
			struct section_ending ending = admit_ending(session->wait_status);
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
	struct polls polls = {.room = POLL_PEERS + SESSION_PEERS};
	bool first_ended = false;
	polls.rows = polls.few;
	if (!session->beside)
		signals_reap(session);
	while (goes_on(session)) {
		waking_look(session);
		bool held = is_held(session);
		int timeout_ms = run_timers(session, held);
		fill_polls(session, &polls, held);
		if (poll(polls.rows, polls.count, timeout_ms) > 0)
			handle_polls(session, &polls);
		check_unwatched(session);
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
	tm_free(polls.more);
	if (!first_ended && session->ended)
		end_first(session);
	/* What the program left running is recorded no longer: our exit is its exit. */
	stop_all(session, TRACE_END_DETACHED,
		 session->beside && !session->ended
			 ? NULL
			 : "It was still running when the program that had started it ended.");
}
