/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/objects.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"

enum { HEADERS_MAX = 64, PAGE = 4096 };

static int open_same(const char *path, uint64_t inode)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	/* Not the device: some file systems show another one in maps. */
	if (fstat(fd, &status) || !S_ISREG(status.st_mode) || (uint64_t)status.st_ino != inode) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

int objects_open(pid_t pid, pid_t tid, const struct proc_map *map)
{
	char path[4400], root[64];
	proc_path(root, sizeof root, pid, tid, "root");
	int fd = -ENAMETOOLONG;
	if (snprintf(path, sizeof path, "%s%s", root, map->path) < (int)sizeof path)
		fd = open_same(path, map->inode);
	if (fd >= 0)
		return fd;
	proc_path(path, sizeof path, pid, tid, "exe"); /* also when it was deleted */
	int exe = open_same(path, map->inode);
	if (exe >= 0)
		return exe;
	snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)map->start, (unsigned long long)map->end);
	int mapped = open_same(path, map->inode);
	return mapped >= 0 ? mapped : fd;
}

/* The bias at which a mapping of the file holds its code, and its end; false: it does not. */
static bool find_code(int fd, const struct proc_map *map, struct object *object)
{
	Elf64_Ehdr header;
	Elf64_Phdr headers[HEADERS_MAX];
	size_t got = 0;
	if (io_pread(fd, &header, sizeof header, 0, &got) || got != sizeof header ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
	    header.e_phentsize != sizeof headers[0] || header.e_phnum > HEADERS_MAX)
		return false;
	size_t bytes = header.e_phnum * sizeof headers[0];
	if (io_pread(fd, headers, bytes, header.e_phoff, &got) || got != bytes)
		return false;
	for (int i = 0; i < header.e_phnum; i++) {
		const Elf64_Phdr *load = &headers[i];
		uint64_t offset = load->p_offset & ~(uint64_t)(PAGE - 1);
		if (load->p_type != PT_LOAD || !(load->p_flags & PF_X) || map->offset < offset ||
		    map->offset >= load->p_offset + load->p_filesz)
			continue;
		object->bias = map->start - (map->offset - offset) -
			       (load->p_vaddr & ~(uint64_t)(PAGE - 1));
		uint64_t end = object->bias + load->p_vaddr + load->p_filesz;
		object->code_end = end <= map->end && load->p_filesz == load->p_memsz ? end : 0;
		return true;
	}
	return false;
}

/* All mappings of the file around this one: another instance of it lies apart. */
static void find_extent(const struct proc_maps *maps, size_t index, struct object *object)
{
	const struct proc_map *all = maps->maps;
	size_t first = index, last = index;
	while (first && all[first - 1].inode == object->inode &&
	       all[first - 1].device == object->device &&
	       all[first - 1].offset <= all[first].offset)
		first--;
	while (last + 1 < maps->count && all[last + 1].inode == object->inode &&
	       all[last + 1].device == object->device && all[last + 1].offset >= all[last].offset)
		last++;
	object->start = all[first].start;
	object->end = all[last].end;
}

static bool is_known(const struct objects *objects, const struct object *object)
{
	for (size_t i = 0; i < objects->count; i++)
		if (objects->list[i].bias == object->bias &&
		    objects->list[i].inode == object->inode)
			return true;
	return false;
}

int objects_find(pid_t pid, pid_t tid, const struct proc_maps *maps, struct objects *ret,
		 struct tm_error *err)
{
	struct objects objects = {.list = tm_alloc_array(maps->count + 1, sizeof(struct object))};
	if (!objects.list)
		return tm_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < maps->count; i++) {
		const struct proc_map *map = &maps->maps[i];
		if (!map->executable || !map->inode || map->path[0] != '/')
			continue;
		struct object object = {
			.device = map->device, .inode = map->inode, .path = map->path};
		int fd = objects_open(pid, tid, map);
		if (fd < 0)
			continue;
		bool found = find_code(fd, map, &object);
		close(fd);
		if (!found || is_known(&objects, &object))
			continue;
		find_extent(maps, i, &object);
		objects.list[objects.count++] = object;
	}
	*ret = objects;
	return 0;
}

void objects_done(struct objects *objects)
{
	tm_free(objects->list);
	*objects = (struct objects){0};
}
