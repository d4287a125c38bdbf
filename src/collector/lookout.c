/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/lookout.h"

#include <string.h>
#include <unistd.h>

#include "collector/procfs.h"

void lookout_find(pid_t pid, struct lookout_start *ret)
{
	cgroup_find(pid, &ret->program);
	ret->oom_kills = cgroup_oom_kills(&ret->program);
}

void lookout_init(struct lookout *lookout, const struct lookout_options *options)
{
	static const unsigned percents[LOOKOUT_ALARMS] = {PRESSURE_NEAR_PERCENT, 95, 98};
	*lookout = (struct lookout){.options = *options,
				    .program = &options->start->program,
				    .pressure.max_bytes = options->max_bytes};
	cgroup_find(getpid(), &lookout->own);
	lookout->same = !strcmp(lookout->program->levels[0], lookout->own.levels[0]);
	for (int i = 0; i < LOOKOUT_ALARMS; i++) {
		/* Version 2 has one kind of alarm only. */
		bool useful = lookout->program->version == 1 || i == 0;
		lookout->alarms[i] = useful ? cgroup_alarm(lookout->program, percents[i]) : -1;
	}
}

void lookout_done(struct lookout *lookout)
{
	for (int i = 0; i < LOOKOUT_ALARMS; i++)
		if (lookout->alarms[i] >= 0)
			close(lookout->alarms[i]);
}

void lookout_polls(const struct lookout *lookout, struct pollfd *polls)
{
	short events = lookout->program->version == 1 ? POLLIN : POLLPRI;
	for (int i = 0; i < LOOKOUT_ALARMS; i++)
		polls[i] = (struct pollfd){.fd = lookout->alarms[i], .events = events};
}

void lookout_heard(struct lookout *lookout, const struct pollfd *polls)
{
	for (int i = 0; i < LOOKOUT_ALARMS; i++)
		if (polls[i].fd >= 0 && polls[i].revents) {
			cgroup_alarm_seen(polls[i].fd);
			lookout->next_ns = 0;
		}
}

static uint64_t own_bytes(const struct lookout *lookout)
{
	uint64_t bytes = procfs_held_bytes(getpid());
	if (lookout->options.helper > 0)
		bytes += procfs_held_with_children(lookout->options.helper);
	return bytes;
}

bool lookout_check(struct lookout *lookout, uint64_t now_ns, struct pressure_verdict *ret)
{
	struct pressure_look *look = &lookout->look;
	if (now_ns < lookout->next_ns)
		return false;
	look->now_ns = now_ns;
	cgroup_memory(lookout->program, &look->program);
	if (lookout->same)
		look->own = look->program;
	else
		cgroup_memory(&lookout->own, &look->own);
	look->own_bytes = 0;
	if (lookout->options.max_bytes || look->own.limit_bytes)
		look->own_bytes = own_bytes(lookout);
	pressure_judge(&lookout->pressure, look, ret);
	lookout->next_ns = now_ns + ret->again_ns;
	return ret->snapshot || ret->shrink;
}

bool lookout_has_limit(const struct lookout *lookout)
{
	return pressure_has_limit(&lookout->pressure, &lookout->look);
}

uint64_t lookout_oom_kills(const struct lookout *lookout)
{
	return cgroup_oom_kills(lookout->program) - lookout->options.start->oom_kills;
}
