/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files that are cut, damaged, hostile, or of another kind: read as far as can be, and said.
 */
#include "trace/trace.h"

#include "base/io.h"
#include "base/memory.h"
#include "harness/tap.h"
#include "trace/block.h"
#include "trace_fixture.h"
#include "trace_section.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 150000 };

/* The whole file in memory. */
static uint8_t *read_all(const char *path, size_t *ret_bytes)
{
	struct stat status;
	REQUIRE(stat(path, &status) == 0);
	uint8_t *data = tm_alloc((size_t)status.st_size + 1);
	int fd = open(path, O_RDONLY);
	REQUIRE(data && fd >= 0);
	REQUIRE(io_read(fd, data, (size_t)status.st_size, ret_bytes) == 0);
	close(fd);
	return data;
}

static void write_all(const char *path, const uint8_t *data, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	REQUIRE(fd >= 0);
	REQUIRE(io_write(fd, data, bytes) == 0);
	close(fd);
}

static uint8_t *small_file(const char *name, uint64_t others, bool addresses, char path[256],
			   struct trace_event *events, size_t count, size_t *ret_bytes)
{
	static struct fixture f;
	fixture_init(&f, 50);
	fixture_events(&f, events, count);
	struct trace_writer *w = section_open_writer(
		name, path, (struct trace_writer_options){.addresses = addresses});
	fixture_begin(w, false);
	REQUIRE(trace_writer_events(w, events, count) == 0);
	section_write_some(w, others);
	section_end_and_close(w);
	return read_all(path, ret_bytes);
}

/* Where block number n of the file ends; the file's end after the last. */
static size_t block_ends(const uint8_t *data, size_t bytes, size_t *ends, size_t room)
{
	size_t count = 0, offset = sizeof(struct format_file_header);
	struct format_block_header header;
	while (offset + sizeof header < bytes && count < room) {
		memcpy(&header, data + offset, sizeof header);
		if (header.magic != FORMAT_BLOCK_MAGIC || header.type == FORMAT_INDEX)
			break;
		ends[count++] = offset = (size_t)block_end(offset, &header);
	}
	return count;
}

/* A file cut anywhere opens up to its last whole block, and says so. */
static void cut_anywhere(void)
{
	enum { EVENTS = 150, BLOCKS = 64 };
	static struct trace_event events[EVENTS];
	char path[256];
	size_t bytes = 0, ends[BLOCKS];
	uint8_t *data = small_file("cut", 4, false, path, events, EVENTS, &bytes);
	size_t blocks = block_ends(data, bytes, ends, BLOCKS);
	REQUIRE(blocks > 8);
	for (size_t cut = 0; cut < bytes; cut++) {
		struct trace_reader *r = NULL;
		struct tm_error err = {0};
		write_all(path, data, cut);
		int rc = trace_reader_open(path, &r, &err);
		/* Padding after a payload may be missing: the block is whole without it. */
		size_t whole = 0;
		while (whole < blocks && ends[whole] <= cut)
			whole++;
		if (rc < 0) {
			CHECK(whole == 0 && err.text[0] != '\0' && err.code == rc);
			continue;
		}
		uint64_t found = 0;
		struct trace_usage usage;
		for (size_t i = 0; trace_reader_usage(r, i, &usage); i++)
			found += usage.blocks;
		if (!CHECK(found >= whole && found <= whole + 1))
			tap_note("cut at %zu: %llu blocks", cut, (unsigned long long)found);
		CHECK_HAS(trace_reader_warning(r), "has no end");
		size_t stored = fixture_compare(r, events, EVENTS, false);
		CHECK(stored == 0 || stored == EVENTS);
		trace_reader_close(r);
	}
	unlink(path);
	tm_free(data);
}

/* Ask a reader for everything; damage may show anywhere, but only as an error or a warning. */
static void read_everything(struct trace_reader *r)
{
	const struct trace_meta *meta;
	const struct trace_stack *stacks;
	const struct trace_module *modules;
	const struct trace_thread *threads;
	const struct trace_sample *samples;
	const struct trace_map_event *maps;
	const struct trace_symbol *symbols;
	size_t count;
	uint32_t slices = 0;
	struct tm_error err = {0};
	(void)!trace_reader_meta(r, &meta, &err);
	(void)!trace_reader_stacks(r, &stacks, &count, &err);
	(void)!trace_reader_modules(r, &modules, &count, &err);
	(void)!trace_reader_threads(r, &threads, &count, &err);
	(void)!trace_reader_samples(r, &samples, &count, &err);
	(void)!trace_reader_maps(r, &maps, &count, &err);
	(void)!trace_reader_symbols(r, &symbols, &count, &err);
	(void)!trace_reader_slices(r, section_check_slice, &slices, &err);
}

/* One changed byte anywhere: what is read is either right or said to be damaged. */
static void one_byte_wrong_anywhere(void)
{
	enum { EVENTS = 100 };
	static struct trace_event events[EVENTS], got[EVENTS];
	char path[256];
	size_t bytes = 0;
	uint8_t *data = small_file("flip", 4, true, path, events, EVENTS, &bytes);
	for (size_t at = 0; at < bytes; at++) {
		struct trace_reader *r = NULL;
		struct tm_error err = {0};
		uint8_t old = data[at];
		data[at] ^= (uint8_t)(1u << at % 8);
		write_all(path, data, bytes);
		data[at] = old;
		if (trace_reader_open(path, &r, &err) < 0) {
			CHECK(err.text[0] != '\0');
			continue;
		}
		bool same = trace_reader_event_block_count(r) == 1 &&
			    trace_reader_events(r, 0, got, &err) == 0;
		for (size_t i = 0; same && i < EVENTS; i++)
			same = fixture_same(&events[i], &got[i], true) ||
			       fixture_same(&events[i], &got[i], false);
		CHECK(same || err.text[0] != '\0' || trace_reader_warning(r));
		read_everything(r);
		trace_reader_close(r);
	}
	unlink(path);
	tm_free(data);
}

/* A damaged block in the middle costs what it had, nothing else. */
static void damaged_middle(void)
{
	static struct fixture f;
	char path[256];
	size_t bytes = 0;
	fixture_init(&f, 60);
	struct trace_event *events = section_make_events(&f, MANY),
			   *got = section_make_events(&f, 65536);
	struct trace_writer *w =
		section_open_writer("middle", path, (struct trace_writer_options){0});
	section_write(w, events, MANY, false);
	section_end_and_close(w);
	uint8_t *data = read_all(path, &bytes);
	size_t ends[64], blocks = block_ends(data, bytes, ends, 64);
	size_t offset = sizeof(struct format_file_header);
	bool damaged = false;
	for (size_t i = 0; i < blocks && !damaged; offset = ends[i++]) {
		const struct format_block_header *header = (const void *)(data + offset);
		if (header->type == FORMAT_EVENTS && header->first_ordinal == 65536) {
			data[offset + sizeof *header + header->stored_bytes / 2] ^= 16;
			damaged = true;
		}
	}
	REQUIRE(damaged);
	write_all(path, data, bytes);
	struct trace_reader *r = section_open_reader(path);
	struct tm_error err = {0};
	REQUIRE(trace_reader_event_block_count(r) == 3);
	CHECK_EQ_I64(trace_reader_events(r, 0, got, NULL), 0);
	CHECK_EQ_I64(trace_reader_events(r, 1, got, &err), -EBADMSG);
	CHECK_HAS(err.text, "damaged");
	CHECK_EQ_I64(trace_reader_events(r, 2, got, NULL), 0);
	CHECK(fixture_same(&events[131072], &got[0], false));
	fixture_check_records(r);
	section_check_others(r);
	trace_reader_close(r);

	/* Without its index, and with a header that is damaged, too: found again behind it. */
	data[offset - 8 - (size_t)(offset % 8)] ^= 1;
	data[ends[1] + 9] ^= 255;
	write_all(path, data, bytes - sizeof(struct format_trailer));
	r = section_open_reader(path);
	CHECK_HAS(trace_reader_warning(r), "damaged");
	CHECK(trace_reader_complete(r));
	trace_reader_close(r);
	unlink(path);
	tm_free(data);
	tm_free(events);
	tm_free(got);
}

/* Blocks of a kind that a later version may add are skipped. */
static void unknown_blocks_are_skipped(void)
{
	enum { EVENTS = 200 };
	static struct trace_event events[EVENTS];
	char path[256];
	size_t bytes = 0, ends[64];
	uint8_t *data = small_file("unknown", UINT64_MAX, true, path, events, EVENTS, &bytes);
	struct format_file_header file;
	memcpy(&file, data, sizeof file);
	size_t blocks = block_ends(data, bytes, ends, 64);
	struct bytes out = {0};
	struct format_block_header strange = {.type = 200};
	bytes_put(&out, data, sizeof file);
	uint32_t sequence = 0;
	for (size_t i = 0, offset = sizeof file; i < blocks; offset = ends[i++]) {
		struct format_block_header header;
		memcpy(&header, data + offset, sizeof header);
		struct bytes raw = {0};
		REQUIRE(bytes_reserve(&raw, header.raw_bytes + 1));
		REQUIRE(block_unpack(&header, data + offset + sizeof header, raw.data));
		header.sequence = sequence++;
		block_pack(NULL, file.file_id, &header, raw.data, header.raw_bytes, &out);
		strange.sequence = sequence++;
		block_pack(NULL, file.file_id, &strange, "from the future", 15, &out);
		bytes_done(&raw);
	}
	write_all(path, out.data, out.used);
	struct trace_reader *r = section_open_reader(path);
	CHECK_EQ_U64(fixture_compare(r, events, EVENTS, true), EVENTS);
	fixture_check_records(r);
	section_check_others(r);
	trace_reader_close(r);
	bytes_done(&out);
	tm_free(data);
	unlink(path);
}

static void refuse(const char *path, const void *data, size_t bytes, const char *part)
{
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	write_all(path, data, bytes);
	CHECK(trace_reader_open(path, &r, &err) < 0);
	CHECK(r == NULL);
	CHECK_HAS(err.text, part);
	CHECK_HAS(err.text, path);
}

static void other_files_are_named(void)
{
	char path[256];
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	struct format_file_header header;
	close(fixture_file("other", path));
	refuse(path, "", 0, "too short");
	refuse(path, "heaptrack", 9, "too short");
	char text[200];
	memset(text, 'x', sizeof text);
	refuse(path, text, sizeof text, "is not a Tidemark trace");
	block_file_header_init(&header, 1);
	refuse(path, &header, sizeof header, "no whole block");
	header.version = 99;
	refuse(path, &header, sizeof header, "format 99");
	block_file_header_init(&header, 1);
	header.file_id = 2;
	refuse(path, &header, sizeof header, "header at offset 0 is damaged");
	unlink(path);
	CHECK_EQ_I64(trace_reader_open(path, &r, &err), -ENOENT);
	CHECK_HAS(err.text, path);
	CHECK_EQ_I64(trace_reader_open("/", &r, &err), -EINVAL);
}

static const struct tap_case cases[] = {
	{.name = "a file cut anywhere opens and says so", .run = cut_anywhere, .seconds = 120},
	{.name = "one wrong byte anywhere is noticed",
	 .run = one_byte_wrong_anywhere,
	 .seconds = 120},
	{.name = "a damaged block costs only what it had", .run = damaged_middle},
	{.name = "blocks of a later version are skipped", .run = unknown_blocks_are_skipped},
	{.name = "a file of another kind is named as such", .run = other_files_are_named},
};
TAP_MAIN(cases)
