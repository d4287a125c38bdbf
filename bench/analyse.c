/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What questions about a trace cost: opening it, random ranges with filters on
 * names, a scan, and rebuilding what is missing.
 *
 *	analyse FILE open            open, all totals
 *	analyse FILE ranges [N]      N random ranges (200), with a filter on a function
 *	analyse FILE kept [N]        the same with "allocated in the range and still live"
 *	analyse FILE scan FILTER     one question that needs the events
 *	analyse FILE rebuild         all figures from the events
 *	analyse FILE replay          the same event by event, as without the ENDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "model/query.h"

enum { QUESTIONS = 200 };

static struct trace_reader *reader;
static struct query_section *section;

static void check(int rc, const struct tm_error *err)
{
	if (rc) {
		fprintf(stderr, "analyse: %s\n", err->text);
		exit(1);
	}
}

static double now_ms(void)
{
	return (double)clock_read_ns(CLOCK_MONOTONIC) / 1e6;
}

static double peak_mib(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252ull;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Made-up names, one frame per stack: what names cost is not the question here. */
static bool name_frame(void *ctx, uint32_t stack_id, size_t index, struct filter_frame *ret)
{
	static const char *const names[] = {"parse", "render", "index", "cache", "net", "codec"};
	(void)ctx;
	*ret = (struct filter_frame){.function = names[stack_id % 6]};
	return index == 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void ask_ranges(size_t count, unsigned want)
{
	static const char *const texts[] = {"function:parse", "function:cache or function:net",
					    "not function:render", ""};
	struct filter_names names = {.frame = name_frame};
	struct tm_error err = {0};
	double *times = calloc(count, sizeof *times), *cpus = calloc(count, sizeof *cpus);
	uint64_t bytes = 0, blocks = 0;
	for (size_t i = 0; i < count; i++) {
		struct filter *filter;
		struct filter_bound *bound;
		struct query_answer answer;
		uint64_t duration = query_duration_ns(section);
		uint64_t a = next_random() % (duration + 1), b = next_random() % (duration + 1);
		double start = now_ms(), cpu = (double)clock_cpu_ns() / 1e6;
		check(filter_parse(texts[i % 4], &filter, NULL, &err), &err);
		check(query_bind(section, filter, &names, &bound, &err), &err);
		struct query query = {.from_ns = a < b ? a : b,
				      .to_ns = a < b ? b : a,
				      .filter = bound,
				      .want = want};
		check(query_ask(section, &query, &answer, &err), &err);
		times[i] = now_ms() - start;
		cpus[i] = (double)clock_cpu_ns() / 1e6 - cpu;
		bytes += answer.bytes_read;
		blocks += answer.event_blocks;
		query_answer_done(&answer);
		filter_bound_free(bound);
		filter_free(filter);
	}
	qsort(times, count, sizeof *times, compare);
	qsort(cpus, count, sizeof *cpus, compare);
	printf("questions=%zu median_ms=%.1f p90_ms=%.1f worst_ms=%.1f median_cpu_ms=%.1f "
	       "read_percent=%.2f event_blocks=%.1f peak_mib=%.0f\n",
	       count, times[count / 2], times[count * 9 / 10], times[count - 1], cpus[count / 2],
	       100.0 * (double)bytes / (double)count / (double)trace_reader_file_bytes(reader),
	       (double)blocks / (double)count, peak_mib());
	free(times);
	free(cpus);
}

static void ask_scan(const char *text)
{
	struct filter_names names = {.frame = name_frame};
	struct filter *filter;
	struct filter_bound *bound;
	struct query_answer answer;
	struct tm_error err = {0};
	struct model_totals totals;
	model_totals(query_model(section), &totals);
	check(filter_parse(text, &filter, NULL, &err), &err);
	check(query_bind(section, filter, &names, &bound, &err), &err);
	struct query query = {.to_ns = UINT64_MAX, .filter = bound};
	double start = now_ms(), cpu = (double)clock_cpu_ns();
	check(query_ask(section, &query, &answer, &err), &err);
	double ms = now_ms() - start;
	struct text how = {0};
	query_answer_explain(&how, &answer);
	printf("scan_ms=%.0f events_per_s=%.1fM cpu_ns_per_event=%.1f allocations=%llu "
	       "peak_mib=%.0f"
	       " (%s)\n",
	       ms, (double)totals.events / ms / 1e3,
	       ((double)clock_cpu_ns() - cpu) / (double)totals.events,
	       (unsigned long long)answer.totals.allocations, peak_mib(), text_string(&how));
	text_done(&how);
	query_answer_done(&answer);
	filter_bound_free(bound);
	filter_free(filter);
}

static void rebuild(bool anew)
{
	struct tm_error err = {0};
	struct model *model;
	struct model_totals totals;
	double start = now_ms(), cpu = (double)clock_cpu_ns();
	const struct model_load_options options = {.anew = true};
	if (anew)
		check(model_load_with(reader, &options, &model, NULL, &err), &err);
	else
		check(model_rebuild(reader, &model, &err), &err);
	double ms = now_ms() - start;
	model_totals(model, &totals);
	printf("rebuild_ms=%.0f events_per_s=%.1fM cpu_ns_per_event=%.1f "
	       "events_per_cpu_s=%.1fM peak_mib=%.0f\n",
	       ms, (double)totals.events / ms / 1e3,
	       ((double)clock_cpu_ns() - cpu) / (double)totals.events,
	       (double)totals.events / ((double)clock_cpu_ns() - cpu) * 1e3, peak_mib());
	model_free(model);
}

int main(int argc, char **argv)
{
	struct tm_error err = {0};
	if (argc < 3) {
		fprintf(stderr,
			"usage: analyse FILE open|ranges|kept|scan|rebuild|replay [ARGUMENT]\n");
		return 2;
	}
	double start = now_ms();
	check(trace_reader_open(argv[1], &reader, &err), &err);
	if (!strcmp(argv[2], "rebuild") || !strcmp(argv[2], "replay")) {
		rebuild(!strcmp(argv[2], "rebuild"));
		return 0;
	}
	check(query_open(reader, NULL, &section, &err), &err);
	if (!strcmp(argv[2], "open"))
		printf("open_ms=%.1f cpu_ms=%.1f read_percent=%.2f peak_mib=%.0f\n",
		       now_ms() - start, (double)clock_cpu_ns() / 1e6,
		       100.0 * (double)trace_reader_bytes_read(reader) /
			       (double)trace_reader_file_bytes(reader),
		       peak_mib());
	else if (!strcmp(argv[2], "scan"))
		ask_scan(argc > 3 ? argv[3] : "size>=4K");
	else
		ask_ranges(argc > 3 ? strtoul(argv[3], NULL, 10) : QUESTIONS,
			   !strcmp(argv[2], "kept") ? QUERY_PEAK | QUERY_KEPT : QUERY_PEAK);
	query_close(section);
	trace_reader_close(reader);
	return 0;
}
