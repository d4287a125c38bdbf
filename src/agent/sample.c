/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing the counts. There is no floating point here: logarithms are taken bit
 * by bit, which costs some hundred cycles for each block that is recorded.
 */
#include "agent/sample.h"

#include "agent/real.h"
#include "agent/redirect.h"

enum { LOG_BITS = 32 };
#define LN2_64 0xb17217f7d1cf79acull /* the natural logarithm of 2, times 2^64 */

static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15ull;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

/* Never 0. */
static uint64_t next_random(struct lane *lane)
{
	uint64_t state = lane->random;
	if (!state) {
		uint64_t seed = agent.map.control->sample_seed;
		state = seed ? mix(seed + lane->serial * 2 + lane->number)
			     : mix(read_cost_clock() ^ mix((uintptr_t)lane ^ lane->serial));
	}
	lane->random = state + 0x9e3779b97f4a7c15ull ? state + 0x9e3779b97f4a7c15ull : 1;
	uint64_t value = mix(state);
	return value ? value : 1;
}

/* -log2(value / 2^64), times 2^32: the exponent, then the digits of the logarithm by squaring. */
static uint64_t minus_log2(uint64_t value)
{
	unsigned zeros = (unsigned)__builtin_clzll(value);
	uint64_t mantissa = value << zeros; /* 1 to 2, times 2^63 */
	uint64_t digits = 0;
	for (int i = 0; i < LOG_BITS; i++) {
		unsigned __int128 square = (unsigned __int128)mantissa * mantissa >> 63;
		unsigned digit = (unsigned)(square >> 64);
		mantissa = (uint64_t)(square >> digit);
		digits = digits << 1 | digit;
	}
	return ((uint64_t)zeros + 1) * (1ull << LOG_BITS) - digits;
}

/* Exponentially distributed, with the interval as its mean. */
static uint64_t draw(struct lane *lane, uint32_t interval_log2)
{
	unsigned __int128 natural = (unsigned __int128)minus_log2(next_random(lane)) * LN2_64 >> 64;
	return (uint64_t)(natural << (interval_log2 & 31) >> LOG_BITS);
}

void sample_refresh(struct lane *lane)
{
	struct agent_count *count = lane->count;
	uint32_t sampling =
		atomic_load_explicit(&agent.map.control->sampling, memory_order_relaxed);
	if (count->gate == sampling && sampling)
		return;
	*count = (struct agent_count){.gate = sampling};
	if (sampling) /* else it was switched off since: everything is looked at */
		count->countdown =
			sampling & WIRE_SAMPLING_PAUSED ? UINT64_MAX : draw(lane, sampling);
}

bool sample_hits(struct lane *lane, size_t bytes, uint32_t *ret_interval_log2)
{
	struct agent_count *count = lane->count;
	sample_refresh(lane);
	if (bytes < count->countdown) {
		count->countdown -= bytes + 1;
		return false;
	}
	*ret_interval_log2 = count->gate & WIRE_SAMPLING_LOG2;
	bool paused = count->gate & WIRE_SAMPLING_PAUSED; /* for more bytes than there are */
	count->countdown = paused ? UINT64_MAX : draw(lane, count->gate);
	return !paused;
}

/*
 * The C library's own allocator: its calls of mmap and the like cannot be hooked. Or one whose
 * calls are known, and told by where they come from.
 */
static bool is_plain(void)
{
	struct module_code allocator, library;
	if (redirect_is_heap_code((uintptr_t)real.malloc) &&
	    redirect_is_heap_code((uintptr_t)real.free))
		return true;
	return modules_find(agent.modules, (uintptr_t)real.malloc, &allocator) &&
	       modules_find(agent.modules, (uintptr_t)real._exit, &library) &&
	       allocator.start == library.start && (uintptr_t)real.free >= library.start &&
	       (uintptr_t)real.free < library.end;
}

void sample_enter(void)
{
	uint32_t on = AGENT_ON;
	if (atomic_load_explicit(&agent.state, memory_order_relaxed) != AGENT_ON ||
	    atomic_load(&agent.map.control->state) != WIRE_SAMPLED ||
	    atomic_load(&agent.shared_tls))
		return;
	agent.malloc = real.malloc;
	agent.free = real.free;
	agent.filter = agent.map.filter;
	atomic_compare_exchange_strong(&agent.state, &on,
				       is_plain() ? AGENT_SAMPLED : AGENT_SAMPLED_NESTED);
	if (atomic_load(&agent.shared_tls)) /* since we looked */
		sample_leave();
}

void sample_leave(void)
{
	uint32_t sampled = AGENT_SAMPLED, nested = AGENT_SAMPLED_NESTED;
	atomic_compare_exchange_strong(&agent.state, &sampled, AGENT_ON);
	atomic_compare_exchange_strong(&agent.state, &nested, AGENT_ON);
}

AGENT_COLD void sample_keep(const void *block)
{
	if (block && sample_is_on())
		wire_filter_add(agent.map.filter, (uint64_t)block);
}
