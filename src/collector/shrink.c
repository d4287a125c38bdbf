/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the drain thread does when memory runs short (pressure.h decides when):
 * a snapshot of what holds the memory before the kernel kills; and what is given
 * up, step by step, so that the figures stay exact for as long as can be:
 *
 *   caches   what is only there for speed; slices end earlier   nothing is lost
 *   names    the process that looks them up ends                can be made up for later
 *   sample   blocks are chosen by chance, fewer at each step    figures are estimates
 *   pause    new blocks are not recorded; the ends of known     from here on the figures are
 *            ones are, and it goes on when half have ended      those of the known blocks
 *
 * Each step is a moment in the trace.
 */
#include "collector/section_state.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "collector/procfs.h"

enum {
	HELPER_WORTH_BYTES = 16 << 20,
	GROWTH_BYTES = 2 << 20,
	SAMPLE_LOG2 = 16, /* 64 KiB */
	SAMPLE_LOG2_STEP = 4,
	SAMPLE_LOG2_MAX = 24, /* 16 MiB */
};

static void put_moment(struct section *section, uint64_t now_ns, const char *sentence)
{
	uint64_t origin_ns = section->feed.clock.origin_ns;
	feed_moment(&section->feed,
		    &(struct trace_moment){.time_ns = now_ns > origin_ns ? now_ns - origin_ns : 0,
					   .kind = TRACE_MOMENT_MODE,
					   .text = sentence});
}

static void say(struct section *section, const struct pressure_look *look, const char *words)
{
	char sentence[240];
	snprintf(sentence, sizeof sentence, "short of memory (tidemark has %s): %s",
		 units_bytes(look->own_bytes).text, words);
	put_moment(section, look->now_ns, sentence);
}

/* ---- before the kernel kills ---- */

static void snapshot(struct section *section, const struct pressure_look *look)
{
	char sentence[200];
	struct units_text used = units_bytes(look->program.used_bytes);
	snprintf(sentence, sizeof sentence,
		 "near the memory limit: %s of %s are used; snapshot on disk", used.text,
		 units_bytes(look->program.limit_bytes).text);
	section_catch_up(section);
	put_moment(section, look->now_ns, sentence);
	feed_snapshot(&section->feed);
}

/* ---- the ladder ---- */

static bool drop_caches(struct section *section)
{
	trace_writer_shrink(section->feed.writer);
	model_shrink(section->feed.model);
	if (section->feed.cull)
		cull_shrink(section->feed.cull, section->feed.writer);
	malloc_trim(0);
	return true;
}

static bool drop_names(struct section *section)
{
	pid_t helper = section->options.helper;
	if (helper <= 0 || procfs_held_with_children(helper) < HELPER_WORTH_BYTES)
		return false;
	/* It is a child of this process, which waits for it at the very end: the number stays its
	 * own. Its workers end with it. */
	return kill(helper, SIGKILL) == 0;
}

static const struct step {
	bool (*take)(struct section *section); /* false: there is nothing to give up */
	const char *words;
} ladder[] = {
	{drop_caches, "buffers are kept small"},
	{drop_names, "no more names are looked up; 'tidemark symbolize' can do it later"},
};
enum { LADDER_STEPS = sizeof ladder / sizeof ladder[0] };

/* False: the interval is as long as makes sense. */
static bool sample(struct section *section)
{
	uint64_t interval = section_sample_bytes(section);
	unsigned log2 = SAMPLE_LOG2;
	if (interval >= 1ull << SAMPLE_LOG2_MAX)
		return false;
	while (interval >> log2)
		log2 += SAMPLE_LOG2_STEP;
	section_set_sampling(section, log2, "short of memory");
	return true;
}

static void give_up_exactness(struct section *section, const struct pressure_look *look)
{
	struct section_shrink *shrink = &section->shrink;
	struct model_totals totals;
	/* Places of blocks that have ended are used again, but stay ours: only growth counts. */
	if (look->own_bytes < shrink->bytes_then + GROWTH_BYTES ||
	    section_state(section) != WIRE_RECORD)
		return;
	shrink->bytes_then = look->own_bytes;
	if (sample(section))
		return;
	model_totals(section->feed.model, &totals);
	shrink->paused = true;
	shrink->blocks_at_pause = totals.live_blocks;
	section->feed.paused.count_only = true;
	section_set_state(section, WIRE_PAUSED);
	say(section, look, "new blocks are not recorded until half of the known ones are freed");
}

static void give_up(struct section *section, const struct watch_note *note)
{
	const struct pressure_look *look = &note->look;
	struct section_shrink *shrink = &section->shrink;
	while (shrink->step < LADDER_STEPS) {
		const struct step *step = &ladder[shrink->step++];
		if (step->take(section)) {
			shrink->bytes_then = note->verdict.over ? 0 : look->own_bytes;
			say(section, look, step->words);
			return;
		}
	}
	if (note->verdict.deep)
		give_up_exactness(section, look);
}

/* What is in the pool, as blocks that live: it comes though new blocks are no longer recorded. */
static uint64_t pool_bytes(const struct section *section)
{
	return (uint64_t)section->shm.map.chunk_count * WIRE_CHUNK_BYTES * 5 / 2;
}

void section_check_memory(struct section *section)
{
	struct section_shrink *shrink = &section->shrink;
	uint64_t most = section->options.max_memory_bytes;
	uint64_t held = model_memory_bytes(section->feed.model);
	if (!most || held < shrink->checked_bytes + GROWTH_BYTES)
		return;
	shrink->checked_bytes = held;
	struct watch_note note = {.verdict = {.deep = true, .over = true},
				  .look.now_ns = clock_steady_ns()};
	uint64_t margin = pool_bytes(section) < most / 3 ? pool_bytes(section) : most / 3;
	for (unsigned i = 0; i <= LADDER_STEPS; i++) {
		note.look.own_bytes = procfs_held_bytes(getpid());
		if (section->options.helper > 0)
			note.look.own_bytes += procfs_held_with_children(section->options.helper);
		if (note.look.own_bytes + margin < most)
			return;
		give_up(section, &note);
	}
}

void section_mind_room(struct section *section)
{
	struct section_shrink *shrink = &section->shrink;
	struct model_totals totals;
	if (!shrink->paused)
		return;
	model_totals(section->feed.model, &totals);
	if (totals.live_blocks > shrink->blocks_at_pause / 2)
		return;
	shrink->paused = false;
	if (section_state(section) == WIRE_PAUSED)
		section_set_state(section, WIRE_RECORD);
}

void section_mind_memory(struct section *section, const struct watch_note *note)
{
	if (note->verdict.snapshot)
		snapshot(section, &note->look);
	if (note->verdict.shrink)
		give_up(section, note);
}
