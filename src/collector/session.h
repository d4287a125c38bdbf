/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main thread's state: what runs, what is recorded, who knocks. Internal to
 * the collector; only the main thread touches it.
 */
#pragma once

#include "collector/collector.h"
#include "collector/control.h"
#include "collector/dormant.h"
#include "collector/entrant.h"
#include "collector/giveway.h"
#include "collector/harvest.h"
#include "collector/launch.h"
#include "collector/namer.h"
#include "collector/preflight.h"
#include "collector/recording.h"
#include "collector/rendezvous.h"
#include "collector/witness.h"

enum { SESSION_PEERS = 64 };

/* Exit statuses when the program did not run, as of env and timeout. */
enum { SESSION_FAILED = 125, SESSION_NOT_EXECUTABLE = 126, SESSION_NOT_FOUND = 127 };

/* A process that is or was recorded. */
struct session_process {
	pid_t pid;
	int pidfd; /* readable when it has ended; -1 for the first process and when there is none */
	bool dropped; /* its trace was thrown away */
	bool alive;
	enum starter_role role; /* of its present image */
	char *program;
	struct patching_known known; /* of its present image */
	char *not_entered; /* a program it started that could not be, and why; NULL: none */
	char *end_note;    /* entering_note(); NULL: none was made */
	char *moved_from;  /* the name it gave up for a program it had started; NULL: none */
	struct recording *recording;
	uint64_t children_recorded;
	uint64_t series_id; /* of its pieces */
	uint32_t piece;     /* from 1 */
	uint32_t usr1_seen; /* SIGUSR1s that were answered */
	bool replaced;      /* recording it has ended; it may have a new entry */
};

/* The way of a program that is woken: waking.c. */
struct waking {
	int memory_fd; /* what it is given, until it has it; -1: nothing yet, or no more */
	unsigned tries;
	bool came;
};

struct session {
	const struct collector_options *options;
	struct launch_origin origin;
	struct preflight preflight;
	struct rendezvous rendezvous;
	struct launch launch;
	struct namer namer; /* pid 0: names are not looked up */
	struct witness witness;
	char **environment;
	struct stamp_pair earlier;
	bool tsc;
	uint64_t start_ns, start_unix_ns;
	int signal_fd;
	struct control control;
	bool beside;            /* the first process is not our child */
	struct dormant dormant; /* its page, where it is to be woken */
	struct waking waking;
	int follow_fd; /* pidfd of a first process that is not our child; -1: it is, or none */
	int usr1_fd;   /* eventfd: a program got a SIGUSR1 for us */
	struct rendezvous_peer peers[SESSION_PEERS];
	struct giveway *giveway; /* NULL: nobody gives way, or nobody is recorded yet */
	bool giveway_tried;
	struct entrants entrants;
	struct entrant_options entering;
	struct session_process *processes;
	size_t process_count, process_room;
	struct session_finished *finished;
	size_t finished_count, finished_room;
	uint64_t accept_ns;      /* nobody is let in before */
	size_t unfinished_count; /* when it was last looked at, and since when it is not less */
	uint64_t unfinished_ns;
	uint64_t pieces_deleted;
	struct recording *first_recording; /* open, waiting for the first image; then NULL */
	bool recording_allowed;            /* until the time limit */
	bool recording_now;                /* the delay is over */
	bool ended;                        /* the first process */
	bool unrecordable, plain; /* refused for what it is; it runs unrecorded, which was said */
	bool stop_waiting;        /* a signal came when only recorded children were left */
	int wait_status;
	bool status_unknown;     /* it is a guess */
	uint64_t peak_rss_bytes; /* of the first process, from the kernel; 0 unknown */
	uint64_t own_rss_bytes;  /* ours when it was forked: the kernel's figure begins there */
	struct tm_error warning;
};

/* ---- admit.c ---- */

/* Somebody said hello: give it memory, or send it away. Closes the connection. */
void admit_peer(struct session *session, struct rendezvous_peer *peer);
/* The process has ended, and with it its recording: what is left of it goes with a harvest. */
void admit_end_process(struct session *session, struct session_process *process,
		       const struct section_ending *ending);
/*
 * A process that was entered and has its memory already: its section is added to
 * session->first_recording, which becomes the process's. Takes shm over. unhooked:
 * a sentence about what is not recorded, or "".
 */
TM_MUST_CHECK int admit_entered(struct session *session, pid_t pid, struct shm *shm,
				const char *unhooked, struct tm_error *err);
/* What the agent of a process is to be told. sample_log2: 0, or of the interval. */
struct shm_options admit_memory(const struct session *session, unsigned sample_log2);
/* The next piece of a process: the recording goes on in a new file. */
TM_MUST_CHECK int admit_rotate(struct session *session, struct session_process *process,
			       struct tm_error *err);
/* One that is not our child has ended: how, the kernel may tell. */
void admit_see_end(struct session *session, struct session_process *process);
/* What a wait status says of the end. */
struct section_ending admit_ending(int wait_status);

/* Its entry while it is recorded, or NULL. Borrowed until the next is let in. */
struct session_process *admit_find(struct session *session, pid_t pid);
/* Is this process, or would one of this parent be, recorded? */
bool admit_qualifies(struct session *session, pid_t pid, pid_t parent);

/* ---- admit_file.c ---- */

/* A file for a process: pattern, number if taken. */
TM_MUST_CHECK int admit_open_file(struct session *session, pid_t pid, const char *program,
				  struct recording **ret_recording, struct tm_error *err);
/* The number of the file that it would begin now. */
uint32_t admit_next_piece(const struct session *session, pid_t pid);

/* ---- entering.c ---- */

/* Somebody is about to execute or to start a program that must be entered. Takes the connection. */
void entering_admit(struct session *session, struct rendezvous_peer *peer);
/* Those that could not be: to be said in the trace of who started them. */
void entering_tell(struct session *session);
/* What its trace says at its end: `note` (or NULL), and that. Lives as long as the entry. */
const char *entering_note(struct session_process *process, const char *note);
/* Of a process's pieces the last one says it. */
void entering_hand_over(struct session_process *process, struct session_process *next);

/* ---- waking.c ---- */

/* It has been told to come, and has not come so far. */
bool waking_waits(struct session *session);
/* What it says in its page now. To be called before what it may have sent is looked for. */
void waking_look(struct session *session);
/* Why it does not come: a sentence; NULL: it may, or has. */
const char *waking_refusal(struct session *session);
/* It calls again. True: it was answered; the connection is closed. */
bool waking_answer(struct session *session, struct rendezvous_peer *peer);
/* The memory that a process was given; takes the descriptor. */
void waking_keep(struct session *session, pid_t pid, int memory_fd);
void waking_done(struct session *session);
/* After all: an error if it would not come, or went before it did. */
TM_MUST_CHECK int waking_check(struct session *session, struct tm_error *err);

/* ---- late.c ---- */

/* A process has loaded libraries: what its agent is to patch in them. Closes the connection. */
void late_answer(struct session *session, struct rendezvous_peer *peer);

/* ---- command.c ---- */

/* Answers who knocks at the control socket. */
void command_serve(struct session *session);
/* All that is recorded goes on in new files. */
void command_rotate(struct session *session);
/* SIGUSR1s that programs got since. */
void command_usr1(struct session *session);
/* The recording of one process ends; the program goes on. The file is completed meanwhile. */
void command_stop(struct session *session, struct session_process *process, const char *note);

/* ---- rotate.c ---- */

/* Begins new pieces where that is due. Nanoseconds until it must look again; UINT64_MAX: never. */
uint64_t rotate_tick(struct session *session);
/* Deletes the pieces that are more than are to be kept; after session_harvest(). */
void rotate_prune(struct session *session);

/* ---- signals.c ---- */

/* All that is readable from the signalfd: pass on, reap, mirror stops. */
void signals_handle(struct session *session);
/* The first process may have changed its state. */
void signals_reap(struct session *session);

/* ---- collector.c ---- */

void session_close(struct session *session);

/* ---- loop.c ---- */

/* Until the first process has ended, and with --children all that are recorded. */
void loop_run(struct session *session);
