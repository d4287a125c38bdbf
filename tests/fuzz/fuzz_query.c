/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile traces through every question: sums, slices, ends, events, headers that lie. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/seal.h"
#include "model/query.h"

/* So that no value is optimised away. */
static volatile uint64_t seen;

static int take_block(void *ctx, const struct query_block *block)
{
	(void)ctx;
	seen += block->size_bytes + block->end_ns;
	return 0;
}

static void ask(struct query_section *section, const struct filter_bound *filter, uint64_t from_ns,
		uint64_t to_ns)
{
	struct query_answer answer;
	struct query_timeline line;
	struct tm_error err;
	struct query query = {.from_ns = from_ns,
			      .to_ns = to_ns,
			      .filter = filter,
			      .want = QUERY_ALL & ~(unsigned)QUERY_THREADS};
	if (!query_ask(section, &query, &answer, &err)) {
		for (size_t i = 0; i < answer.row_count; i++)
			seen += answer.rows[i].figures.end_bytes;
		query_answer_done(&answer);
	}
	struct query_timeline_options curve = {
		.from_ns = from_ns, .to_ns = to_ns, .filter = filter, .points = 10};
	if (!query_timeline(section, &curve, &line, &err))
		query_timeline_done(&line);
}

static void ask_all(struct query_section *section)
{
	struct filter *filter;
	struct filter_bound *bound;
	struct tm_error err;
	uint64_t end = query_duration_ns(section);
	ask(section, NULL, 0, UINT64_MAX);
	ask(section, NULL, end / 3, end / 2);
	static const char *const filters[] = {"size>8 and not temporary", "kind=mapped or size<8"};
	for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
		if (filter_parse(filters[i], &filter, NULL, &err))
			continue;
		if (!query_bind(section, filter, NULL, &bound, &err)) {
			ask(section, bound, end / 4, end);
			filter_bound_free(bound);
		}
		filter_free(filter);
	}
	struct query_blocks_options blocks = {
		.to_ns = end, .mode = QUERY_BLOCKS_ALL, .limit = 1000};
	if (!query_blocks(section, &blocks, take_block, NULL, &err))
		seen++;
}

/* As if the trace had no aggregates. */
static void rebuild(struct trace_reader *reader)
{
	const struct model_load_options options = {.anew = true, .threads = 1};
	struct model *model;
	struct model_totals totals;
	struct tm_error err;
	if (model_load_with(reader, &options, &model, NULL, &err))
		return;
	model_totals(model, &totals);
	seen += totals.peak_bytes;
	model_free(model);
}

static void read_trace(const uint8_t *data, size_t size)
{
	char path[64];
	struct trace_reader *reader;
	struct query_section *section;
	struct query_open_options options = {.threads = 1, .tick_events = 1};
	struct tm_error err;
	int fd = memfd_create("trace", MFD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0 && !io_write(fd, data, size) && !trace_reader_open(path, &reader, &err)) {
		if (!query_open(reader, &options, &section, &err)) {
			ask_all(section);
			query_close(section);
		}
		rebuild(reader);
		trace_reader_close(reader);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = seal_copy(data, size);
	if (copy)
		read_trace(copy, size);
	tm_free(copy);
	return 0;
}
