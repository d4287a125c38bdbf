/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/borrowed.h"

#include <stdint.h>

#include "agent/agent.h"
#include "agent/memory_ops.h"
#include "agent/sys.h"

enum { BAD_ADDRESS = -14 };

/* How many bytes; no more than to the end of a page. */
static size_t read_some(const void *from, void *ret, size_t bytes)
{
	size_t left = AGENT_PAGE - (uintptr_t)from % AGENT_PAGE;
	struct sys_iovec remote = {(void *)(uintptr_t)from, bytes < left ? bytes : left};
	struct sys_iovec local = {ret, remote.bytes};
	long got = sys_process_vm_readv(sys_gettid(), &local, 1, &remote, 1);
	if (!sys_failed(got) || got == BAD_ADDRESS)
		return got > 0 ? (size_t)got : 0;
	memcpy(ret, from, remote.bytes);
	return remote.bytes;
}

bool borrowed_read(const void *from, void *ret, size_t bytes)
{
	for (size_t at = 0, got; at < bytes; at += got) {
		got = read_some((const char *)from + at, (char *)ret + at, bytes - at);
		if (!got)
			return false;
	}
	return true;
}

bool borrowed_string(const char *from, char *ret, size_t room)
{
	for (size_t at = 0; at < room;) {
		size_t got = read_some(from + at, ret + at, room - at);
		if (!got)
			return false;
		for (size_t end = at + got; at < end; at++)
			if (!ret[at])
				return true;
	}
	return false;
}
