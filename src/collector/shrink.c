/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the drain thread does when memory runs short (pressure.h decides when):
 * snapshots of what holds the memory, before the kernel kills.
 */
#include "collector/section_state.h"

#include <stdio.h>

#include "base/units.h"

static void say(struct section *section, uint64_t now_ns, const char *sentence)
{
	uint64_t origin_ns = section->feed.clock.origin_ns;
	feed_moment(&section->feed,
		    &(struct trace_moment){.time_ns = now_ns > origin_ns ? now_ns - origin_ns : 0,
					   .kind = TRACE_MOMENT_MODE,
					   .text = sentence});
}

static void snapshot(struct section *section, const struct pressure_look *look)
{
	char sentence[200];
	struct units_text used = units_bytes(look->program.used_bytes);
	snprintf(sentence, sizeof sentence,
		 "near the memory limit: %s of %s are used; snapshot on disk", used.text,
		 units_bytes(look->program.limit_bytes).text);
	say(section, look->now_ns, sentence);
	feed_snapshot(&section->feed);
}

void section_mind_memory(struct section *section, const struct watch_note *note)
{
	if (note->verdict.snapshot)
		snapshot(section, &note->look);
}
