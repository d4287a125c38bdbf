/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/weight.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "trace/trace.h"

/* Of x^2 / (e^x - 1), at x = 1.594. */
#define MOST_VARIANCE 0.6477

uint64_t trace_word_make(uint64_t size_bytes, unsigned interval_log2)
{
	if (interval_log2 < TRACE_INTERVAL_LOG2_MIN || interval_log2 > TRACE_INTERVAL_LOG2_MAX ||
	    size_bytes >> interval_log2 >= TRACE_SURE_INTERVALS)
		return size_bytes;
	return TRACE_WORD_SAMPLED | (uint64_t)interval_log2 << TRACE_WORD_LOG2_SHIFT | size_bytes;
}

/*
 * 1 - exp(-x), for x up to TRACE_SURE_INTERVALS. Own arithmetic, in one order: every
 * machine that reads a trace finds the same figures in it. By the series where x
 * is small; else that of a half, a quarter ... and 1 - exp(-2y) = q (2 - q).
 */
static double one_minus_exp(double x)
{
	enum { TERMS = 18 };
	unsigned doublings = 0;
	double sum = 0;
	for (; x > 0.5; x /= 2)
		doublings++;
	for (int i = TERMS; i > 0; i--)
		sum = x / i * (1 - sum);
	for (; doublings > 0; doublings--)
		sum *= 2 - sum;
	return sum;
}

double trace_chance(uint64_t size_bytes, unsigned interval_log2)
{
	if (!interval_log2 || size_bytes >> interval_log2 >= TRACE_SURE_INTERVALS)
		return 1;
	/* The agent counts a byte more, so that blocks of no bytes have a chance. */
	return one_minus_exp(((double)size_bytes + 1) / (double)(1ull << interval_log2));
}

struct trace_weight trace_weigh_sampled(uint64_t word, uint64_t block_id)
{
	uint64_t size_bytes = trace_word_size(word);
	double weight = 1 / trace_chance(size_bytes, trace_word_interval_log2(word));
	double part = (double)(hash_u64(block_id) >> 11) / (double)(1ull << 53);
	return (struct trace_weight){
		.count = (uint64_t)(weight + part),
		.bytes = (uint64_t)((double)size_bytes * weight + 0.5),
	};
}

/* Newton's: without the library of mathematics, and equal everywhere. */
static double square_root(double value)
{
	double root = value > 1 ? value : 1;
	if (value <= 0)
		return 0;
	for (int i = 0; i < 1100; i++) {
		double next = (root + value / root) / 2;
		if (next >= root)
			break;
		root = next;
	}
	return root;
}

double trace_standard_error(double bytes, double blocks, double interval_bytes)
{
	double by_bytes = interval_bytes * bytes;
	double by_blocks = MOST_VARIANCE * interval_bytes * interval_bytes * blocks;
	return square_root(by_bytes < by_blocks ? by_bytes : by_blocks);
}

double trace_joint_error(double one, double other)
{
	return square_root(one * one + other * other);
}

uint64_t trace_moment_interval(const struct trace_moment *moment)
{
	static const char sampled[] = "sampled ";
	if (moment->kind != TRACE_MOMENT_MODE || !moment->text ||
	    strncmp(moment->text, sampled, sizeof sampled - 1))
		return 0;
	return strtoull(moment->text + sizeof sampled - 1, NULL, 10);
}

uint64_t trace_reader_sample_bytes(struct trace_reader *r)
{
	const struct trace_meta *meta;
	const struct trace_moment *moments;
	size_t count = 0;
	uint64_t most = trace_reader_meta(r, &meta, NULL) ? 0 : meta->sample_bytes;
	if (trace_reader_moments(r, &moments, &count, NULL))
		return most;
	for (size_t i = 0; i < count; i++) {
		uint64_t interval = trace_moment_interval(&moments[i]);
		most = interval > most ? interval : most;
	}
	return most;
}
