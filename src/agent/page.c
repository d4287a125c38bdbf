/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/page.h"

#include <linux/mman.h>

#include "agent/agent.h"
#include "agent/memory_ops.h"
#include "agent/procself.h"
#include "agent/quiet.h"
#include "agent/sys.h"
#include "base/version.h"

enum {
	SYS_NR_GETUID_ = 102,
	SYS_NR_UNLINK_ = 87,
	OPEN_FLAGS = 02 | 0100 | 0200 | 0400000 | 02000000, /* RDWR CREAT EXCL NOFOLLOW CLOEXEC */
	ONLY_US = 0600,
	PATH_BYTES = sizeof agent_fixed.page_path,
};

static void fill(struct wire_page *page, uint32_t pid, uint32_t uid)
{
	page->magic = WIRE_PAGE_MAGIC;
	page->version = WIRE_PAGE_VERSION;
	memcpy(page->agent_version, TIDEMARK_VERSION, sizeof TIDEMARK_VERSION);
	page->pid = pid;
	page->uid = uid;
	page->start_ticks = procself_stat(PROCSELF_START_TICKS);
}

static void name_file(char path[PATH_BYTES], const char *folder, uint32_t pid, uint32_t uid)
{
	char *at = procself_put(procself_put(path, folder), WIRE_PAGE_NAME);
	procself_put_number(procself_put(procself_put_number(at, uid), "-"), pid);
}

void page_clear(void)
{
	char path[PATH_BYTES];
	uint32_t uid = (uint32_t)sys_call3(SYS_NR_GETUID_, 0, 0, 0);
	name_file(path, WIRE_PAGE_SHM, (uint32_t)sys_getpid(), uid);
	sys_call3(SYS_NR_UNLINK_, (long)path, 0, 0);
}

/*
 * The image before us may have left one: it is replaced. Somebody else's of that
 * name cannot be, and then there is none here. Written before it is mapped: a
 * full file system must not kill us later.
 */
static struct wire_page *make_file(const char *folder, uint32_t pid, uint32_t uid)
{
	char path[PATH_BYTES], bytes[WIRE_PAGE_FILE_BYTES] = {0};
	name_file(path, folder, pid, uid);
	sys_call3(SYS_NR_UNLINK_, (long)path, 0, 0);
	int fd = sys_open(path, OPEN_FLAGS, ONLY_US);
	if (fd < 0)
		return NULL;
	fill((struct wire_page *)bytes, pid, uid);
	void *page = (void *)-1;
	if (quiet_write(fd, bytes, sizeof bytes) == (long)sizeof bytes)
		page = sys_mmap(NULL, sizeof bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	sys_close(fd);
	if (sys_failed((long)page)) {
		sys_call3(SYS_NR_UNLINK_, (long)path, 0, 0);
		return NULL;
	}
	sys_madvise(page, sizeof bytes, MADV_DONTFORK);
	procself_put(agent_fixed.page_path, path);
	return page;
}

void page_make(bool hidden)
{
	uint32_t pid = (uint32_t)sys_getpid();
	uint32_t uid = (uint32_t)sys_call3(SYS_NR_GETUID_, 0, 0, 0);
	struct wire_page *page = NULL;
	agent_fixed.page_path[0] = 0;
	if (!hidden)
		page = make_file(WIRE_PAGE_SHM, pid, uid);
	if (!hidden && !page)
		page = make_file(WIRE_PAGE_TMP, pid, uid);
	agent_fixed.pid = pid;
	agent.page = page ? page : &agent.own_page;
}

void page_drop(void)
{
	if (agent_fixed.page_path[0] && agent_may_call() &&
	    (uint32_t)sys_getpid() == agent_fixed.pid)
		sys_call3(SYS_NR_UNLINK_, (long)agent_fixed.page_path, 0, 0);
}
