/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the golden trace of the present format version and the seeds of the
 * fuzz target. A golden file is made once per format version and then kept:
 * tests/unit/test_trace_golden.c says what is in it.
 *
 *	make_samples golden FILE | make_samples seeds FOLDER
 */
#include "base/io.h"
#include "base/memory.h"
#include "golden/scenario.h"
#include "trace/block.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *text)
{
	fprintf(stderr, "make_samples: %s\n", text);
	exit(1);
}

static void check(int rc, const char *text)
{
	if (rc < 0)
		die(text);
}

static int create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	check(fd, path);
	return fd;
}

static void write_golden(const char *path)
{
	struct trace_writer_options options = {.addresses = true};
	struct trace_writer *w = NULL;
	check(trace_writer_open(create(path), &options, &w, NULL), "cannot write");
	scenario_write(w);
	check(trace_writer_close(w, NULL), "cannot write");
}

static struct bytes read_all(const char *path)
{
	struct bytes all = {0};
	struct stat status;
	int fd = open(path, O_RDONLY);
	check(fd, path);
	check(fstat(fd, &status), path);
	if (!bytes_reserve(&all, (size_t)status.st_size + 1))
		die("no memory");
	check(io_read(fd, all.data, (size_t)status.st_size, &all.used), path);
	close(fd);
	return all;
}

static void save(const char *folder, const char *name, const void *data, size_t bytes)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = create(path);
	check(io_write(fd, data, bytes), path);
	close(fd);
}

/* The blocks again, not packed, so that a changed byte reaches the decoders; some as a journal. */
static void unpack(const struct bytes *file, bool journal, struct bytes *out)
{
	struct format_file_header header;
	struct bytes raw = {0};
	memcpy(&header, file->data, sizeof header);
	bytes_put(out, &header, sizeof header);
	uint32_t sequence = 0;
	for (size_t offset = sizeof header;
	     offset + sizeof(struct format_block_header) < file->used;) {
		struct format_block_header block;
		memcpy(&block, file->data + offset, sizeof block);
		if (block.magic != FORMAT_BLOCK_MAGIC || block.type == FORMAT_INDEX)
			break;
		if (!bytes_reserve(&raw, block.raw_bytes + 1u) ||
		    !block_unpack(&block, file->data + offset + sizeof block, raw.data))
			die("cannot unpack");
		offset = (size_t)block_end(offset, &block);
		bool last = journal && block.section == 1;
		if (last && block.type == FORMAT_END)
			break;
		if (last && block.type == FORMAT_EVENTS && header.journal_offset == 0) {
			header.journal_offset = out->used;
			sequence = 0;
		}
		if (header.journal_offset > 0)
			block.flags |= FORMAT_JOURNAL;
		block.sequence = sequence++;
		block_pack(NULL, header.file_id, &block, raw.data, block.raw_bytes, out);
	}
	memcpy(out->data, &header, sizeof header);
	bytes_done(&raw);
}

static void write_seeds(const char *folder)
{
	char path[4096];
	struct bytes raw = {0}, journal = {0};
	snprintf(path, sizeof path, "%s/packed.tide", folder);
	write_golden(path);
	struct bytes file = read_all(path);
	unpack(&file, false, &raw);
	save(folder, "raw.tide", raw.data, raw.used);
	unpack(&file, true, &journal);
	save(folder, "journal.tide", journal.data, journal.used);
	save(folder, "cut.tide", file.data, file.used * 2 / 3);
	bytes_done(&file);
	bytes_done(&raw);
	bytes_done(&journal);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "golden") == 0)
		write_golden(argv[2]);
	else if (argc == 3 && strcmp(argv[1], "seeds") == 0)
		write_seeds(argv[2]);
	else
		die("usage: make_samples golden FILE | seeds FOLDER");
	return 0;
}
