/* SPDX-License-Identifier: Apache-2.0 */
#include "written_trace.h"

#include "harness/tap.h"
#include "model/verify.h"
#include "model_reference.h"
#include "trace/block.h"
#include "trace/verify.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct trace_meta written_meta(void)
{
	return (struct trace_meta){.tool_version = "0",
				   .program = "/bin/x",
				   .command = "x",
				   .host = "h",
				   .mode = "exact",
				   .source = "run",
				   .clock = "tsc",
				   .page_bytes = 4096,
				   .addresses = true};
}

static int new_file(char path[64])
{
	snprintf(path, 64, "/tmp/tidemark-test-written-XXXXXX");
	int fd = mkstemp(path);
	REQUIRE(fd >= 0);
	return fd;
}

void written_begin(char path[64], const struct trace_writer_options *options,
		   const struct trace_meta *meta, struct trace_writer **ret_writer)
{
	struct trace_writer *writer;
	REQUIRE(trace_writer_open(new_file(path), options, &writer, NULL) == 0);
	REQUIRE(trace_writer_begin(writer, meta) == 0);
	for (uint32_t i = 1; i < REF_STACKS; i++) {
		struct trace_stack stack = {.parent_id = i / 2, .pc = 0x1000 + i};
		REQUIRE(trace_writer_stacks(writer, &stack, 1) == 0);
	}
	*ret_writer = writer;
}

void written_close(struct trace_writer *writer)
{
	struct trace_end end = {.cause = TRACE_END_EXIT};
	REQUIRE(trace_writer_end(writer, &end) == 0);
	REQUIRE(trace_writer_close(writer, NULL) == 0);
}

void written_open(const char *path, struct trace_reader **ret_reader,
		  struct query_section **ret_section)
{
	struct tm_error err = {0};
	if (!CHECK(trace_reader_open(path, ret_reader, &err) == 0) ||
	    !CHECK(query_open(*ret_reader, NULL, ret_section, &err) == 0)) {
		tap_note("%s", err.text);
		tap_stop();
	}
}

static int found(void *ctx, const struct trace_problem *problem)
{
	(void)ctx;
	CHECK_STR(problem->text, "nothing");
	return 0;
}

void written_is_sound(struct trace_reader *reader)
{
	struct trace_check check = {.problem = found};
	struct model_verified verified;
	struct tm_error err = {0};
	CHECK(trace_verify(reader, &check, &err) == 0);
	CHECK(model_verify(reader, 0, &check, &verified, &err) == 0);
}

uint64_t written_bytes(const char *path)
{
	struct stat facts;
	return stat(path, &facts) ? 0 : (uint64_t)facts.st_size;
}

void written_open_copy(const char *path, struct trace_reader **ret_reader)
{
	static char data[1 << 20];
	char copy[64];
	int in = open(path, O_RDONLY), out = new_file(copy);
	ssize_t got;
	REQUIRE(in >= 0);
	while ((got = read(in, data, sizeof data)) > 0)
		REQUIRE(write(out, data, (size_t)got) == got);
	close(in);
	close(out);
	REQUIRE(!trace_reader_open(copy, ret_reader, NULL));
	unlink(copy);
}

void written_damage(const char *path, uint32_t type, int after)
{
	off_t offset = sizeof(struct format_file_header), found[1000];
	struct format_block_header header;
	int fd = open(path, O_RDWR), count = 0;
	REQUIRE(fd >= 0);
	while (pread(fd, &header, sizeof header, offset) == sizeof header &&
	       header.magic == FORMAT_BLOCK_MAGIC) {
		if (header.type == type && count < 1000)
			found[count++] = offset;
		offset = (off_t)block_end((uint64_t)offset, &header);
	}
	REQUIRE(count > after);
	REQUIRE(pwrite(fd, "??????", 6, found[count - 1 - after] + (off_t)sizeof header) == 6);
	close(fd);
}
