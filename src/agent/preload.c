/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preload.h"

#include <stdint.h>

#include "agent/agent.h"
#include "agent/borrowed.h"
#include "agent/memory_ops.h"
#include "agent/sys.h"

enum {
	OLD_BYTES = 1024,   /* of another LD_PRELOAD; a longer one stays */
	ENTRIES_MAX = 1024, /* 8 KiB of stack */
	NOWHERE = ENTRIES_MAX,
};

static const char PRELOAD[] = "LD_PRELOAD=";
static const char SESSION[] = WIRE_SESSION_ENV "=";

struct found {
	size_t count;
	size_t preload, session; /* where in the list; NOWHERE */
	char old[OLD_BYTES];     /* what LD_PRELOAD says, or "" */
};

bool preload_wanted(bool spawn)
{
	if (!agent_fixed.preloaded || !atomic_load(&agent_fixed.was_on) || !agent_own_path())
		return false;
	return agent_fixed.follow_fork || agent_fixed.starter ||
	       (!spawn && (uint32_t)sys_getpid() == agent_fixed.pid);
}

static bool is_named(const char *entry, const char *name, size_t name_bytes)
{
	char begin[sizeof SESSION];
	return borrowed_read(entry, begin, name_bytes) && !memcmp(begin, name, name_bytes);
}

/* False: it cannot be read, or is too large, or asks for another session than ours. */
static bool look(char *const *envp, struct found *ret)
{
	const char *entry;
	char first;
	char session[WIRE_PAGE_SESSION_BYTES];
	ret->preload = ret->session = NOWHERE;
	ret->old[0] = '\0';
	for (ret->count = 0; envp; ret->count++) {
		if (ret->count == ENTRIES_MAX || !borrowed_read(envp + ret->count, &entry, 8))
			return false;
		if (!entry)
			return true;
		if (!borrowed_read(entry, &first, 1)) /* the kernel will refuse it */
			return false;
		if (first == PRELOAD[0] && is_named(entry, PRELOAD, sizeof PRELOAD - 1)) {
			ret->preload = ret->count; /* the loader takes the last */
			if (!borrowed_string(entry + sizeof PRELOAD - 1, ret->old, OLD_BYTES))
				return false;
		} else if (first == SESSION[0] && is_named(entry, SESSION, sizeof SESSION - 1)) {
			ret->session = ret->count;
			if (!borrowed_string(entry + sizeof SESSION - 1, session, sizeof session) ||
			    strlen(session) != strlen(agent_fixed.session) ||
			    memcmp(session, agent_fixed.session, strlen(session)) != 0)
				return false;
		}
	}
	return true;
}

static bool has_agent(const char *list)
{
	size_t own_bytes = strlen(agent_own_path());
	while (*list) {
		size_t bytes = 0;
		while (list[bytes] && list[bytes] != ':' && list[bytes] != ' ')
			bytes++;
		if (bytes == own_bytes && !memcmp(list, agent_own_path(), bytes))
			return true;
		list += bytes + (list[bytes] != '\0');
	}
	return false;
}

/* The list with two more and its end; "NAME=ours:old"; "NAME=session". */
static size_t room_for(const struct found *found)
{
	return (found->count + 3) * sizeof(char *) + sizeof PRELOAD + strlen(agent_own_path()) + 1 +
	       strlen(found->old) + sizeof SESSION + strlen(agent_fixed.session);
}

__attribute__((noinline)) size_t preload_room(char *const *envp)
{
	struct found found;
	if (!look(envp, &found) || (found.session != NOWHERE && has_agent(found.old)))
		return 0;
	return room_for(&found);
}

static char *put(char *to, const char *text)
{
	size_t bytes = strlen(text);
	memcpy(to, text, bytes + 1);
	return to + bytes;
}

/* Behind the list. What is there already stays in its place. */
static void put_entries(const struct found *found, char **list)
{
	size_t count = found->count;
	char *text = (char *)(list + count + 3);
	if (!has_agent(found->old)) {
		list[found->preload == NOWHERE ? count++ : found->preload] = text;
		text = put(put(text, PRELOAD), agent_own_path());
		if (found->old[0])
			text = put(put(text, ":"), found->old);
		text++;
	}
	if (found->session == NOWHERE) {
		list[count++] = text;
		put(put(text, SESSION), agent_fixed.session);
	}
	list[count] = NULL;
}

__attribute__((noinline)) char *const *preload_put(char *const *envp, void *memory, size_t room)
{
	struct found found;
	char **list = memory;
	/* Another thread may change it meanwhile. */
	if (!look(envp, &found) || room_for(&found) > room ||
	    (found.count && !borrowed_read(envp, list, found.count * sizeof *list)))
		return envp;
	put_entries(&found, list);
	return list;
}
