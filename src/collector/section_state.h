/* SPDX-License-Identifier: Apache-2.0 */
/* A section's state, for the files that are its parts: section.c and drain.c. */
#pragma once

#include "collector/cursor.h"
#include "collector/extra.h"
#include "collector/feed.h"
#include "collector/giveway.h"
#include "collector/inherit.h"
#include "collector/merge.h"
#include "collector/names.h"
#include "collector/owner.h"
#include "collector/section.h"
#include "collector/watch.h"
#include "model/resume.h"

#include <pthread.h>

enum { SECTION_MOMENTS = 64 };

/* On the way from another thread into the trace. */
struct section_moment {
	uint64_t time_ns;
	char *text; /* owned */
	uint8_t kind;
};

/* What was given up for want of memory: shrink.c. */
struct section_shrink {
	unsigned step;            /* of the ladder: the next */
	bool paused;              /* new blocks are not recorded */
	uint64_t blocks_at_pause; /* that lived then */
	uint64_t bytes_then;      /* that the recorder had when it last gave something up */
	uint64_t checked_bytes;   /* of the model, when it was last looked at */
};

/* What recording has cost when it was last looked at (sampling.c). */
struct section_pace {
	uint64_t looked_ns, target_cpu_ns, own_cpu_ns;
	struct cursor_counters counters;
	uint64_t lost_told_ns; /* when a loss was last told */
};

/* For the words of `control` that say what is sampled, and who must know of it. */
struct mode_lock {
	pthread_mutex_t mutex;
	uint32_t owners;
};

struct section {
	struct section_options options;
	char *program, *command, *folder;
	uint64_t start_unix_ns;
	struct names *names;     /* NULL: none are looked up */
	struct unnamed *unnamed; /* told by them; NULL: nobody wants to know */
	struct section *before;  /* of the same file; NULL: the first */
	struct shm shm;
	struct wire_control *control; /* in shm; also before a piece has it; so is the next */
	struct wire_filter *filter;
	struct cursors cursors;
	struct merge merge;
	struct extra extra;
	struct lookout_start start; /* for it; of the first piece in all of them */
	struct watch *watch;
	struct owner owner;
	struct inherit_box *box; /* for children; NULL: they are not followed */
	bool inherited;          /* thread 0 has the parent's blocks */
	/* Pieces: handover.c. */
	struct section *heir;           /* set before `ending`: it gets what is below */
	struct section *elder;          /* the piece before; NULL: none */
	struct model *elder_model;      /* what lived at its end */
	struct cursor_counters counted; /* by the pieces before */
	uint64_t lost_before;
	uint32_t piece; /* from 1 */
	uint64_t piece_start_ns;
	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t given;
	bool was_given;
	char unhooked[200]; /* what could not be hooked, or "" */
	struct section_moment moments[SECTION_MOMENTS];
	_Atomic uint32_t moment_count;
	/* For other threads: section_figures(). */
	_Atomic uint64_t told_events, told_live_bytes, told_peak_bytes, told_lost, told_waited_ns;
	_Atomic uint64_t origin_ns;
	uint32_t usr1_told;
	bool disk_low, disk_hung; /* at its end: the disk was nearly full, did not answer */
	struct section_shrink shrink;
	_Atomic bool urgent; /* a note of the watch cannot wait */
	_Atomic bool begun;  /* it has from its parent what it gets */
	_Atomic bool ending;
	_Atomic bool never_on;          /* it was stopped before it was switched on */
	struct section_ending how;      /* valid once `ending` */
	struct mode_lock *mode_lock;    /* one for all pieces, as they have one `control` */
	_Atomic uint64_t sampled_bytes; /* the largest interval so far; 0: none */
	uint32_t fill_passes;           /* since all ends are told until the filter is filled */
	struct section_pace pace;
	struct giveway_pair giveway; /* the drain thread and the writing one */
	uint64_t next_tick_ns;
	uint64_t last_pass_ns;
	uint64_t sleep_ns;
	uint64_t hurry_until_ns;
	uint64_t busy_since_ns, busy_ns; /* CPU time of the passes since then */
	uint64_t apart_ns;               /* and of all that had a thread of their own */
	bool settling;                   /* the thread is there */
	pthread_t settler;
	bool resting; /* as `settling`, of `rester` */
	pthread_t rester;
	struct section_result result;
	struct feed feed; /* large: its batch is at the end */
};

/* Passes until the section has ended and all is read. */
void section_drain(struct section *section);
/*
 * What has been published so far: one pass sees it, the next releases it. Nothing once the section
 * ends, for that has passes of its own.
 */
void section_catch_up(struct section *section);
/* What the watch thread has seen since. */
void section_read_notes(struct section *section);

/* Merge and the other parts, once shm, cursors and feed are there. */
TM_MUST_CHECK int section_connect(struct section *section, struct tm_error *err);

/* ---- shrink.c ---- */

/* Memory runs short: a snapshot, or something is given up. */
void section_mind_memory(struct section *section, const struct watch_note *note);
/* After each pass: does the recorder keep --max-memory? */
void section_check_memory(struct section *section);
/* There is room again: recording goes on if it was paused for want of memory. */
void section_mind_room(struct section *section);

/* ---- switch.c ---- */

/* The drain thread looks around. Thread-safe. */
void section_wake(struct section *section);

/* Marks and pauses that came since go into the trace. Unless `wait`, only if nobody holds the lock.
 */
void section_take_moments(struct section *section, bool wait);
/* For section_figures(). */
void section_tell(struct section *section);

/* A moment for the trace, now. -ENOMEM, -ESHUTDOWN, -EAGAIN. Thread-safe. */
TM_MUST_CHECK int section_add_moment(struct section *section, enum trace_moment_kind kind,
				     const char *text);
/* One of this kind waits to be written. */
bool section_has_moment(struct section *section, enum trace_moment_kind kind);

/* ---- sampling.c ---- */

/* That of the piece before, or a new one if that is NULL. NULL without memory. */
struct mode_lock *mode_lock_share(struct mode_lock *lock);
struct mode_lock *mode_lock_free(struct mode_lock *lock);
/* The interval as the section begins (0: all is recorded); and whether a note of it waits already.
 */
uint64_t section_begin_mode(struct section *section, bool *ret_told);
/* It begins with blocks that were sampled by a larger interval than `now`: says so. */
void section_tell_begin(struct section *section, uint64_t now);
/* After each pass: the filter is filled when its time has come. */
void section_fill_filter(struct section *section);
/* Now and then: does recording cost more than it may, or make the program wait too long? */
void section_look_at_cost(struct section *section, uint64_t now_ns);
/* Enters or leaves the states in which blocks are sampled; false: `state` is none of this file. */
bool section_switch_sampled(struct section *section, enum wire_state state);

/* ---- settle.c, and section.h's section_finish_names() and section_settle() ---- */

/* All events are in the writer: what they needed is given up, beside what is still to be done. */
void section_rest(struct section *section);

/* ---- handover.c ---- */

/* All but names and the end record is done: the next piece begins. In the drain thread. */
void section_hand_over(struct section *section);
/* Waits for it, and makes the feed what the piece before left. 0, or -errno. */
TM_MUST_CHECK int section_take_over(struct section *section);
/* What lived then is the begin of this piece. After the meta data. */
void section_resume(struct section *section, struct resume *resume);
