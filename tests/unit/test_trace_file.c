/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trace files: what goes in comes out, and what is damaged is said. */
#include "trace/trace.h"

#include "base/io.h"
#include "base/memory.h"
#include "harness/tap.h"
#include "trace/block.h"
#include "trace_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 150000, SAMPLES = 40, MAPS = 70, SYMBOLS = 90, SLICES = 3 };

static struct trace_writer *open_writer(const char *name, char path[256],
					struct trace_writer_options options)
{
	struct trace_writer *w = NULL;
	struct tm_error err = {0};
	int fd = fixture_file(name, path);
	if (!CHECK_EQ_I64(trace_writer_open(fd, &options, &w, &err), 0))
		tap_note("%s", err.text);
	REQUIRE(w != NULL);
	return w;
}

static struct trace_reader *open_reader(const char *path)
{
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	if (!CHECK_EQ_I64(trace_reader_open(path, &r, &err), 0))
		tap_note("%s", err.text);
	REQUIRE(r != NULL);
	return r;
}

static void end_and_close(struct trace_writer *w)
{
	struct trace_end end = fixture_end();
	CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
}

static struct trace_event *make_events(struct fixture *f, size_t count)
{
	struct trace_event *events = tm_alloc_array(count, sizeof *events);
	REQUIRE(events != NULL);
	fixture_events(f, events, count);
	return events;
}

/* A slice with a few rows; figures follow from its number. */
static void write_slice(struct trace_writer *w, uint32_t id)
{
	static const struct trace_bucket sizes[] = {{.bucket = 0, .count = 3},
						    {.bucket = 7, .count = 9}};
	static const struct trace_bucket lives[] = {{.bucket = 47, .count = 1}};
	const struct trace_death deaths[] = {{.birth_slice = 0, .count = 2, .bytes = 20},
					     {.birth_slice = id, .count = 5, .bytes = UINT64_MAX}};
	const struct trace_slice_row rows[] = {
		{.stack_id = 0, .births = 1},
		{.stack_id = 7,
		 .births = 12,
		 .birth_bytes = 120,
		 .temporary = 4,
		 .failed = 1,
		 .death_count = id > 0 ? 2 : 1,
		 .deaths = deaths,
		 .size_bucket_count = 2,
		 .sizes = sizes,
		 .life_bucket_count = 1,
		 .lives = lives,
		 .peak_known = true,
		 .peak_bytes = 99},
		{.stack_id = FIXTURE_STACKS, .births = 3, .peak_known = true, .peak_count = 1},
	};
	const struct trace_slice slice = {
		.slice_id = id,
		.start_ns = id * 1000,
		.end_ns = id * 1000 + 1000,
		.first_event = id * 50,
		.event_count = 50,
		.live_bytes = 1,
		.live_blocks = 2,
		.min_live_bytes = 3,
		.max_live_bytes = 4,
		.max_live_time_ns = 5,
		.births = 6,
		.birth_bytes = 7,
		.deaths = 8,
		.death_bytes = 9,
		.temporary = 10,
		.mapped_bytes = 11,
		.peak_bytes = 12,
		.peak_blocks = 13,
		.peak_time_ns = 14,
		.freed_unseen = 15,
		.freed_older = 16,
		.row_count = 3,
		.rows = rows,
	};
	CHECK_EQ_I64(trace_writer_slice(w, &slice), 0);
}

static int check_slice(void *ctx, const struct trace_slice *slice)
{
	uint32_t *next = ctx;
	uint32_t id = (*next)++;
	CHECK_EQ_U64(slice->slice_id, id);
	CHECK_EQ_U64(slice->end_ns, id * 1000 + 1000);
	CHECK_EQ_U64(slice->first_event, id * 50);
	CHECK_EQ_U64(slice->live_blocks, 2);
	CHECK_EQ_U64(slice->max_live_time_ns, 5);
	CHECK_EQ_U64(slice->peak_time_ns, 14);
	CHECK_EQ_U64(slice->freed_unseen, 15);
	CHECK_EQ_U64(slice->freed_older, 16);
	REQUIRE(slice->row_count == 3);
	const struct trace_slice_row *row = &slice->rows[1];
	CHECK_EQ_U64(slice->rows[0].stack_id, 0);
	CHECK_EQ_U64(slice->rows[0].births, 1);
	CHECK(!slice->rows[0].peak_known);
	CHECK_EQ_U64(slice->rows[2].stack_id, FIXTURE_STACKS);
	CHECK_EQ_U64(slice->rows[2].peak_count, 1);
	CHECK_EQ_U64(row->stack_id, 7);
	CHECK_EQ_U64(row->birth_bytes, 120);
	CHECK_EQ_U64(row->temporary, 4);
	CHECK_EQ_U64(row->failed, 1);
	CHECK(row->peak_known);
	CHECK_EQ_U64(row->peak_bytes, 99);
	REQUIRE(row->death_count == (id > 0 ? 2 : 1));
	CHECK_EQ_U64(row->deaths[0].birth_slice, 0);
	CHECK_EQ_U64(row->deaths[0].count, 2);
	if (id > 0)
		CHECK_EQ_U64(row->deaths[1].bytes, UINT64_MAX);
	REQUIRE(row->size_bucket_count == 2 && row->life_bucket_count == 1);
	CHECK_EQ_U64(row->sizes[1].bucket, 7);
	CHECK_EQ_U64(row->sizes[1].count, 9);
	CHECK_EQ_U64(row->lives[0].bucket, 47);
	return 0;
}

static void write_others(struct trace_writer *w)
{
	struct trace_symbol symbols[SYMBOLS];
	for (uint64_t i = 0; i < SAMPLES; i++) {
		struct trace_sample sample = fixture_sample(i);
		CHECK_EQ_I64(trace_writer_sample(w, &sample), 0);
	}
	for (uint64_t i = 0; i < MAPS; i++) {
		struct trace_map_event event = fixture_map(i);
		CHECK_EQ_I64(trace_writer_maps(w, &event, 1), 0);
	}
	for (uint32_t i = 0; i < SLICES; i++)
		write_slice(w, i);
	for (uint64_t i = 0; i < SYMBOLS; i++)
		symbols[i] = fixture_symbol(i);
	CHECK_EQ_I64(trace_writer_symbols(w, symbols, SYMBOLS), 0);
}

static void check_symbols(struct trace_reader *r)
{
	const struct trace_symbol *symbols = NULL;
	size_t count = 0, at = 0;
	REQUIRE(trace_reader_symbols(r, &symbols, &count, NULL) == 0);
	REQUIRE(count == SYMBOLS);
	/* In order of module and address: number i of the fixture has module i % MODULES. */
	for (uint64_t module = 0; module < FIXTURE_MODULES; module++) {
		for (uint64_t i = module; i < SYMBOLS; i += FIXTURE_MODULES, at++) {
			struct trace_symbol want = fixture_symbol(i);
			CHECK_EQ_U64(symbols[at].module_id, want.module_id);
			CHECK_EQ_U64(symbols[at].address, want.address);
			CHECK_EQ_U64(symbols[at].line, want.line);
			CHECK_EQ_U64(symbols[at].source, want.source);
			CHECK(!symbols[at].function == !want.function);
			if (want.function)
				CHECK_STR(symbols[at].function, want.function);
			if (want.file)
				CHECK_STR(symbols[at].file, want.file);
		}
	}
}

static void check_others(struct trace_reader *r)
{
	const struct trace_sample *samples = NULL;
	const struct trace_map_event *maps = NULL;
	size_t sample_count = 0, map_count = 0;
	uint32_t slices = 0;
	REQUIRE(trace_reader_samples(r, &samples, &sample_count, NULL) == 0);
	REQUIRE(sample_count == SAMPLES);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		struct trace_sample want = fixture_sample(i);
		CHECK_MEM(&samples[i], &want, sizeof want);
	}
	REQUIRE(trace_reader_maps(r, &maps, &map_count, NULL) == 0);
	REQUIRE(map_count == MAPS);
	for (uint64_t i = 0; i < MAPS; i++) {
		struct trace_map_event want = fixture_map(i);
		CHECK_EQ_U64(maps[i].time_ns, want.time_ns);
		CHECK_EQ_U64(maps[i].address, want.address);
		CHECK_EQ_U64(maps[i].bytes, want.bytes);
		CHECK_EQ_U64(maps[i].moved_from, want.moved_from);
		CHECK_EQ_U64(maps[i].flags, want.flags);
		CHECK_EQ_U64(maps[i].op, want.op);
	}
	CHECK_EQ_I64(trace_reader_slices(r, check_slice, &slices, NULL), 0);
	CHECK_EQ_U64(slices, SLICES);
	check_symbols(r);
}

/* A section of `count` events in batches of odd sizes, with all other records. */
static void write_section(struct trace_writer *w, const struct trace_event *events, size_t count,
			  bool free_stacks)
{
	fixture_begin(w, free_stacks);
	for (size_t done = 0; done < count;) {
		size_t some = count - done < 777 ? count - done : 777;
		REQUIRE(trace_writer_events(w, events + done, some) == 0);
		done += some;
		if (done == 777 * 40)
			write_others(w);
		if (done % 3 == 0)
			CHECK_EQ_I64(trace_writer_tick(w), 0);
	}
}

static void round_trip(bool addresses, bool free_stacks)
{
	static struct fixture f;
	char path[256];
	fixture_init(&f, 1);
	f.free_stacks = free_stacks;
	struct trace_event *events = make_events(&f, MANY);
	struct trace_writer *w =
		open_writer("round", path, (struct trace_writer_options){.addresses = addresses});
	write_section(w, events, MANY, free_stacks);
	end_and_close(w);
	struct trace_reader *r = open_reader(path);
	CHECK(trace_reader_complete(r));
	CHECK(trace_reader_warning(r) == NULL);
	CHECK_EQ_U64(fixture_compare(r, events, MANY, addresses), MANY);
	fixture_check_records(r);
	check_others(r);
	CHECK(trace_reader_warning(r) == NULL);
	struct stat status;
	REQUIRE(stat(path, &status) == 0);
	CHECK_EQ_U64(trace_reader_file_bytes(r), (uint64_t)status.st_size);
	CHECK_EQ_U64(status.st_mode & 0777, 0600);
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

static void everything_comes_back(void)
{
	round_trip(false, false);
	round_trip(true, false);
	round_trip(true, true);
}

static void sections_stay_apart(void)
{
	static struct fixture f;
	char path[256];
	enum { SECTION = 40000, SECTIONS = 3 };
	struct trace_event *events[SECTIONS];
	struct trace_writer *w = open_writer("sections", path, (struct trace_writer_options){0});
	for (int i = 0; i < SECTIONS; i++) {
		struct trace_end end = fixture_end();
		fixture_init(&f, 20 + (uint64_t)i);
		events[i] = make_events(&f, SECTION);
		write_section(w, events[i], SECTION, false);
		CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	}
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	struct trace_reader *r = open_reader(path);
	CHECK_EQ_U64(trace_reader_section_count(r), SECTIONS);
	CHECK_EQ_U64(fixture_compare(r, events[SECTIONS - 1], SECTION, false), SECTION);
	for (int i = 0; i < SECTIONS; i++) {
		REQUIRE(trace_reader_select(r, (size_t)i, NULL) == 0);
		CHECK_EQ_U64(fixture_compare(r, events[i], SECTION, false), SECTION);
		fixture_check_records(r);
		check_others(r);
		tm_free(events[i]);
	}
	CHECK_EQ_I64(trace_reader_select(r, SECTIONS, NULL), -ENOENT);
	trace_reader_close(r);
	unlink(path);
}

/* Opening and asking for totals must not read the events: promise 5. */
static void opening_reads_little(void)
{
	static struct fixture f;
	char path[256];
	fixture_init(&f, 30);
	struct trace_event *events = make_events(&f, 1000000);
	struct trace_writer *w =
		open_writer("little", path, (struct trace_writer_options){.addresses = true});
	write_section(w, events, 1000000, false);
	end_and_close(w);
	struct trace_reader *r = open_reader(path);
	fixture_check_records(r);
	check_others(r);
	CHECK(trace_reader_bytes_read(r) * 100 < trace_reader_file_bytes(r) * 3);
	tap_note("read %llu of %llu bytes", (unsigned long long)trace_reader_bytes_read(r),
		 (unsigned long long)trace_reader_file_bytes(r));
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

static void limit_stops_events_only(void)
{
	static struct fixture f;
	char path[256];
	enum { TOTAL = 400000, LIMIT = 200000 };
	fixture_init(&f, 40);
	struct trace_event *events = make_events(&f, TOTAL);
	struct trace_writer *w =
		open_writer("limit", path, (struct trace_writer_options){.max_bytes = LIMIT});
	write_section(w, events, TOTAL, false);
	struct trace_end end = fixture_end();
	CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	CHECK(trace_writer_unstored(w) > 0);
	uint64_t unstored = trace_writer_unstored(w);
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	struct trace_reader *r = open_reader(path);
	size_t stored = fixture_compare(r, events, TOTAL, false);
	CHECK_EQ_U64(stored + unstored, TOTAL);
	CHECK(stored > 0);
	CHECK(trace_reader_file_bytes(r) < LIMIT + 20000);
	CHECK(trace_reader_complete(r));
	fixture_check_records(r);
	check_others(r);
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

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

static uint8_t *small_file(const char *name, bool addresses, char path[256],
			   struct trace_event *events, size_t count, size_t *ret_bytes)
{
	static struct fixture f;
	fixture_init(&f, 50);
	fixture_events(&f, events, count);
	struct trace_writer *w =
		open_writer(name, path, (struct trace_writer_options){.addresses = addresses});
	fixture_begin(w, false);
	REQUIRE(trace_writer_events(w, events, count) == 0);
	write_others(w);
	end_and_close(w);
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
	enum { EVENTS = 400, BLOCKS = 64 };
	static struct trace_event events[EVENTS];
	char path[256];
	size_t bytes = 0, ends[BLOCKS];
	uint8_t *data = small_file("cut", false, path, events, EVENTS, &bytes);
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
	const void *rows;
	size_t count;
	uint32_t slices = 0;
	struct tm_error err = {0};
	(void)!trace_reader_stacks(r, (const struct trace_stack **)&rows, &count, &err);
	(void)!trace_reader_modules(r, (const struct trace_module **)&rows, &count, &err);
	(void)!trace_reader_threads(r, (const struct trace_thread **)&rows, &count, &err);
	(void)!trace_reader_samples(r, (const struct trace_sample **)&rows, &count, &err);
	(void)!trace_reader_maps(r, (const struct trace_map_event **)&rows, &count, &err);
	(void)!trace_reader_symbols(r, (const struct trace_symbol **)&rows, &count, &err);
	(void)!trace_reader_meta(r, (const struct trace_meta **)&rows, &err);
	(void)!trace_reader_slices(r, check_slice, &slices, &err);
}

/* One changed byte anywhere: what is read is either right or said to be damaged. */
static void one_byte_wrong_anywhere(void)
{
	enum { EVENTS = 300 };
	static struct trace_event events[EVENTS], got[EVENTS];
	char path[256];
	size_t bytes = 0;
	uint8_t *data = small_file("flip", true, path, events, EVENTS, &bytes);
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
	struct trace_event *events = make_events(&f, MANY), *got = make_events(&f, 65536);
	struct trace_writer *w = open_writer("middle", path, (struct trace_writer_options){0});
	write_section(w, events, MANY, false);
	end_and_close(w);
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
	struct trace_reader *r = open_reader(path);
	struct tm_error err = {0};
	REQUIRE(trace_reader_event_block_count(r) == 3);
	CHECK_EQ_I64(trace_reader_events(r, 0, got, NULL), 0);
	CHECK_EQ_I64(trace_reader_events(r, 1, got, &err), -EBADMSG);
	CHECK_HAS(err.text, "damaged");
	CHECK_EQ_I64(trace_reader_events(r, 2, got, NULL), 0);
	CHECK(fixture_same(&events[131072], &got[0], false));
	fixture_check_records(r);
	check_others(r);
	trace_reader_close(r);

	/* Without its index, and with a header that is damaged, too: found again behind it. */
	data[offset - 8 - (size_t)(offset % 8)] ^= 1;
	data[ends[1] + 9] ^= 255;
	write_all(path, data, bytes - sizeof(struct format_trailer));
	r = open_reader(path);
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
	uint8_t *data = small_file("unknown", true, path, events, EVENTS, &bytes);
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
	struct trace_reader *r = open_reader(path);
	CHECK_EQ_U64(fixture_compare(r, events, EVENTS, true), EVENTS);
	fixture_check_records(r);
	check_others(r);
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

static void misuse_is_an_error(void)
{
	char path[256];
	struct trace_writer *w = open_writer("misuse", path, (struct trace_writer_options){0});
	struct trace_sample sample = {0};
	CHECK_EQ_I64(trace_writer_sample(w, &sample), -EINVAL);
	CHECK_EQ_I64(trace_writer_close(w, NULL), -EINVAL);
	unlink(path);
	CHECK_EQ_I64(trace_writer_close(NULL, NULL), 0);
}

/* Threads that nobody announced have events all the same. */
static void unannounced_threads_are_added(void)
{
	char path[256];
	struct trace_meta meta = fixture_meta();
	struct trace_writer *w = open_writer("threads", path, (struct trace_writer_options){0});
	struct trace_event event = {.op = TRACE_ALLOC, .thread_id = 6, .time_ns = 5000};
	CHECK_EQ_I64(trace_writer_begin(w, &meta), 0);
	CHECK_EQ_I64(trace_writer_events(w, &event, 1), 0);
	end_and_close(w);
	struct trace_reader *r = open_reader(path);
	CHECK_EQ_U64(fixture_compare(r, &event, 1, false), 1);
	const struct trace_thread *threads = NULL;
	size_t count = 0;
	REQUIRE(trace_reader_threads(r, &threads, &count, NULL) == 0);
	CHECK_EQ_U64(count, 7);
	trace_reader_close(r);
	unlink(path);
}

static const struct tap_case cases[] = {
	{.name = "everything written is read back", .run = everything_comes_back},
	{.name = "images of an exec chain stay apart", .run = sections_stay_apart},
	{.name = "opening a large trace reads little of it", .run = opening_reads_little},
	{.name = "a file size limit ends the events, not the rest", .run = limit_stops_events_only},
	{.name = "a file cut anywhere opens and says so", .run = cut_anywhere, .seconds = 120},
	{.name = "one wrong byte anywhere is noticed",
	 .run = one_byte_wrong_anywhere,
	 .seconds = 120},
	{.name = "a damaged block costs only what it had", .run = damaged_middle},
	{.name = "blocks of a later version are skipped", .run = unknown_blocks_are_skipped},
	{.name = "a file of another kind is named as such", .run = other_files_are_named},
	{.name = "records outside a section are refused", .run = misuse_is_an_error},
	{.name = "a thread without a record keeps its events",
	 .run = unannounced_threads_are_added},
};
TAP_MAIN(cases)
