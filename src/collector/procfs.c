/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/quote.h"

enum { SMALL_FILE = 64 * 1024, COMMAND_BYTES_MAX = 4 * 1024 * 1024, COMMAND_SHOWN = 16 * 1024 };

__attribute__((format(printf, 2, 3))) static int read_file(struct text *text, const char *format,
							   ...)
{
	char path[600];
	va_list args;
	va_start(args, format);
	vsnprintf(path, sizeof path, format, args);
	va_end(args);
	return io_read_file(path, SMALL_FILE, text);
}

/* The number after `key` at the start of a line, or 0. */
static uint64_t field(const char *text, const char *key)
{
	size_t bytes = strlen(key);
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, bytes) == 0)
			return strtoull(line + bytes, NULL, 10);
	}
	return 0;
}

bool procfs_resident(pid_t pid, struct procfs_memory *ret)
{
	struct text text = {0};
	unsigned long long total, resident = 0, backed = 0;
	/* The third is of files and shared memory: what is left of the second is anonymous. */
	bool ok = !read_file(&text, "/proc/%d/statm", (int)pid) &&
		  sscanf(text_string(&text), "%llu %llu %llu", &total, &resident, &backed) == 3 &&
		  resident;
	text_done(&text);
	if (!ok)
		return false;
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	ret->rss_bytes = resident * page_bytes;
	ret->anon_bytes = resident > backed ? (resident - backed) * page_bytes : 0;
	return true;
}

bool procfs_rollup(pid_t pid, struct procfs_memory *ret)
{
	struct text text = {0};
	bool ok = !read_file(&text, "/proc/%d/smaps_rollup", (int)pid) && text.length > 0;
	if (ok) {
		ret->rss_bytes = field(text_string(&text), "Rss:") * 1024;
		ret->pss_bytes = field(text_string(&text), "Pss:") * 1024;
		ret->anon_bytes = field(text_string(&text), "Anonymous:") * 1024;
	}
	text_done(&text);
	return ok;
}

static uint64_t status_field(pid_t pid, const char *key)
{
	struct text text = {0};
	uint64_t value = 0;
	if (!read_file(&text, "/proc/%d/status", (int)pid))
		value = field(text_string(&text), key);
	text_done(&text);
	return value;
}

uint64_t procfs_held_bytes(pid_t pid)
{
	struct text text = {0};
	uint64_t kib = 0;
	if (!read_file(&text, "/proc/%d/status", (int)pid))
		kib = field(text_string(&text), "RssAnon:") +
		      field(text_string(&text), "RssShmem:");
	text_done(&text);
	return kib * 1024;
}

uint64_t procfs_peak_bytes(pid_t pid)
{
	return status_field(pid, "VmHWM:") * 1024;
}

uint64_t procfs_held_with_children(pid_t pid)
{
	struct text text = {0};
	uint64_t bytes = procfs_held_bytes(pid);
	if (!read_file(&text, "/proc/%d/task/%d/children", (int)pid, (int)pid)) {
		char *at = text.data;
		for (long child; at && (child = strtol(at, &at, 10)) > 0;)
			bytes += procfs_held_bytes((pid_t)child);
	}
	text_done(&text);
	return bytes;
}

bool procfs_seccomp_added(pid_t pid)
{
	pid_t self = getpid();
	return status_field(pid, "Seccomp:") > status_field(self, "Seccomp:") ||
	       status_field(pid, "Seccomp_filters:") > status_field(self, "Seccomp_filters:");
}

pid_t procfs_parent(pid_t pid)
{
	return (pid_t)status_field(pid, "PPid:");
}

bool procfs_thread_name(pid_t pid, pid_t tid, char ret_name[16])
{
	struct text text = {0};
	bool ok = !read_file(&text, "/proc/%d/task/%d/comm", (int)pid, (int)tid) && text.length > 1;
	if (ok) {
		memset(ret_name, 0, 16);
		size_t bytes = text.length - 1 < 15 ? text.length - 1 : 15;
		memcpy(ret_name, text_string(&text), bytes);
	}
	text_done(&text);
	return ok;
}

/* The innermost number of the "NSpid:" line; 0 when there is none. */
static uint32_t innermost_id(const char *status, unsigned *ret_levels)
{
	const char *line = strstr(status, "\nNSpid:");
	uint32_t id = 0;
	*ret_levels = 0;
	if (!line)
		return 0;
	line += strlen("\nNSpid:");
	while (*line == '\t' || *line == ' ') {
		char *end;
		id = (uint32_t)strtoul(line, &end, 10);
		if (end == line)
			break;
		line = end;
		++*ret_levels;
	}
	return id;
}

bool procfs_other_namespace(pid_t pid)
{
	struct text text = {0};
	unsigned levels = 0;
	if (!read_file(&text, "/proc/%d/status", (int)pid))
		innermost_id(text_string(&text), &levels);
	text_done(&text);
	return levels > 1;
}

pid_t procfs_inner_pid(pid_t pid)
{
	struct text text = {0};
	unsigned levels;
	uint32_t inner = 0;
	if (!read_file(&text, "/proc/%d/status", (int)pid))
		inner = innermost_id(text_string(&text), &levels);
	text_done(&text);
	return (pid_t)inner;
}

bool procfs_start_time(pid_t pid, uint64_t *ret_wall_ns)
{
	struct text text = {0};
	unsigned long long ticks = 0;
	bool ok = false;
	if (!read_file(&text, "/proc/%d/stat", (int)pid)) {
		const char *at = strrchr(text_string(&text), ')');
		/* The name is field 2, the start field 22. */
		for (int i = 2; at && i < 22; i++)
			at = strchr(at + 1, ' ');
		ok = at && sscanf(at, " %llu", &ticks) == 1;
	}
	text_done(&text);
	uint64_t since_boot_ns = (uint64_t)ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
	uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME);
	if (ok)
		*ret_wall_ns =
			clock_wall_ns() - (boot_ns > since_boot_ns ? boot_ns - since_boot_ns : 0);
	return ok;
}

static uint32_t translate(pid_t pid, uint32_t tid)
{
	struct text text = {0};
	unsigned levels;
	uint32_t inner = 0;
	if (!read_file(&text, "/proc/%d/task/%u/status", (int)pid, tid))
		inner = innermost_id(text_string(&text), &levels);
	text_done(&text);
	return inner;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

int procfs_threads(pid_t pid, bool own_namespace, uint32_t **ret_tids, size_t *ret_count)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *folder = opendir(path);
	if (!folder)
		return -errno;
	uint32_t *tids = NULL;
	size_t count = 0, room = 0;
	for (struct dirent *entry; (entry = readdir(folder));) {
		uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
		if (!tid)
			continue;
		if (count == room) {
			room = room ? room * 2 : 64;
			uint32_t *grown = tm_grow_array(tids, room, sizeof *tids);
			if (!grown)
				break;
			tids = grown;
		}
		tids[count++] = own_namespace ? translate(pid, tid) : tid;
	}
	closedir(folder);
	if (!count) {
		tm_free(tids);
		return -ESRCH;
	}
	qsort(tids, count, sizeof *tids, compare_ids);
	*ret_tids = tids;
	*ret_count = count;
	return 0;
}

/* As the kernel lays it out; younger than the headers that we are built with. */
struct pidfd_facts {
	uint64_t mask;
	uint64_t cgroup;
	uint32_t ids[11];
	int32_t exit_status;
};
#define PIDFD_FACTS      _IOWR(0xff, 11, struct pidfd_facts)
#define PIDFD_FACTS_EXIT (1ull << 3)

static bool status_from_pidfd(int pidfd, int *ret_wait_status)
{
	struct pidfd_facts facts = {.mask = PIDFD_FACTS_EXIT};
	if (ioctl(pidfd, PIDFD_FACTS, &facts) || !(facts.mask & PIDFD_FACTS_EXIT))
		return false;
	*ret_wait_status = facts.exit_status;
	return true;
}

bool procfs_is_stopped(pid_t pid)
{
	struct text text = {0};
	bool stopped = false;
	if (!read_file(&text, "/proc/%d/stat", (int)pid)) {
		const char *name_end = strrchr(text_string(&text), ')');
		stopped = name_end && strncmp(name_end, ") T", 3) == 0;
	}
	text_done(&text);
	return stopped;
}

bool procfs_signal_waits(pid_t pid, int signal)
{
	struct text text = {0};
	bool waits = false;
	if (!read_file(&text, "/proc/%d/status", (int)pid)) {
		const char *line = strstr(text_string(&text), "\nShdPnd:");
		uint64_t set = line ? strtoull(line + sizeof "\nShdPnd:" - 1, NULL, 16) : 0;
		waits = set >> (signal - 1) & 1;
	}
	text_done(&text);
	return waits;
}

/* A zombie's last field in its stat file, if we may look. X: just now it is taken away. */
static bool status_from_zombie(pid_t pid, int *ret_wait_status)
{
	struct text text = {0};
	bool found = false;
	if (!read_file(&text, "/proc/%d/stat", (int)pid)) {
		const char *name_end = strrchr(text_string(&text), ')');
		const char *last = strrchr(text_string(&text), ' ');
		found = name_end && last &&
			(!strncmp(name_end, ") Z", 3) || !strncmp(name_end, ") X", 3));
		if (found)
			*ret_wait_status = atoi(last + 1);
	}
	text_done(&text);
	return found;
}

bool procfs_exit_status(pid_t pid, int pidfd, int *ret_wait_status)
{
	/* Between the two looks its parent may take it away: then the first way works. */
	return status_from_pidfd(pidfd, ret_wait_status) ||
	       status_from_zombie(pid, ret_wait_status) ||
	       status_from_pidfd(pidfd, ret_wait_status);
}

/* A program that wrote a title over its arguments has left zeros behind it: no empty words. */
static void trim_title(struct text *raw)
{
	size_t end = raw->length;
	while (end > 0 && !raw->data[end - 1])
		end--;
	if (raw->length - end > 8)
		raw->length = end + 1;
}

char *procfs_command(pid_t pid)
{
	char path[64];
	struct text raw = {0}, shown = {0};
	char *command = NULL;
	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	if (!io_read_file(path, COMMAND_BYTES_MAX, &raw)) {
		trim_title(&raw);
		for (size_t at = 0; at < raw.length && shown.length < COMMAND_SHOWN;) {
			const char *word = raw.data + at;
			text_put(&shown, at ? " " : "");
			quote_argument(&shown, word);
			at += strlen(word) + 1;
		}
	}
	text_done(&raw);
	if (text_take(&shown, &command))
		command = tm_strdup("");
	text_done(&shown);
	return command;
}
