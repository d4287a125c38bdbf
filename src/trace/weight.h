/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sampled block stands for (docs/sampling.md has the mathematics). Where
 * not all blocks are recorded, the size of one that is carries the interval by
 * which it was chosen: a *size word*. It stands wherever a size of a heap block
 * is stored or kept, so that it is never apart from its block:
 *
 *   bit 47        1: sampled. 0: the word is the size, and the block counts once
 *   bits 41..46   log2 of the interval
 *   bits 0..40    the size
 *
 * No exact block is that large. Blocks much larger than the interval are always
 * chosen: their word is their size. Sizes of failed calls are no size words.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	TRACE_INTERVAL_LOG2_MIN = 6, /* 64 bytes */
	TRACE_INTERVAL_LOG2_MAX = 30,
	TRACE_WORD_LOG2_SHIFT = 41,
	TRACE_SURE_INTERVALS = 40, /* a block of so many is chosen but for 4 in 10^18 */
};
#define TRACE_WORD_SAMPLED   (1ull << 47)
#define TRACE_WORD_SIZE_MASK ((1ull << TRACE_WORD_LOG2_SHIFT) - 1)

/* log2 of the interval; 0: not sampled. */
static inline unsigned trace_word_interval_log2(uint64_t word)
{
	if (__builtin_expect(word >> 47 != 1, 1))
		return 0;
	unsigned log2 = (unsigned)(word >> TRACE_WORD_LOG2_SHIFT) & 63;
	return log2 >= TRACE_INTERVAL_LOG2_MIN && log2 <= TRACE_INTERVAL_LOG2_MAX ? log2 : 0;
}

static inline bool trace_word_sampled(uint64_t word)
{
	return trace_word_interval_log2(word) != 0;
}

/* The size that was asked for. */
static inline uint64_t trace_word_size(uint64_t word)
{
	return trace_word_sampled(word) ? word & TRACE_WORD_SIZE_MASK : word;
}

/* interval_log2 0, or one that is out of range: not sampled. */
uint64_t trace_word_make(uint64_t size_bytes, unsigned interval_log2);

/* How many blocks, and bytes, a block stands for. */
struct trace_weight {
	uint64_t count, bytes;
};

/*
 * Equal for the birth and the end of a block, which has the same word and number
 * at both. The bytes are the estimate rounded; the count is rounded up or down by
 * a chance that the block's number decides, so that its mean is right.
 */
struct trace_weight trace_weigh_sampled(uint64_t word, uint64_t block_id);

static inline struct trace_weight trace_weigh(uint64_t word, uint64_t block_id)
{
	if (__builtin_expect(!trace_word_sampled(word), 1))
		return (struct trace_weight){1, word};
	return trace_weigh_sampled(word, block_id);
}

/* The chance by which a block of so many bytes is chosen, more than 0 and at most 1. */
double trace_chance(uint64_t size_bytes, unsigned interval_log2);

/*
 * The standard error of an estimate of `bytes` in `blocks`, at most: with every
 * division into sizes the true one is not larger. 0 where the interval is 0.
 */
double trace_standard_error(double bytes, double blocks, double interval_bytes);
/* Of the difference of two that know nothing of each other. */
double trace_joint_error(double one, double other);
