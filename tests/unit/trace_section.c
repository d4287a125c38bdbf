/* SPDX-License-Identifier: Apache-2.0 */
/* Whole sections for tests: see the header. */
#include "trace_section.h"

#include "base/memory.h"
#include "harness/tap.h"

enum { SAMPLES = 40, MAPS = 70, SYMBOLS = 90, SLICES = 3 };

struct trace_writer *section_open_writer(const char *name, char path[256],
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

struct trace_reader *section_open_reader(const char *path)
{
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	if (!CHECK_EQ_I64(trace_reader_open(path, &r, &err), 0))
		tap_note("%s", err.text);
	REQUIRE(r != NULL);
	return r;
}

void section_end_and_close(struct trace_writer *w)
{
	struct trace_end end = fixture_end();
	CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
}

struct trace_event *section_make_events(struct fixture *f, size_t count)
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

int section_check_slice(void *ctx, const struct trace_slice *slice)
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

/* Of each kind at most so many. */
void section_write_some(struct trace_writer *w, uint64_t most)
{
	struct trace_symbol symbols[SYMBOLS];
	for (uint64_t i = 0; i < SAMPLES && i < most; i++) {
		struct trace_sample sample = fixture_sample(i);
		CHECK_EQ_I64(trace_writer_sample(w, &sample), 0);
	}
	for (uint64_t i = 0; i < MAPS && i < most; i++) {
		struct trace_map_event event = fixture_map(i);
		CHECK_EQ_I64(trace_writer_maps(w, &event, 1), 0);
	}
	for (uint32_t i = 0; i < SLICES; i++)
		write_slice(w, i);
	for (uint64_t i = 0; i < SYMBOLS; i++)
		symbols[i] = fixture_symbol(i);
	CHECK_EQ_I64(trace_writer_symbols(w, symbols, SYMBOLS < most ? SYMBOLS : most), 0);
}

void section_write_others(struct trace_writer *w)
{
	section_write_some(w, UINT64_MAX);
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

void section_check_others(struct trace_reader *r)
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
	CHECK_EQ_I64(trace_reader_slices(r, section_check_slice, &slices, NULL), 0);
	CHECK_EQ_U64(slices, SLICES);
	check_symbols(r);
}

/* A section of `count` events in batches of odd sizes, with all other records. */
void section_write(struct trace_writer *w, const struct trace_event *events, size_t count,
		   bool free_stacks)
{
	fixture_begin(w, free_stacks);
	for (size_t done = 0; done < count;) {
		size_t some = count - done < 777 ? count - done : 777;
		REQUIRE(trace_writer_events(w, events + done, some) == 0);
		done += some;
		if (done == 777 * 40)
			section_write_others(w);
		if (done % 3 == 0)
			CHECK_EQ_I64(trace_writer_tick(w), 0);
	}
}
