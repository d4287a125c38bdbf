/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/namer_hold.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "collector/namer_work.h"

enum { MAPS_BYTES_MAX = 16 << 20 };

static bool same_file(const char *ours, const char *theirs)
{
	struct stat a, b;
	return stat(ours, &a) == 0 && stat(theirs, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* One root folder may have other things mounted below it in another namespace. */
int namer_hold_root(pid_t pid)
{
	char path[64], mounts[64];
	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	snprintf(mounts, sizeof mounts, "/proc/%d/ns/mnt", (int)pid);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && same_file("/", path) && same_file("/proc/self/ns/mnt", mounts)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* What is mapped at a module's start. */
struct mapping {
	uint64_t start, end;
	unsigned long inode;
};

static bool find_mapping(pid_t pid, uint64_t start, struct mapping *ret)
{
	char path[64];
	struct text maps = {0};
	bool found = false;
	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	if (!io_read_file(path, MAPS_BYTES_MAX, &maps)) {
		const char *line = text_string(&maps);
		for (const char *end; !found && (end = strchr(line, '\n')); line = end + 1)
			found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %lu", &ret->start,
				       &ret->end, &ret->inode) == 3 &&
				ret->start <= start && start < ret->end;
	}
	text_done(&maps);
	return found;
}

/* The path of a line of maps, without its end; NULL if it is no file's. */
static char *path_of(const char *line, const char *end)
{
	const char *path = memchr(line, '/', (size_t)(end - line));
	char *copy = path ? tm_alloc((size_t)(end - path) + 1) : NULL;
	if (copy)
		memcpy(copy, path, (size_t)(end - path));
	return copy;
}

size_t namer_hold_early(pid_t pid, int root_fd, struct namer_early list[NAMER_EARLY_MAX])
{
	char path[64];
	struct text maps = {0};
	size_t count = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	if (io_read_file(path, MAPS_BYTES_MAX, &maps))
		text_clear(&maps);
	const char *line = text_string(&maps);
	for (const char *end; count < NAMER_EARLY_MAX && (end = strchr(line, '\n'));
	     line = end + 1) {
		char rights[5] = "";
		if (sscanf(line, "%*s %4s", rights) != 1 || rights[2] != 'x')
			continue;
		char *file = path_of(line, end);
		int fd = file ? namer_open(root_fd, file) : -1;
		if (fd >= 0)
			list[count++] = (struct namer_early){.path = file, .fd = fd};
		else
			tm_free(file);
	}
	text_done(&maps);
	return count;
}

/* Through the kernel's own link to the mapped file: for those who may. */
static int open_mapped(pid_t pid, const struct mapping *mapping)
{
	char path[128];
	snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid,
		 mapping->start, mapping->end);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* The executable can always be had, also when it was deleted. */
static int open_executable(pid_t pid, const char *wanted)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
	ssize_t bytes = readlink(link, path, sizeof path - 1);
	size_t length = strlen(wanted);
	if (bytes < (ssize_t)length || memcmp(path, wanted, length) != 0)
		return -1;
	path[bytes] = '\0';
	if (path[length] && strcmp(path + length, " (deleted)") != 0)
		return -1;
	return open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int namer_hold(pid_t pid, int root_fd, const struct trace_module *module)
{
	struct mapping mapping;
	struct stat facts;
	int fd = namer_open(root_fd, module->path);
	bool mapped = find_mapping(pid, module->start, &mapping);
	/* Some file systems tell other numbers in maps than by stat: then the path must do. */
	if (fd >= 0 && (!mapped || fstat(fd, &facts) || facts.st_ino == mapping.inode))
		return fd;
	int other = mapped ? open_mapped(pid, &mapping) : -1;
	if (other < 0)
		other = open_executable(pid, module->path);
	if (other < 0)
		return fd < 0 ? -1 : fd;
	if (fd >= 0)
		close(fd);
	return other;
}
