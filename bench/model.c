/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the model costs per event, without agent, merging or writing: nanoseconds
 * per event, the minimum of some rounds, slices taken as they fall due.
 *
 *	model            all streams
 *	model NAME       one of them, for a profiler
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/model.h"

/* A round is as long as a slice, so that each holds the cost of one. */
enum { BATCH = 4096, ROUND_EVENTS = 262144, ROUNDS = 40 };

struct stream {
	const char *name;
	uint32_t stacks;
	uint64_t live; /* blocks that live all the time; 0: each is freed at once */
};

struct feed {
	const struct stream *stream;
	uint64_t random, time_ns;
	bool frees; /* the next event is a free */
	uint64_t address;
};

static uint64_t next_random(struct feed *feed)
{
	uint64_t x = feed->random;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return feed->random = x;
}

static uint64_t address_of(uint64_t number)
{
	return 0x7f1200000010ull + number * 64;
}

/* A free of a random live block, then an allocation in its place by a random stack. */
static void make_event(struct feed *feed, struct trace_event *event)
{
	const struct stream *stream = feed->stream;
	uint64_t random = next_random(feed);
	feed->time_ns += 40;
	*event = (struct trace_event){.time_ns = feed->time_ns, .op = TRACE_FREE};
	if (feed->frees) {
		event->address = feed->address;
	} else {
		event->op = TRACE_ALLOC;
		event->size_bytes = 16 + (random >> 20) % 497;
		event->stack_id = 1 + (uint32_t)((random >> 40) % stream->stacks);
		event->address = feed->address;
		if (stream->live) /* what is freed next */
			feed->address = address_of(next_random(feed) % stream->live);
	}
	feed->frees = !feed->frees;
}

static void run_batches(struct feed *feed, struct model *m, uint64_t count, double *ret_seconds)
{
	static struct trace_event events[BATCH];
	struct timespec start, end;
	*ret_seconds = 0;
	for (uint64_t done = 0; done < count; done += BATCH) {
		for (size_t i = 0; i < BATCH; i++)
			make_event(feed, &events[i]);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
		struct trace_slice slice;
		if (model_apply(m, events, BATCH, NULL) ||
		    (model_slice_due(m) && model_slice_take(m, &slice, NULL)))
			exit(1);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		*ret_seconds += (double)(end.tv_sec - start.tv_sec) +
				1e-9 * (double)(end.tv_nsec - start.tv_nsec);
	}
}

static void fill_live(struct feed *feed, struct model *m)
{
	static struct trace_event events[BATCH];
	struct trace_slice slice;
	for (uint64_t next = 0; next < feed->stream->live;) {
		size_t count = 0;
		for (; count < BATCH && next < feed->stream->live; count++, next++) {
			events[count] = (struct trace_event){
				.time_ns = feed->time_ns += 40,
				.address = address_of(next),
				.size_bytes = 64,
				.stack_id =
					1 + (uint32_t)(next_random(feed) % feed->stream->stacks),
			};
		}
		if (model_apply(m, events, count, NULL) ||
		    (model_slice_due(m) && model_slice_take(m, &slice, NULL)))
			exit(1);
	}
}

static void run_stream(const struct stream *stream)
{
	struct feed feed = {.stream = stream, .random = 88172645463325252ull};
	struct model *m;
	if (model_new(NULL, &m, NULL))
		exit(1);
	fill_live(&feed, m);
	feed.frees = stream->live > 0;
	feed.address = address_of(0);
	double best = 1e9;
	for (int round = 0; round < ROUNDS; round++) {
		double seconds;
		run_batches(&feed, m, ROUND_EVENTS, &seconds);
		double each = seconds * 1e9 / ROUND_EVENTS;
		best = each < best ? each : best;
	}
	struct model_totals totals;
	model_totals(m, &totals);
	printf("%-28s %6.1f ns/event %8.1f MiB %8.1f bytes/live block\n", stream->name, best,
	       (double)model_memory_bytes(m) / (1 << 20),
	       totals.live_blocks ? (double)model_memory_bytes(m) / (double)totals.live_blocks : 0);
	model_free(m);
}

static const struct stream streams[] = {
	{.name = "one-stack-pairs", .stacks = 1},
	{.name = "1k-stacks-pairs", .stacks = 1000},
	{.name = "1k-stacks-1k-live", .stacks = 1000, .live = 1000},
	{.name = "1k-stacks-100k-live", .stacks = 1000, .live = 100000},
	{.name = "1k-stacks-1M-live", .stacks = 1000, .live = 1000000},
	{.name = "1k-stacks-10M-live", .stacks = 1000, .live = 10000000},
	{.name = "100k-stacks-1M-live", .stacks = 100000, .live = 1000000},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
		if (argc < 2 || strcmp(argv[1], streams[i].name) == 0)
			run_stream(&streams[i]);
	}
	return 0;
}
