/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"

enum { STATUS_BYTES_MAX = 64 * 1024, MAPS_BYTES_MAX = 256 * 1024 * 1024, PIDS_MAX = 1 << 22 };

void proc_path(char *ret, size_t room, pid_t pid, pid_t tid, const char *name)
{
	if (tid)
		snprintf(ret, room, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	else
		snprintf(ret, room, "/proc/%d/%s", (int)pid, name);
}

/* ---- status ---- */

/* The value of a line "Name:\tvalue", or NULL. */
static const char *field(const char *text, const char *name)
{
	size_t bytes = strlen(name);
	for (const char *line = text; line && *line;) {
		if (!strncmp(line, name, bytes) && line[bytes] == ':') {
			line += bytes + 1;
			while (*line == ' ' || *line == '\t')
				line++;
			return line;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return NULL;
}

static long number(const char *text, const char *name)
{
	const char *value = field(text, name);
	return value ? strtol(value, NULL, 10) : 0;
}

static pid_t last_number(const char *value)
{
	pid_t last = 0;
	while (value && *value && *value != '\n') {
		char *end;
		long got = strtol(value, &end, 10);
		if (end == value)
			break;
		last = (pid_t)got;
		value = end;
		while (*value == '\t' || *value == ' ')
			value++;
	}
	return last;
}

bool proc_status_parse(const char *text, struct proc_status *ret)
{
	const char *state = field(text, "State"), *name = field(text, "Name");
	const char *uid = field(text, "Uid"), *caps = field(text, "CapEff");
	*ret = (struct proc_status){0};
	if (!state || !name || !field(text, "Tgid"))
		return false;
	ret->state = *state;
	ret->group = (pid_t)number(text, "Tgid");
	ret->tracer = (pid_t)number(text, "TracerPid");
	ret->inner = last_number(field(text, "NSpid"));
	ret->seccomp = (int)number(text, "Seccomp");
	ret->filters = (unsigned)number(text, "Seccomp_filters");
	ret->no_new_privileges = number(text, "NoNewPrivs") != 0;
	ret->kernel_thread = !field(text, "VmSize") && *state != 'Z' && *state != 'X';
	ret->capabilities = caps ? strtoull(caps, NULL, 16) : 0;
	for (int i = 0; uid && i < 4; i++) {
		char *end;
		ret->uid[i] = (uid_t)strtoul(uid, &end, 10);
		uid = end;
	}
	size_t bytes = strcspn(name, "\n");
	bytes = bytes < sizeof ret->name ? bytes : sizeof ret->name - 1;
	memcpy(ret->name, name, bytes);
	return true;
}

static int read_text(const char *path, size_t limit, struct text *ret)
{
	int error = io_read_file(path, limit, ret);
	if (!error && !ret->length)
		error = -ESRCH;
	return error;
}

int proc_status_read(pid_t tid, struct proc_status *ret)
{
	char path[64];
	struct text text = {0};
	proc_path(path, sizeof path, tid, 0, "status");
	int error = read_text(path, STATUS_BYTES_MAX, &text);
	if (!error && !proc_status_parse(text_string(&text), ret))
		error = -EBADMSG;
	text_done(&text);
	return error == -ENOENT ? -ESRCH : error;
}

/* ---- maps ---- */

/* start-end perms offset major:minor inode   path */
static bool parse_line(char *line, struct proc_map *ret)
{
	unsigned long long start, end, offset, major, minor, inode;
	char perms[5];
	int used = 0;
	if (sscanf(line, "%llx-%llx %4s %llx %llx:%llx %llu %n", &start, &end, perms, &offset,
		   &major, &minor, &inode, &used) < 7 ||
	    strlen(perms) != 4 || end <= start)
		return false;
	*ret = (struct proc_map){.start = start,
				 .end = end,
				 .offset = offset,
				 .device = major << 32 | minor,
				 .inode = inode,
				 .readable = perms[0] == 'r',
				 .writable = perms[1] == 'w',
				 .executable = perms[2] == 'x',
				 .shared = perms[3] == 's',
				 .path = line + used};
	return true;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;
	for (; *text; text++)
		count += *text == '\n';
	return count;
}

int proc_maps_parse(char *text, struct proc_maps *ret)
{
	struct proc_maps maps = {.text = text};
	maps.maps = tm_alloc_array(count_lines(text) + 1, sizeof *maps.maps);
	int error = maps.maps ? 0 : -ENOMEM;
	for (char *line = text; !error && *line;) {
		char *end = strchr(line, '\n');
		if (end)
			*end = '\0';
		if (!parse_line(line, &maps.maps[maps.count]) ||
		    (maps.count && maps.maps[maps.count].start < maps.maps[maps.count - 1].end))
			error = -EBADMSG;
		maps.count++;
		line = end ? end + 1 : line + strlen(line);
		if (!end)
			break;
	}
	if (error)
		proc_maps_done(&maps);
	else
		*ret = maps;
	return error;
}

int proc_maps_read(pid_t pid, pid_t tid, struct proc_maps *ret)
{
	char path[64], *string = NULL;
	struct text text = {0};
	proc_path(path, sizeof path, pid, tid, "maps");
	int error = read_text(path, MAPS_BYTES_MAX, &text);
	if (!error)
		error = text_take(&text, &string);
	text_done(&text);
	return error ? error : proc_maps_parse(string, ret);
}

void proc_maps_done(struct proc_maps *maps)
{
	tm_free(maps->maps);
	tm_free(maps->text);
	*maps = (struct proc_maps){0};
}

const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (maps->maps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < maps->count && maps->maps[low].start <= address ? &maps->maps[low] : NULL;
}

/* ---- threads and processes ---- */

static int compare_ids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
	return x < y ? -1 : x > y;
}

/* The folders of /proc or /proc/PID/task whose names are numbers. */
static int list_numbers(const char *path, pid_t **ret, size_t *ret_count)
{
	DIR *folder = opendir(path);
	size_t count = 0, room = 0;
	pid_t *ids = NULL;
	if (!folder)
		return errno == ENOENT ? -ESRCH : -errno;
	int error = 0;
	for (struct dirent *entry; (entry = readdir(folder));) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (count == room) {
			room = room ? room * 2 : 64;
			pid_t *grown =
				room > PIDS_MAX ? NULL : tm_grow_array(ids, room, sizeof *ids);
			if (!grown) {
				error = -ENOMEM;
				break;
			}
			ids = grown;
		}
		ids[count++] = (pid_t)atoi(entry->d_name);
	}
	closedir(folder);
	if (error || !count) {
		tm_free(ids);
		return error ? error : -ESRCH;
	}
	qsort(ids, count, sizeof *ids, compare_ids);
	*ret = ids;
	*ret_count = count;
	return 0;
}

int proc_threads(pid_t pid, pid_t **ret_tids, size_t *ret_count)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	return list_numbers(path, ret_tids, ret_count);
}

/* Behind the name in parentheses, which may hold anything. */
static const char *after_name(const char *stat)
{
	const char *end = strrchr(stat, ')');
	return end && end[1] == ' ' ? end + 2 : NULL;
}

char proc_thread_state(pid_t pid, pid_t tid)
{
	char path[64], text[512];
	proc_path(path, sizeof path, pid, tid, "stat");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t bytes = read(fd, text, sizeof text - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	const char *rest = after_name(text);
	return rest ? *rest : 0;
}

pid_t proc_live_thread(pid_t pid)
{
	pid_t *tids = NULL, alive = 0;
	size_t count = 0;
	if (proc_threads(pid, &tids, &count))
		return 0;
	/* The first thread lives longest, unless it has ended already. */
	char first = proc_thread_state(pid, pid);
	if (first && !strchr("ZXx", first))
		alive = pid;
	for (size_t i = 0; alive != pid && i < count; i++) {
		char state = proc_thread_state(pid, tids[i]);
		if (state == 0 || strchr("ZXx", state))
			continue;
		alive = alive ? alive : tids[i];
		if (state == 'S') {
			alive = tids[i];
			break;
		}
	}
	tm_free(tids);
	return alive;
}

uint64_t proc_start_ticks(pid_t pid)
{
	char path[64];
	struct text text = {0};
	uint64_t ticks = 0;
	proc_path(path, sizeof path, pid, 0, "stat");
	if (!read_text(path, STATUS_BYTES_MAX, &text)) {
		const char *rest = after_name(text_string(&text));
		for (int i = 0; rest && i < 19; i++) { /* field 22; the state is 3 */
			rest = strchr(rest, ' ');
			rest = rest ? rest + 1 : NULL;
		}
		ticks = rest ? strtoull(rest, NULL, 10) : 0;
	}
	text_done(&text);
	return ticks;
}

int proc_auxv(pid_t pid, pid_t tid, uint64_t *ret, size_t words)
{
	char path[64];
	size_t bytes = 0;
	proc_path(path, sizeof path, pid, tid, "auxv");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	int error = io_read(fd, ret, words * sizeof *ret, &bytes);
	close(fd);
	if (error)
		return error;
	return bytes / sizeof *ret >= 2 ? (int)(bytes / sizeof *ret) : -ESRCH;
}

uint64_t proc_auxv_find(const uint64_t *words, size_t count, uint64_t type)
{
	for (size_t i = 0; i + 1 < count && words[i] != AT_NULL; i += 2)
		if (words[i] == type)
			return words[i + 1];
	return 0;
}

bool proc_is_named(pid_t pid, const char *name)
{
	char link[64], path[4096];
	struct proc_status status;
	if (proc_status_read(pid, &status) || status.kernel_thread || status.state == 'Z')
		return false;
	if (!strcmp(status.name, name))
		return true;
	proc_path(link, sizeof link, pid, 0, "exe");
	ssize_t bytes = readlink(link, path, sizeof path - 1);
	path[bytes > 0 ? bytes : 0] = '\0';
	const char *slash = strrchr(path, '/');
	return slash && !strcmp(slash + 1, name);
}

int proc_named(const char *name, pid_t **ret_pids, size_t *ret_count)
{
	pid_t *all = NULL;
	size_t count = 0, kept = 0;
	int error = list_numbers("/proc", &all, &count);
	for (size_t i = 0; !error && i < count; i++)
		if (all[i] != getpid() && proc_is_named(all[i], name))
			all[kept++] = all[i];
	if (!error) {
		*ret_pids = all;
		*ret_count = kept;
	}
	return error;
}
