/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t io_held_bytes(const struct stat *status)
{
	uint64_t size = (uint64_t)status->st_size, held = (uint64_t)status->st_blocks * 512;
	return held && held < size ? held : size;
}

/* Decide after a failed call: 0 to try again, or the -errno to give up with. */
static int after_failure(int fd, short events)
{
	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN)
		return -errno;
	struct pollfd ready = {.fd = fd, .events = events};
	return poll(&ready, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

int io_write(int fd, const void *data, size_t bytes)
{
	const char *from = data;
	while (bytes > 0) {
		ssize_t part = write(fd, from, bytes);
		if (part < 0) {
			int code = after_failure(fd, POLLOUT);
			if (code)
				return code;
			continue;
		}
		from += part;
		bytes -= (size_t)part;
	}
	return 0;
}

int io_pwrite(int fd, const void *data, size_t bytes, uint64_t offset)
{
	const char *from = data;
	while (bytes > 0) {
		ssize_t part = pwrite(fd, from, bytes, (off_t)offset);
		if (!part) /* the memory of a process that has ended */
			return -EIO;
		if (part < 0) {
			int code = after_failure(fd, POLLOUT);
			if (code)
				return code;
			continue;
		}
		from += part;
		offset += (uint64_t)part;
		bytes -= (size_t)part;
	}
	return 0;
}

int io_read(int fd, void *data, size_t bytes, size_t *ret_bytes)
{
	size_t done = 0;
	while (done < bytes) {
		ssize_t part = read(fd, (char *)data + done, bytes - done);
		if (part < 0) {
			int code = after_failure(fd, POLLIN);
			if (code)
				return code;
			continue;
		}
		if (part == 0)
			break;
		done += (size_t)part;
	}
	*ret_bytes = done;
	return 0;
}

int io_pread(int fd, void *data, size_t bytes, uint64_t offset, size_t *ret_bytes)
{
	size_t done = 0;
	while (done < bytes) {
		ssize_t part = pread(fd, (char *)data + done, bytes - done, (off_t)(offset + done));
		if (part < 0) {
			int code = after_failure(fd, POLLIN);
			if (code)
				return code;
			continue;
		}
		if (part == 0)
			break;
		done += (size_t)part;
	}
	*ret_bytes = done;
	return 0;
}

static int read_to_end(int fd, size_t limit, struct text *text)
{
	char part[16384];
	size_t total = 0;
	for (;;) {
		size_t bytes = 0;
		int code = io_read(fd, part, sizeof part, &bytes);
		if (code)
			return code;
		total += bytes;
		if (total > limit)
			return -EFBIG;
		text_put_bytes(text, part, bytes);
		if (bytes < sizeof part)
			return text_error(text);
	}
}

int io_read_file(const char *path, size_t limit, struct text *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int code = read_to_end(fd, limit, text);
	close(fd);
	return code;
}

static int make_folder(const char *path)
{
	struct stat info;
	if (mkdir(path, 0777) == 0)
		return 0;
	int code = -errno;
	/* Also for a read-only or foreign folder that exists: mkdir then says EROFS or EACCES. */
	if (stat(path, &info) == 0)
		return S_ISDIR(info.st_mode) ? 0 : -ENOTDIR;
	return code;
}

int io_make_folders(const char *path)
{
	char part[PATH_MAX];
	size_t length = strlen(path);
	if (length >= sizeof part)
		return -ENAMETOOLONG;
	memcpy(part, path, length + 1);
	for (size_t i = 1; i < length; i++) {
		if (part[i] != '/')
			continue;
		part[i] = '\0';
		int code = make_folder(part);
		if (code)
			return code;
		part[i] = '/';
	}
	return make_folder(part);
}

int io_random(void *data, size_t bytes)
{
	size_t got = 0;
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int code = io_read(fd, data, bytes, &got);
	close(fd);
	return code ? code : got == bytes ? 0 : -EIO;
}
