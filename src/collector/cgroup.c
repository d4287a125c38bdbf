/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/io.h"

enum { FILE_BYTES_MAX = 64 * 1024 };
#define NO_LIMIT (1ull << 60) /* version 1 says it by a number near 2^63 */

/* The names of what is read, by version. */
struct files {
	const char *current, *limit, *events, *kills, *hits_file, *hits, *cache;
};
static const struct files files_of[] = {
	[1] = {.current = "memory.usage_in_bytes",
	       .limit = "memory.limit_in_bytes",
	       .events = "memory.oom_control",
	       .kills = "oom_kill ",
	       .hits_file = "memory.failcnt",
	       .hits = "",
	       .cache = "total_inactive_file "},
	[2] = {.current = "memory.current",
	       .limit = "memory.max",
	       .events = "memory.events",
	       .kills = "oom_kill ",
	       .hits_file = "memory.events",
	       .hits = "max ",
	       .cache = "inactive_file "},
};

static int read_file(const char *folder, const char *name, struct text *text)
{
	char path[CGROUP_PATH + 64];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return io_read_file(path, FILE_BYTES_MAX, text);
}

/* The number after `key` at the start of a line, or at the start of all if it is ""; else 0. */
static uint64_t read_number(const char *folder, const char *name, const char *key)
{
	struct text text = {0};
	uint64_t value = 0;
	size_t bytes = strlen(key);
	if (!read_file(folder, name, &text)) {
		const char *line = text_string(&text);
		while (line && strncmp(line, key, bytes) != 0) {
			line = strchr(line, '\n');
			line += line != NULL;
		}
		if (line)
			value = strtoull(line + bytes, NULL, 10); /* "max" is 0 */
	}
	text_done(&text);
	return value;
}

/* ---- where ---- */

/* Is `name` one of the comma-separated names up to `end`? "" matches only none. */
static bool is_among(const char *names, const char *end, const char *name)
{
	size_t bytes = strlen(name);
	if (!bytes)
		return names == end;
	while (names < end) {
		const char *comma = memchr(names, ',', (size_t)(end - names));
		const char *stop = comma ? comma : end;
		if ((size_t)(stop - names) == bytes && !strncmp(names, name, bytes))
			return true;
		names = stop + 1;
	}
	return false;
}

/* The path of a controller in the lines "N:names:path". */
static bool find_path(const char *text, const char *controller, char *ret_path, size_t bytes)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		const char *first = strchr(line, ':');
		const char *second = first ? strchr(first + 1, ':') : NULL;
		if (!second)
			return false;
		if (!is_among(first + 1, second, controller))
			continue;
		size_t length = strcspn(second + 1, "\n");
		/* A process outside our namespace shows as "/..": its files are not in sight. */
		return length < bytes && !strstr(second + 1, "..") &&
		       snprintf(ret_path, bytes, "%.*s", (int)length, second + 1) >= 0;
	}
	return false;
}

static bool has_file(const char *folder, const char *name)
{
	char path[CGROUP_PATH + 64];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return access(path, R_OK) == 0;
}

/* The folder and those above it, down to the mount. False: not even the first is there. */
static bool add_levels(struct cgroup *group, const char *mount, const char *path)
{
	char folder[CGROUP_PATH];
	const char *current = files_of[group->version].current;
	int length = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(path, "/") ? path : "");
	if (length < 0 || (size_t)length >= sizeof folder || !has_file(folder, current))
		return false;
	while (group->level_count < CGROUP_LEVELS && strlen(folder) >= strlen(mount)) {
		/* The root group of version 2 has no such files. */
		if (has_file(folder, current))
			memcpy(group->levels[group->level_count++], folder, sizeof folder);
		char *slash = strrchr(folder, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
	return true;
}

static bool try_version(struct cgroup *group, unsigned version, const char *mount, const char *text)
{
	char path[CGROUP_PATH];
	*group = (struct cgroup){.version = version};
	if (!find_path(text, version == 1 ? "memory" : "", path, sizeof path))
		return false;
	/* In a container the path is often that of the host, and its group the mount itself. */
	return add_levels(group, mount, path) || add_levels(group, mount, "/");
}

void cgroup_find_in(const char *root, const char *text, struct cgroup *ret)
{
	char memory[CGROUP_PATH];
	snprintf(memory, sizeof memory, "%s/memory", root);
	if (!try_version(ret, 1, memory, text) && !try_version(ret, 2, root, text))
		*ret = (struct cgroup){0};
}

/* For tests: a folder with the files of one group, of either version. */
static bool find_told(const char *folder, struct cgroup *ret)
{
	if (!folder || strlen(folder) >= CGROUP_PATH)
		return false;
	*ret = (struct cgroup){.level_count = 1};
	ret->version = has_file(folder, files_of[1].current) ? 1 : 2;
	snprintf(ret->levels[0], sizeof ret->levels[0], "%s", folder);
	return true;
}

void cgroup_find(pid_t pid, struct cgroup *ret)
{
	char path[64];
	struct text text = {0};
	if (find_told(getenv("TIDEMARK_CGROUP"), ret))
		return;
	*ret = (struct cgroup){0};
	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	if (!io_read_file(path, FILE_BYTES_MAX, &text))
		cgroup_find_in("/sys/fs/cgroup", text_string(&text), ret);
	text_done(&text);
}

/* ---- what ---- */

static uint64_t limit_of(const struct cgroup *group, unsigned level)
{
	uint64_t limit = read_number(group->levels[level], files_of[group->version].limit, "");
	return limit < NO_LIMIT ? limit : 0;
}

/* The level that leaves the least room, or -1. */
static int tightest(const struct cgroup *group, uint64_t *ret_current, uint64_t *ret_limit)
{
	int best = -1;
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < group->level_count; i++) {
		uint64_t limit = limit_of(group, i);
		if (!limit)
			continue;
		uint64_t current =
			read_number(group->levels[i], files_of[group->version].current, "");
		uint64_t room = limit > current ? limit - current : 0;
		if (room >= least)
			continue;
		best = (int)i;
		least = room;
		*ret_current = current;
		*ret_limit = limit;
	}
	return best;
}

void cgroup_memory(const struct cgroup *group, struct cgroup_memory *ret)
{
	const struct files *files = &files_of[group->version];
	*ret = (struct cgroup_memory){0};
	if (!group->level_count)
		return;
	int level = tightest(group, &ret->current_bytes, &ret->limit_bytes);
	if (level < 0) {
		ret->current_bytes = read_number(group->levels[0], files->current, "");
		return;
	}
	const char *folder = group->levels[level];
	uint64_t current = ret->current_bytes;
	ret->used_bytes = current;
	/* The count of pages is dear to ask for: only when it may matter. */
	if (current > ret->limit_bytes / 2) {
		uint64_t cache = read_number(folder, "memory.stat", files->cache);
		ret->used_bytes -= cache < current ? cache : current;
	}
	ret->hits = read_number(folder, files->hits_file, files->hits);
}

uint64_t cgroup_oom_kills(const struct cgroup *group)
{
	const struct files *files = &files_of[group->version];
	return group->level_count ? read_number(group->levels[0], files->events, files->kills) : 0;
}

/* ---- being told ---- */

/* Version 1: an eventfd that is written to when the use passes a threshold. */
static int alarm_at(const char *folder, uint64_t bytes)
{
	char path[CGROUP_PATH + 64], line[96];
	snprintf(path, sizeof path, "%s/memory.usage_in_bytes", folder);
	int usage = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof path, "%s/cgroup.event_control", folder);
	int control = open(path, O_WRONLY | O_CLOEXEC);
	int alarm = usage < 0 || control < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error = alarm < 0 ? -errno : 0;
	if (!error) {
		int length = snprintf(line, sizeof line, "%d %d %" PRIu64, alarm, usage, bytes);
		error = io_write(control, line, (size_t)length);
	}
	if (usage >= 0)
		close(usage); /* the kernel holds what it needs */
	if (control >= 0)
		close(control);
	if (error && alarm >= 0)
		close(alarm);
	return error ? error : alarm;
}

int cgroup_alarm(const struct cgroup *group, unsigned percent)
{
	char path[CGROUP_PATH + 64];
	uint64_t current, limit;
	int level = tightest(group, &current, &limit);
	if (level < 0)
		return -ENOENT;
	if (group->version == 1)
		return alarm_at(group->levels[level], limit / 100 * percent);
	/* Version 2 tells when the limit was met; what is read first counts as seen. */
	snprintf(path, sizeof path, "%s/memory.events", group->levels[level]);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	cgroup_alarm_seen(fd);
	return fd;
}

void cgroup_alarm_seen(int fd)
{
	char count[512]; /* of an eventfd: eight bytes */
	if (pread(fd, count, sizeof count, 0) < 0 && errno == ESPIPE &&
	    read(fd, count, sizeof count) < 0)
		return; /* another look will come by time */
}
