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
		if (block.type == FORMAT_GAP) {
			offset = (size_t)block_end(offset, &block);
			continue;
		}
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

/* Slices that do not fit and have become fewer, in which the peak rose now and then. */
static void write_merged(const char *path)
{
	struct trace_writer_options options = {.retain_bytes = 70000};
	struct trace_writer *w = NULL;
	struct trace_meta meta = {.program = "merged", .mode = "exact", .source = "run"};
	check(trace_writer_open(create(path), &options, &w, NULL), "cannot write");
	trace_writer_begin(w, &meta);
	for (uint32_t i = 1; i < 40; i++)
		trace_writer_stacks(w, &(struct trace_stack){.pc = 0x1000 + i}, 1);
	for (uint32_t i = 0; i < 60; i++) {
		struct trace_death deaths[] = {{.birth_slice = i / 2, .count = 1, .bytes = 9},
					       {.birth_slice = i, .count = i, .bytes = 9 * i}};
		struct trace_bucket buckets[] = {{.bucket = i % 40, .count = i + 1}};
		struct trace_slice_row rows[2] = {{.births = i + 1,
						   .birth_bytes = 10 * i,
						   .death_count = i ? 2 : 0,
						   .deaths = deaths,
						   .size_bucket_count = 1,
						   .sizes = buckets,
						   .life_bucket_count = i ? 1 : 0,
						   .lives = buckets,
						   .peak_known = i % 3 == 0,
						   .peak_count = i % 3 ? 0 : i}};
		rows[1] = rows[0];
		rows[0].stack_id = 1 + i % 13;
		rows[1].stack_id = 20 + i % 17;
		struct trace_slice slice = {.slice_id = i,
					    .start_ns = i * 1000,
					    .end_ns = i * 1000 + 1000,
					    .row_count = 2,
					    .rows = rows};
		trace_writer_slice(w, &slice);
	}
	trace_writer_end(w, &(struct trace_end){.cause = TRACE_END_EXIT, .duration_ns = 60000});
	check(trace_writer_close(w, NULL), "cannot write");
}

static void write_seeds(const char *folder)
{
	char path[4096];
	struct bytes raw = {0}, journal = {0}, merged = {0};
	snprintf(path, sizeof path, "%s/packed.tide", folder);
	write_golden(path);
	struct bytes file = read_all(path);
	unpack(&file, false, &raw);
	save(folder, "raw.tide", raw.data, raw.used);
	unpack(&file, true, &journal);
	save(folder, "journal.tide", journal.data, journal.used);
	save(folder, "cut.tide", file.data, file.used * 2 / 3);
	bytes_done(&file);
	snprintf(path, sizeof path, "%s/merged.tide", folder);
	write_merged(path);
	file = read_all(path);
	unpack(&file, false, &merged);
	save(folder, "merged.tide", merged.data, merged.used);
	bytes_done(&file);
	bytes_done(&merged);
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
