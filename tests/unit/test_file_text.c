/* SPDX-License-Identifier: Apache-2.0 */
/* A text in a file: missed where two pieces meet, a program's allocator would go unnoticed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "harness/tap.h"
#include "inject/file_text.h"

static const char text[] = "needle";
enum { TEXT_BYTES = sizeof text - 1, FILE_BYTES = 2 * FILE_TEXT_ROOM + 100 };

/* A file of dots with the text at this offset. */
static int file_with(uint64_t at)
{
	char path[] = "/tmp/file-text-XXXXXX";
	static char dots[FILE_BYTES];
	int fd = mkstemp(path);

	REQUIRE(fd >= 0);
	unlink(path);
	memset(dots, '.', sizeof dots);
	REQUIRE(io_pwrite(fd, dots, sizeof dots, 0) == 0);
	REQUIRE(io_pwrite(fd, text, TEXT_BYTES, at) == 0);
	return fd;
}

static bool has(int fd, uint64_t offset, uint64_t bytes)
{
	static char room[FILE_TEXT_ROOM];
	struct file_stretch stretch = {fd, offset, bytes};

	return file_has_text(&stretch, text, TEXT_BYTES, room);
}

static void at_every_seam(void)
{
	for (uint64_t at = FILE_TEXT_ROOM - 2 * TEXT_BYTES; at < FILE_TEXT_ROOM + TEXT_BYTES;
	     at++) {
		int fd = file_with(at);
		CHECK(has(fd, 0, FILE_BYTES));
		CHECK(has(fd, at, TEXT_BYTES));
		CHECK(!has(fd, at + 1, FILE_BYTES));
		CHECK(!has(fd, 0, at + TEXT_BYTES - 1));
		close(fd);
	}
}

static void beyond_the_end(void)
{
	int fd = file_with(FILE_BYTES - TEXT_BYTES);

	CHECK(has(fd, 0, UINT64_MAX));
	CHECK(!has(fd, FILE_BYTES - TEXT_BYTES + 1, UINT64_MAX));
	CHECK(!has(fd, FILE_BYTES, 10));
	CHECK(!has(fd, 0, TEXT_BYTES - 1));
	close(fd);
	CHECK(!has(-1, 0, FILE_BYTES));
}

static const struct tap_case cases[] = {
	{.name = "a text is found at every seam of two pieces", .run = at_every_seam},
	{.name = "a file may be shorter than it says", .run = beyond_the_end},
};
TAP_MAIN(cases)
