/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/namer_jit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "collector/namer_work.h"
#include "collector/procfs.h"

enum {
	MAPS_BYTES_MAX = 16 << 20,
	FIRST_TRIES = 10, /* a virtual machine sets itself up in its first moments */
	FIRST_NS = 30 * 1000 * 1000,
	OFTEN_TRIES = 30,
	OFTEN_NS = 250 * 1000 * 1000,
};
#define SELDOM_NS      5000000000ull
#define CLOCK_SLACK_NS 10000000000ull /* the wall clock may have been set meanwhile */

void namer_jit_init(struct namer_jit *jit, const struct names_stream *begin)
{
	*jit = (struct namer_jit){.map_fd = -1,
				  .dump_fd = -1,
				  .pid = begin->pid,
				  .user = begin->user,
				  .start_ns = begin->start_ns,
				  .inner = begin->inner_pid};
}

void namer_jit_forget(struct namer_jit *jit)
{
	if (jit->map_fd >= 0)
		close(jit->map_fd);
	if (jit->dump_fd >= 0)
		close(jit->dump_fd);
	jit->map_fd = jit->dump_fd = -1;
	jit->start_ns = UINT64_MAX;
}

static void forget_mappings(struct namer_jit *jit)
{
	jit->mappings = tm_free(jit->mappings);
	jit->mapping_count = 0;
}

void namer_jit_done(struct namer_jit *jit)
{
	namer_jit_forget(jit);
	forget_mappings(jit);
	text_done(&jit->maps);
}

/*
 * /tmp is everybody's: the file must be of the user that the process runs as,
 * and not be older than it (the number of a process is used again).
 */
static bool is_its_own(const struct namer_jit *jit, int fd)
{
	struct stat file;
	if (jit->start_ns == UINT64_MAX || fstat(fd, &file) || !S_ISREG(file.st_mode))
		return false;
	uint64_t written_ns =
		(uint64_t)file.st_mtim.tv_sec * 1000000000u + (uint64_t)file.st_mtim.tv_nsec;
	return (file.st_uid == jit->user || file.st_uid == 0) &&
	       written_ns + CLOCK_SLACK_NS >= jit->start_ns;
}

static int open_its_own(const struct namer_jit *jit, int root_fd, const char *path)
{
	int fd = namer_open(root_fd, path);
	if (fd >= 0 && !is_its_own(jit, fd)) {
		close(fd);
		return -1;
	}
	return fd < 0 ? -1 : fd;
}

static void look_for_map(struct namer_jit *jit, int root_fd)
{
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)(jit->inner ? jit->inner : jit->pid));
	jit->map_fd = open_its_own(jit, root_fd, path);
}

/* The path in a line of maps: what follows the fifth field. */
static const char *path_in(const char *line, const char *end, size_t *ret_bytes)
{
	const char *at = line;
	for (int field = 0; field < 5; field++) {
		while (at < end && *at != ' ')
			at++;
		while (at < end && *at == ' ')
			at++;
	}
	*ret_bytes = (size_t)(end - at);
	return at;
}

/* Who writes a jitdump maps a page of it, so that it can be found. */
static void look_for_dump(struct namer_jit *jit, int root_fd)
{
	const char *line = text_string(&jit->maps);
	for (const char *end; jit->dump_fd < 0 && (end = strchr(line, '\n')); line = end + 1) {
		size_t bytes;
		const char *path = path_in(line, end, &bytes);
		char name[4096];
		if (bytes < 9 || bytes >= sizeof name || *path != '/' ||
		    memcmp(path + bytes - 5, ".dump", 5) != 0)
			continue;
		memcpy(name, path, bytes);
		name[bytes] = '\0';
		if (!strncmp(strrchr(name, '/'), "/jit-", 5))
			jit->dump_fd = open_its_own(jit, root_fd, name);
	}
}

void namer_jit_look(struct namer_jit *jit, int root_fd, uint64_t now_ns)
{
	if (now_ns < jit->next_ns)
		return;
	uint64_t pause_ns = SELDOM_NS;
	if (jit->tries < OFTEN_TRIES)
		pause_ns = jit->tries < FIRST_TRIES ? FIRST_NS : OFTEN_NS;
	jit->tries++;
	jit->next_ns = now_ns + pause_ns;
	char path[64];
	struct text maps = {0};
	snprintf(path, sizeof path, "/proc/%d/maps", (int)jit->pid);
	/* A process that has ended still has the file, but nothing in it. */
	if (!io_read_file(path, MAPS_BYTES_MAX, &maps) && maps.length) {
		forget_mappings(jit);
		text_done(&jit->maps);
		jit->maps = maps;
	} else {
		text_done(&maps);
	}
	if (jit->map_fd < 0)
		look_for_map(jit, root_fd);
	if (jit->dump_fd < 0)
		look_for_dump(jit, root_fd);
}

bool namer_jit_grown(struct namer_jit *jit)
{
	struct stat facts;
	uint64_t bytes = 0;
	if (jit->map_fd >= 0 && fstat(jit->map_fd, &facts) == 0)
		bytes += (uint64_t)facts.st_size;
	if (jit->dump_fd >= 0 && fstat(jit->dump_fd, &facts) == 0)
		bytes += (uint64_t)facts.st_size;
	bool grown = bytes != jit->read_bytes;
	jit->read_bytes = bytes;
	return grown;
}

/* "/memfd:jit (deleted)" -> "[memfd:jit]", "[anon:code]" -> "[code]", "" -> what it is. */
static void name_mapping(const char *path, size_t bytes, char *out, size_t out_bytes)
{
	const char *end = path + bytes;
	if (bytes > 10 && !memcmp(end - 10, " (deleted)", 10))
		end -= 10;
	for (const char *at = path; at < end; at++)
		if (*at == '/')
			path = at + 1;
	if (end - path > 7 && !strncmp(path, "[anon:", 6)) {
		path += 6;
		end--;
	} else if (end - path > 2 && *path == '[') {
		path++;
		end--;
	}
	if (path < end)
		snprintf(out, out_bytes, "[%.*s]", (int)(end - path < 200 ? end - path : 200),
			 path);
	else
		snprintf(out, out_bytes, "[anonymous code]");
}

/* A number in hexadecimal digits, and what must follow it. False: it is none. */
static bool take_hex(const char **at, char then, uint64_t *ret_number)
{
	char *end;
	*ret_number = strtoull(*at, &end, 16);
	if (end == *at || *end != then)
		return false;
	*at = end + 1;
	return true;
}

static bool skip_word(const char **at, const char *end)
{
	const char *space = memchr(*at, ' ', (size_t)(end - *at));
	*at = space ? space + 1 : end;
	return space != NULL;
}

/* "start-end rwxp offset device inode   path" */
static bool read_mapping(const char *line, const char *end, struct namer_mapping *ret)
{
	const char *at = line;
	if (!take_hex(&at, '-', &ret->start) || !take_hex(&at, ' ', &ret->end) ||
	    !skip_word(&at, end) || !take_hex(&at, ' ', &ret->offset) || !skip_word(&at, end))
		return false;
	ret->inode = strtoul(at, NULL, 10);
	ret->path = path_in(line, end, &ret->path_bytes);
	return true;
}

/* The next line from *at on; false at the end. */
static bool next_mapping(const char **at, struct namer_mapping *ret)
{
	const char *end;
	while ((end = strchr(*at, '\n'))) {
		const char *line = *at;
		*at = end + 1;
		if (read_mapping(line, end, ret))
			return true;
	}
	return false;
}

/* Without memory for them there are none. */
static void read_mappings(struct namer_jit *jit)
{
	const char *at = text_string(&jit->maps);
	size_t lines = 1;
	for (const char *line = at; (line = strchr(line, '\n')); line++)
		lines++;
	jit->mappings = tm_alloc_array(lines, sizeof *jit->mappings);
	while (jit->mappings && jit->mapping_count < lines &&
	       next_mapping(&at, &jit->mappings[jit->mapping_count]))
		jit->mapping_count++;
}

/* The kernel lists them by address. */
static const struct namer_mapping *find_mapping(struct namer_jit *jit, uint64_t address)
{
	if (!jit->mappings)
		read_mappings(jit);
	size_t low = 0, high = jit->mapping_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (jit->mappings[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < jit->mapping_count && jit->mappings[low].start <= address ? &jit->mappings[low]
									       : NULL;
}

bool namer_jit_twin(struct namer_jit *jit, uint64_t address, uint64_t *ret_address)
{
	const struct namer_mapping *here = find_mapping(jit, address);
	if (!here || !here->inode)
		return false;
	uint64_t offset = address - here->start + here->offset;
	for (size_t i = 0; i < jit->mapping_count; i++) {
		const struct namer_mapping *other = &jit->mappings[i];
		if (other == here || other->inode != here->inode ||
		    other->path_bytes != here->path_bytes ||
		    memcmp(other->path, here->path, here->path_bytes) != 0 ||
		    offset < other->offset || offset - other->offset >= other->end - other->start)
			continue;
		*ret_address = other->start + (offset - other->offset);
		return true;
	}
	return false;
}

void namer_jit_mapping(struct namer_jit *jit, uint64_t address, char *out, size_t out_bytes)
{
	const struct namer_mapping *here = find_mapping(jit, address);
	name_mapping(here ? here->path : "", here ? here->path_bytes : 0, out, out_bytes);
}
