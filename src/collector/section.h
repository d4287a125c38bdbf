/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One recorded process image, from its first event to its end record. The
 * drain loop lives here: it shares its thread with nothing that may block.
 */
#pragma once

#include "base/error.h"
#include "collector/shm.h"
#include "collector/stamp.h"
#include "collector/unnamed.h"
#include "model/model.h"
#include "trace/trace.h"

#include <sys/types.h>

struct giveway;
struct section;

/* Called once when the end waits for names; from the section's thread. */
typedef void (*section_naming_fn)(void *ctx);

struct section_options {
	pid_t pid; /* as this process sees it */
	pid_t parent;
	const char *program, *command, *folder; /* copied; folder: its current one */
	bool tsc;                               /* stamps are of the time-stamp counter */
	struct stamp_pair earlier;              /* read when the collector began */
	bool addresses, free_stacks;
	int names_fd;      /* a namer's stream, taken over (also on failure); 0 or less: none */
	bool tell_unnamed; /* with names: find out which module lacks them */
	section_naming_fn naming; /* may be NULL */
	void *naming_ctx;
	uint32_t depth;
	bool woken;                  /* the program ran before: older blocks are not known */
	uint64_t series_id;          /* of the pieces that this may become; not 0 */
	int usr1_fd;                 /* an eventfd, told of SIGUSR1s to the program; 0 none */
	bool follow_forks;           /* children that fork begin with what is live here */
	struct section *forked_from; /* the parent's section; NULL none. See section_awaits() */
	pid_t helper;                /* the process that looks up names; 0 none */
	uint64_t max_memory_bytes;   /* of the recorder; 0 no limit */
	uint64_t cull_ns; /* blocks that live shorter are counted, not stored; 0: all are stored */
	unsigned sample_log2;    /* of the interval to sample blocks by; 0: all are recorded */
	double max_overhead;     /* raise the interval beyond this share of CPU; 0: never */
	double overload_share;   /* sample when it waits for longer than this; 0: never */
	struct giveway *giveway; /* for its threads; NULL: they do not give way */
	const char *unhooked;    /* what could not be hooked, copied; NULL or "" nothing */
};

/* Takes shm over (also on failure). */
TM_MUST_CHECK int section_new(const struct section_options *options, struct shm *shm,
			      struct section **ret_section, struct tm_error *err);
struct section *section_free(struct section *section);
/*
 * The next piece of a recording: a section that goes on where `before` will end.
 * `options` as for section_new(), of which forked_from, woken, depth, tsc and
 * earlier do not count. When it is added to a recording, call section_rotate().
 */
TM_MUST_CHECK int section_new_piece(const struct section_options *options, struct section *before,
				    struct section **ret_section, struct tm_error *err);
/*
 * Ends `section`, in favour of `next`; `next` must live as long. Waits a moment, so that what
 * happens after is in `next`; if the disk is slow, it may still be in `section`. Thread-safe.
 * children_recorded: as in struct section_ending, of `section`.
 */
void section_rotate(struct section *section, struct section *next, uint64_t children_recorded);

/* forked_from, if it has not yet taken what it gets from there: that must live until then. Else
 * NULL. Thread-safe. */
const struct section *section_awaits(const struct section *section);

/* The image is over; the drain loop ends when all is read. Thread-safe. */
struct section_ending {
	uint32_t cause; /* enum trace_end_cause */
	int32_t status;
	uint64_t children_recorded; /* of its children, those that have traces of their own */
	uint64_t peak_rss_bytes;    /* as the kernel says; 0 unknown */
	bool status_unknown; /* cause and status are a guess: believe the program's exit call */
	bool more_follows;   /* another section of the same file is waiting */
	bool still_runs;     /* the program goes on: events may be on their way */
	const char *note;    /* a sentence that lives as long as the section, or NULL */
};
void section_end(struct section *section, const struct section_ending *ending);

/* Record, pause or stop: what the agent is told, and the trace where it was paused. Thread-safe. */
void section_set_state(struct section *section, enum wire_state state);
enum wire_state section_state(const struct section *section);
/* Its agent has the memory and records. Thread-safe. */
bool section_agent_ready(const struct section *section);
/*
 * From now on blocks are sampled by this interval; 0: all are recorded. `why` is
 * for the trace, in a few words; "" if somebody asked for it. Thread-safe.
 */
void section_set_sampling(struct section *section, unsigned interval_log2, const char *why);
/* The present interval in bytes; 0: all blocks are recorded. Thread-safe. */
uint64_t section_sample_bytes(const struct section *section);
/* Names this moment. Thread-safe. -ENOMEM, or -ESHUTDOWN when it is over. */
TM_MUST_CHECK int section_mark(struct section *section, const char *text);

/* What could not be hooked, as it is now; "" nothing. Thread-safe. */
void section_set_unhooked(struct section *section, const char *text);

/* How it goes, some milliseconds ago. Thread-safe. */
struct section_figures {
	uint64_t events, live_bytes, peak_bytes, lost_events;
	uint64_t age_ns, waited_ns;
	uint32_t piece; /* from 1 */
	uint32_t usr1;  /* SIGUSR1s that the program got for us */
};
void section_figures(const struct section *section, struct section_figures *ret);

/* Drains until section_end() and beyond, to the end record. The writer is borrowed. */
int section_run(struct section *section, struct trace_writer *writer, struct tm_error *err);

/* Before section_run(): the section before, whose names may still be coming. */
void section_follow(struct section *section, struct section *before);
/* Waits for the names of a section that was replaced by exec. */
void section_finish_names(struct section *section, struct trace_writer *writer);
/* After both: waits for what was left to another thread, and the result is whole. */
void section_settle(struct section *section);

/* After section_run(): what the end lines say. */
struct section_result {
	struct model_totals totals;
	struct trace_end end;
	uint64_t bad_events;
	bool agent_ready;
	bool never_on;          /* it was over before recording was switched on (--delay) */
	uint64_t sampled_bytes; /* the largest interval that blocks were sampled by; 0: none was */
	unsigned name_warnings; /* files that could not be used for names */
	char name_warning[512]; /* about the first of them */
	bool named;             /* names were looked up */
	bool names_cut;         /* not all names were looked up */
	struct unnamed_answer unnamed; /* of what is named */
};
const struct section_result *section_result(const struct section *section);
