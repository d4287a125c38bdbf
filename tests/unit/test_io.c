/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include "base/memory.h"
#include "harness/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

static void *write_large(void *context)
{
	int fd = *(int *)context;
	static const char block[LARGE];
	CHECK_EQ_I64(io_write(fd, block, sizeof block), 0);
	close(fd);
	return NULL;
}

/* A pipe takes 64 KiB at a time, and this one does not block: many partial writes. */
static void partial_calls_go_on(void)
{
	int ends[2];
	pthread_t writer;
	size_t bytes = 0;
	REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
	REQUIRE(pthread_create(&writer, NULL, write_large, &ends[1]) == 0);
	char *block = tm_alloc(2 * LARGE);
	REQUIRE(block);
	CHECK_EQ_I64(io_read(ends[0], block, 2 * LARGE, &bytes), 0);
	CHECK_EQ_U64(bytes, LARGE);
	pthread_join(writer, NULL);
	close(ends[0]);
	tm_free(block);
}

static void positions_are_kept(void)
{
	char back[8] = {0};
	size_t bytes = 0;
	int fd = memfd_create("test", 0);
	REQUIRE(fd >= 0);
	CHECK_EQ_I64(io_pwrite(fd, "abcdef", 6, 4), 0);
	CHECK_EQ_I64(io_pread(fd, back, sizeof back, 6, &bytes), 0);
	CHECK_EQ_U64(bytes, 4);
	CHECK_STR(back, "cdef");
	CHECK_EQ_I64(io_pread(fd, back, sizeof back, 100, &bytes), 0);
	CHECK_EQ_U64(bytes, 0);
	close(fd);
	CHECK_EQ_I64(io_pread(fd, back, sizeof back, 0, &bytes), -EBADF);
	CHECK_EQ_I64(io_write(fd, "x", 1), -EBADF);
}

static void full_disks_are_noticed(void)
{
	int fd = open("/dev/full", O_WRONLY);
	REQUIRE(fd >= 0);
	CHECK_EQ_I64(io_write(fd, "x", 1), -ENOSPC);
	close(fd);
}

static void files_of_unknown_size(void)
{
	struct text text = {0};
	CHECK_EQ_I64(io_read_file("/proc/self/stat", 1 << 16, &text), 0);
	CHECK_HAS(text_string(&text), "(test_io)");
	text_clear(&text);
	CHECK_EQ_I64(io_read_file("/proc/self/stat", 3, &text), -EFBIG);
	text_clear(&text);
	CHECK_EQ_I64(io_read_file("/nonexistent/file", 100, &text), -ENOENT);
	text_clear(&text);
	tm_alloc_fail_at(0);
	text_done(&text);
	CHECK_EQ_I64(io_read_file("/proc/self/stat", 1 << 16, &text), -ENOMEM);
	text_done(&text);
}

static void folders_are_made(void)
{
	char root[] = "/tmp/tidemark-test-XXXXXX";
	char path[200];
	struct stat info;
	REQUIRE(mkdtemp(root));
	REQUIRE(chdir(root) == 0);
	CHECK_EQ_I64(io_make_folders("a/b//c/"), 0);
	CHECK_EQ_I64(io_make_folders("a/b/c"), 0);
	CHECK(stat("a/b/c", &info) == 0 && S_ISDIR(info.st_mode));
	CHECK_EQ_I64(io_make_folders("."), 0);
	CHECK_EQ_I64(io_make_folders("/"), 0);
	int fd = open("file", O_CREAT | O_WRONLY, 0600);
	REQUIRE(fd >= 0);
	close(fd);
	CHECK_EQ_I64(io_make_folders("file"), -ENOTDIR);
	CHECK_EQ_I64(io_make_folders("file/below"), -ENOTDIR);
	unlink("file");
	rmdir("a/b/c");
	rmdir("a/b");
	rmdir("a");
	memcpy(path, root, sizeof root);
	rmdir(path);
}

static const struct tap_case cases[] = {
	{.name = "a trace through a slow pipe is whole", .run = partial_calls_go_on},
	{.name = "blocks are read from where they were written", .run = positions_are_kept},
	{.name = "a full disk is noticed", .run = full_disks_are_noticed},
	{.name = "files of /proc are read whole, and within bounds", .run = files_of_unknown_size},
	{.name = "the folders of an output are made", .run = folders_are_made},
};
TAP_MAIN(cases)
