/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/environment.h"

#include "agent/agent.h"
#include "agent/memory_ops.h"
#include "agent/sys.h"

enum { ENVIRONMENT_BYTES_MAX = 1 << 20 };

bool environment_read(struct environment *ret)
{
	int fd = sys_open("/proc/self/environ", 02000000, 0);
	if (fd < 0)
		return false;
	char *block = agent_map(ENVIRONMENT_BYTES_MAX);
	size_t bytes = 0;
	while (block && bytes < ENVIRONMENT_BYTES_MAX - 1) {
		long got = sys_read(fd, block + bytes, ENVIRONMENT_BYTES_MAX - 1 - bytes);
		if (got <= 0)
			break;
		bytes += (size_t)got;
	}
	sys_close(fd);
	*ret = (struct environment){.block = block, .bytes = bytes};
	return block != NULL;
}

void environment_done(struct environment *environment)
{
	if (environment->block)
		agent_unmap(environment->block, ENVIRONMENT_BYTES_MAX);
	environment->block = NULL;
}

const char *environment_find(const struct environment *environment, const char *name)
{
	size_t name_bytes = strlen(name);
	for (size_t at = 0; at < environment->bytes;) {
		const char *entry = environment->block + at;
		size_t bytes = strlen(entry); /* the last byte of the room is a NUL */
		if (bytes > name_bytes && entry[name_bytes] == '=' &&
		    !memcmp(entry, name, name_bytes))
			return entry + name_bytes + 1;
		at += bytes + 1;
	}
	return NULL;
}
