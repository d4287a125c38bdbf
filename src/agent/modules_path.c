/* SPDX-License-Identifier: Apache-2.0 */
/* One line of /proc/self/maps:  start-end perms offset device inode   path */
#include "agent/modules_path.h"

#include <stdbool.h>

#include "agent/sys.h"

enum { O_RDONLY_CLOEXEC = 02000000 };

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
