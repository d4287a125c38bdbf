/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/frames.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/memory.h"
#include "inject/remote.h"

enum {
	SHALLOW_BYTES = 16 * 1024,
	DEEP_BYTES = 256 * 1024,
	RED_ZONE_BYTES = 128,
	STACKS_MAX = 8, /* handlers within handlers, each on a stack of its own */
	USER_CODE_SEGMENT = 0x33,
};
#define FLAGS_MASK ((uint64_t)0x3fffff)

/* A word of flags as user programs have it: bit 1 always, interrupts on, nothing unknown. */
static bool looks_like_flags(uint64_t word)
{
	return (word & ~FLAGS_MASK) == 0 && (word & 0x202) == 0x202;
}

size_t frames_find(const uint64_t *words, size_t count, size_t from)
{
	from = from ? from : 1; /* the stack pointer comes before */
	for (size_t i = from; i + 2 < count; i++)
		if ((words[i + 2] & 0xffff) == USER_CODE_SEGMENT && looks_like_flags(words[i + 1]))
			return i;
	return count;
}

/* As much as there is of it. Returns the bytes. */
static size_t read_stack(const struct frames_scan *scan, uint64_t start, uint64_t *words,
			 size_t bytes)
{
	ssize_t got = pread(scan->memory_fd, words, bytes, (off_t)start);
	return got > 0 ? (size_t)got : 0;
}

/* One stretch of stack. The stack pointers that its frames keep go to next[]. */
static int repair_stretch(const struct frames_scan *scan, uint64_t start, const uint64_t *words,
			  size_t count, uint64_t *next, size_t *next_count)
{
	int moved = 0;
	for (size_t i = frames_find(words, count, 0); i < count;
	     i = frames_find(words, count, i + 1)) {
		uint64_t pc = words[i], sp = words[i - 1], end = start + count * sizeof *words;
		if ((sp < start || sp >= end) && *next_count < STACKS_MAX)
			next[(*next_count)++] = sp;
		if (pc < scan->low || pc >= scan->high)
			continue;
		uint64_t to = scan->move(scan->ctx, pc);
		if (to == pc)
			continue;
		int error =
			remote_write(scan->memory_fd, start + i * sizeof *words, &to, sizeof to);
		if (error)
			return error;
		moved++;
	}
	return moved;
}

int frames_repair(const struct frames_scan *scan, uint64_t stack, int deep)
{
	size_t bytes = deep ? DEEP_BYTES : SHALLOW_BYTES, next_count = 0;
	uint64_t shallow[SHALLOW_BYTES / 8], next[STACKS_MAX];
	uint64_t *words = deep ? tm_alloc(bytes) : shallow;
	int moved = 0;
	if (!words)
		return -ENOMEM;
	next[next_count++] = stack;
	for (size_t i = 0; i < next_count && moved >= 0; i++) {
		uint64_t start = (next[i] - RED_ZONE_BYTES) & ~(uint64_t)7;
		size_t got = read_stack(scan, start, words, bytes);
		int more =
			repair_stretch(scan, start, words, got / sizeof *words, next, &next_count);
		moved = more < 0 ? more : moved + more;
	}
	if (deep)
		tm_free(words);
	return moved;
}
