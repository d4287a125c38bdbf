/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/procself.h"

#include "agent/memory_ops.h"
#include "agent/sys.h"

enum { CLOSE_ON_EXEC = 02000000, LINE_MAX_BYTES = 4400 };

char *procself_put(char *to, const char *text)
{
	size_t bytes = strlen(text);
	memcpy(to, text, bytes + 1);
	return to + bytes;
}

char *procself_put_number(char *to, uint64_t number)
{
	char digits[24];
	size_t count = 0;
	do
		digits[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count)
		*to++ = digits[--count];
	*to = 0;
	return to;
}

/* Reads such a file. Returns its bytes; *ret_after: what follows the name. */
static long read_stat(const char *path, char *ret, size_t room, long *ret_after)
{
	int fd = sys_open(path, CLOSE_ON_EXEC, 0);
	if (fd < 0)
		return 0;
	long bytes = sys_read(fd, ret, room);
	sys_close(fd);
	/* The name, in parentheses, may have blanks and parentheses in it. */
	long at = bytes;
	while (at > 0 && ret[at - 1] != ')')
		at--;
	*ret_after = at;
	return bytes;
}

char procself_state_of(uint32_t thread, const char *name)
{
	char path[64], stat[256];
	procself_put(procself_put_number(procself_put(path, "/proc/"), thread), "/stat");
	long after = 0, bytes = read_stat(path, stat, sizeof stat, &after), at = 0;
	while (at < after && stat[at] != '(')
		at++;
	for (; *name && ++at < after; name++)
		if (stat[at] != *name)
			return 0;
	return !*name && after + 1 < bytes ? stat[after + 1] : 0;
}

uint64_t procself_stat(enum procself_field field)
{
	char stat[1024];
	long at = 0, bytes = read_stat("/proc/self/stat", stat, sizeof stat, &at);
	uint64_t number = 0;
	for (int now = 2; at < bytes && now <= (int)field; at++) {
		if (stat[at] == ' ')
			now++;
		else if (now == (int)field)
			number = number * 10 + (uint64_t)(stat[at] - '0');
	}
	return number;
}

static uintptr_t read_hex(const char **at)
{
	uintptr_t number = 0;
	for (;; ++*at) {
		char c = **at;
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
						   : -1;
		if (digit < 0)
			return number;
		number = number << 4 | (uintptr_t)digit;
	}
}

/* "7f00-7f01 r-xp 00000000 08:01 17   /path", without its end. */
static int path_in(const char *line, uintptr_t address, char *ret, size_t room)
{
	const char *at = line;
	uintptr_t start = read_hex(&at);
	if (*at++ != '-' || address < start || address >= read_hex(&at))
		return 0;
	while (*at && *at != '/')
		at++;
	size_t bytes = strlen(at);
	if (!bytes || bytes >= room)
		return 0;
	memcpy(ret, at, bytes + 1);
	return 1;
}

int procself_path(uintptr_t address, char *ret, size_t room)
{
	char line[LINE_MAX_BYTES], part[2048];
	size_t used = 0;
	int found = 0, fd = sys_open("/proc/self/maps", CLOSE_ON_EXEC, 0);
	long bytes;
	while (fd >= 0 && !found && (bytes = sys_read(fd, part, sizeof part)) > 0) {
		for (long i = 0; i < bytes && !found; i++) {
			if (part[i] != '\n') {
				line[used] = part[i];
				used += used < sizeof line - 1;
				continue;
			}
			line[used] = 0;
			used = 0;
			found = path_in(line, address, ret, room);
		}
	}
	if (fd >= 0)
		sys_close(fd);
	return found;
}
