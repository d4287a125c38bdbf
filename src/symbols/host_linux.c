/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "symbols/host.h"

enum { PATH_ROOM = 4096 + 256, VDSO_MAX_BYTES = 16 * 4096 };
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static int open_plain(const char *root, const char *path)
{
	char joined[PATH_ROOM];
	if (snprintf(joined, sizeof joined, "%s%s", root, path) >= (int)sizeof joined)
		return -ENAMETOOLONG;
	int fd = open(joined, OPEN_FLAGS);
	return fd < 0 ? -errno : fd;
}

/* In a container's root an absolute symbolic link must not lead to our own files. */
int host_open(const char *root, const char *path)
{
	if (!root[0])
		return open_plain("", path);
	int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	struct open_how how = {.flags = OPEN_FLAGS, .resolve = RESOLVE_IN_ROOT};
	int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
	int code = fd < 0 ? -errno : fd;
	close(folder);
	/* Kernels before 5.6, and filters of system calls. */
	if (code == -ENOSYS || code == -EPERM)
		return open_plain(root, path);
	return code;
}

const void *host_vdso(size_t *ret_bytes)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_shoff > VDSO_MAX_BYTES)
		return NULL;
	size_t bytes = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	if (bytes > VDSO_MAX_BYTES)
		return NULL;
	*ret_bytes = bytes;
	return header;
}
