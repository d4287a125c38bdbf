/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/pressure.h"

#define MS_NS 1000000ull

enum {
	WELL_PERCENT = 85,   /* below this the levels count anew */
	OWN_PERCENT = 85,    /* of --max-memory: from here on something is given up */
	SHARE_WORTH = 25,    /* of a group's limit, in percent: worth exactness */
	SETTLE_MS = 200,     /* for a step to show its effect */
	HITS_MS = 10 * 1000, /* between snapshots because the limit was met again */
	IDLE_MS = 1000,      /* between looks without any limit */
	WATCHFUL_MS = 100,   /* with one */
	HASTY_MS = 2,        /* at least */
};

/* Of the group's limit: a snapshot at each. */
static const unsigned levels[] = {PRESSURE_NEAR_PERCENT, 95, 98};
enum { LEVELS = sizeof levels / sizeof levels[0] };

static bool beyond(uint64_t used, uint64_t limit, unsigned percent)
{
	return limit && used >= limit / 100 * percent;
}

static bool wants_snapshot(struct pressure *p, const struct pressure_look *look)
{
	const struct cgroup_memory *group = &look->program;
	bool is_first = p->looked_ns == 0, wanted = false;
	if (!beyond(group->used_bytes, group->limit_bytes, WELL_PERCENT))
		p->level = 0;
	while (p->level < LEVELS &&
	       beyond(group->used_bytes, group->limit_bytes, levels[p->level])) {
		p->level++;
		wanted = true;
	}
	/* It was met between two looks, or is met all the time. */
	if (group->limit_bytes && group->hits > p->seen_hits && !is_first &&
	    look->now_ns - p->snapshot_ns >= HITS_MS * MS_NS &&
	    beyond(group->used_bytes, group->limit_bytes, WELL_PERCENT))
		wanted = true;
	p->seen_hits = group->hits;
	if (wanted)
		p->snapshot_ns = look->now_ns;
	return wanted;
}

static void judge_own(struct pressure *p, const struct pressure_look *look,
		      struct pressure_verdict *ret)
{
	const struct cgroup_memory *group = &look->own;
	bool by_limit = beyond(look->own_bytes, p->max_bytes, OWN_PERCENT);
	bool by_group = beyond(group->used_bytes, group->limit_bytes, PRESSURE_NEAR_PERCENT);
	bool over = p->max_bytes && look->own_bytes >= p->max_bytes;
	if (!by_limit && !by_group)
		return;
	if (!over && p->shrink_ns && look->now_ns - p->shrink_ns < SETTLE_MS * MS_NS)
		return;
	p->shrink_ns = look->now_ns;
	ret->shrink = true;
	ret->over = over;
	ret->deep = by_limit || beyond(look->own_bytes, group->limit_bytes, SHARE_WORTH);
}

/* A quarter of the time in which the goal would be reached at the present rate, `most` at most. */
static uint64_t reach_ns(uint64_t before, uint64_t now, uint64_t goal, uint64_t passed_ns,
			 uint64_t most)
{
	if (!passed_ns || now <= before || goal <= now)
		return most;
	double rate = (double)(now - before) / (double)passed_ns;
	double reach = (double)(goal - now) / rate / 4;
	return reach < (double)most ? (uint64_t)reach : most;
}

bool pressure_has_limit(const struct pressure *p, const struct pressure_look *look)
{
	return look->program.limit_bytes || look->own.limit_bytes || p->max_bytes;
}

static uint64_t next_look(const struct pressure *p, const struct pressure_look *look)
{
	const struct cgroup_memory *group = &look->program;
	uint64_t again = (pressure_has_limit(p, look) ? WATCHFUL_MS : IDLE_MS) * MS_NS;
	uint64_t passed = p->looked_ns ? look->now_ns - p->looked_ns : 0;
	unsigned percent = levels[p->level < LEVELS ? p->level : LEVELS - 1];
	again = reach_ns(p->used_bytes, group->used_bytes, group->limit_bytes / 100 * percent,
			 passed, again);
	again = reach_ns(p->own_bytes, look->own_bytes, p->max_bytes / 100 * OWN_PERCENT, passed,
			 again);
	return again > HASTY_MS * MS_NS ? again : HASTY_MS * MS_NS;
}

void pressure_judge(struct pressure *p, const struct pressure_look *look,
		    struct pressure_verdict *ret)
{
	*ret = (struct pressure_verdict){.again_ns = next_look(p, look)};
	ret->snapshot = wants_snapshot(p, look);
	judge_own(p, look, ret);
	p->used_bytes = look->program.used_bytes;
	p->own_bytes = look->own_bytes;
	p->looked_ns = look->now_ns;
}
