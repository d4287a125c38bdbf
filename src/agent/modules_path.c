/* SPDX-License-Identifier: Apache-2.0 */
/* One line of /proc/self/maps:  start-end perms offset device inode   path */
#include "agent/modules_path.h"

#include <elf.h>
#include <stdbool.h>

#include "agent/sys.h"

enum { O_RDONLY_CLOEXEC = 02000000, SECTIONS_MAX = 1024 };

uint32_t module_path_of_program(char *ret, size_t bytes)
{
	long got = sys_readlink("/proc/self/exe", ret, bytes - 1);

	if (got < 0)
		got = 0;
	ret[got] = 0;
	return (uint32_t)got;
}

/* Parses maps byte by byte, so that no buffer need hold a whole line. */
struct parser {
	uintptr_t address;
	uintptr_t start;
	uintptr_t end;
	unsigned field; /* 0 start, 1 end, 2..5 the rest, 6 the gap, 7 path */
	bool done;
	char *path;
	size_t room;
	size_t used;
};

static void take_path(struct parser *parser, char byte)
{
	bool wanted = parser->address >= parser->start && parser->address < parser->end;

	if (wanted && parser->used + 1 < parser->room)
		parser->path[parser->used++] = byte;
}

static unsigned hex_digit(char byte)
{
	return byte >= 'a' ? (unsigned)(byte - 'a') + 10 : (unsigned)(byte - '0');
}

static void take(struct parser *parser, char byte)
{
	if (byte == '\n') {
		parser->done = parser->used > 0;
		parser->start = parser->end = parser->field = 0;
	} else if (parser->field == 0 && byte == '-') {
		parser->field = 1;
	} else if (parser->field == 0) {
		parser->start = parser->start << 4 | hex_digit(byte);
	} else if (parser->field < 6 && byte == ' ') {
		parser->field++;
	} else if (parser->field == 1) {
		parser->end = parser->end << 4 | hex_digit(byte);
	} else if (parser->field == 7 || (parser->field == 6 && byte != ' ')) {
		parser->field = 7;
		take_path(parser, byte);
	}
}

uint32_t module_path_at(uintptr_t address, char *ret, size_t bytes)
{
	struct parser parser = {.address = address, .path = ret, .room = bytes};
	char buffer[512];
	int fd = sys_open("/proc/self/maps", O_RDONLY_CLOEXEC, 0);

	ret[0] = 0;
	if (fd < 0)
		return 0;
	while (!parser.done) {
		long got = sys_read(fd, buffer, sizeof buffer);
		if (got <= 0)
			break;
		for (long i = 0; i < got && !parser.done; i++)
			take(&parser, buffer[i]);
	}
	sys_close(fd);
	ret[parser.used] = 0;
	return (uint32_t)parser.used;
}

static bool read_at(int fd, uint64_t offset, void *ret, size_t bytes)
{
	return sys_pread(fd, ret, bytes, offset) == (long)bytes;
}

/* The address of section number index if it is .eh_frame, else 0. */
static uintptr_t eh_frame_address(int fd, const Elf64_Ehdr *header, uint64_t names, unsigned index)
{
	static const char wanted[] = ".eh_frame";
	char name[sizeof wanted];
	Elf64_Shdr section;

	if (!read_at(fd, header->e_shoff + (uint64_t)index * sizeof section, &section,
		     sizeof section) ||
	    !(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_NOBITS ||
	    !read_at(fd, names + section.sh_name, name, sizeof name) ||
	    __builtin_memcmp(name, wanted, sizeof wanted) != 0)
		return 0;
	return section.sh_addr;
}

uintptr_t module_eh_frame_of_program(void)
{
	Elf64_Ehdr header;
	Elf64_Shdr names;
	uintptr_t found = 0;
	int fd = sys_open("/proc/self/exe", O_RDONLY_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (read_at(fd, 0, &header, sizeof header) && header.e_shentsize == sizeof names &&
	    header.e_shnum <= SECTIONS_MAX &&
	    read_at(fd, header.e_shoff + (uint64_t)header.e_shstrndx * sizeof names, &names,
		    sizeof names))
		for (unsigned i = 0; i < header.e_shnum && !found; i++)
			found = eh_frame_address(fd, &header, names.sh_offset, i);
	sys_close(fd);
	return found;
}
