/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/cave.h"

#include <string.h>
#include <sys/syscall.h>

enum {
	PAGE = 4096,
	ALIGNMENT = 16,
	SET_MASK = 2,
	MASK_BYTES = 8,
	FLAG_SIGN_TO_CARRY = 0xd5, /* of the flags' low byte: SF ZF AF PF CF */
	FLAG_FIXED = 0x02,
	COMMON_BYTES = 29, /* up to the flags all are alike */
	FLAG_DIRECTION = 1 << 10,
	FLAG_OVERFLOW = 1 << 11,
};

/* Code from the front, constants from the back. */
struct writer {
	uint8_t *bytes;
	size_t code, data;
};

uint64_t cave_after(uint64_t code_end)
{
	uint64_t start = (code_end + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
	uint64_t end = (code_end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	return code_end && start < end && end - start >= CAVE_BYTES ? start : 0;
}

static void put(struct writer *writer, const void *bytes, size_t count)
{
	memcpy(writer->bytes + writer->code, bytes, count);
	writer->code += count;
}

static void put_number(struct writer *writer, const char *code, size_t count, uint32_t number)
{
	put(writer, code, count);
	put(writer, &number, sizeof number);
}

/* An instruction that takes a constant by its distance. */
static void put_constant(struct writer *writer, const char *code, size_t count, uint64_t value)
{
	writer->data -= sizeof value;
	memcpy(writer->bytes + writer->data, &value, sizeof value);
	put_number(writer, code, count,
		   (uint32_t)(writer->data - writer->code - count - sizeof(uint32_t)));
}

static void put_mask(struct writer *writer, uint64_t mask)
{
	put_number(writer, "\xb8", 1, SYS_rt_sigprocmask); /* mov $, %eax */
	put_number(writer, "\xbf", 1, SET_MASK);           /* mov $, %edi */
	put_constant(writer, "\x48\x8d\x35", 3, mask);     /* lea mask(%rip), %rsi */
	put(writer, "\x31\xd2", 2);                        /* xor %edx, %edx */
	put_number(writer, "\x41\xba", 2, MASK_BYTES);     /* mov $, %r10d */
	put(writer, "\x0f\x05", 2);                        /* syscall */
}

/* popf would need a stack. */
static void put_flags(struct writer *writer, uint64_t flags)
{
	uint32_t low = (uint32_t)(flags & FLAG_SIGN_TO_CARRY) | FLAG_FIXED;
	uint32_t overflow = flags & FLAG_OVERFLOW ? 1 : 0;
	put_number(writer, "\xb8", 1, low << 8 | overflow); /* mov $, %eax */
	put(writer, "\x04\x7f", 2);                         /* add $0x7f, %al */
	put(writer, "\x9e", 1);                             /* sahf */
	put(writer, flags & FLAG_DIRECTION ? "\xfd" : "\xfc", 1);
}

bool cave_is_ours(const uint8_t bytes[CAVE_BYTES])
{
	static const struct user_regs_struct none;
	uint8_t ours[CAVE_BYTES];
	cave_fill(&none, 0, ours);
	return !memcmp(bytes, ours, COMMON_BYTES);
}

void cave_fill(const struct user_regs_struct *resumed, uint64_t signal_mask,
	       uint8_t ret[CAVE_BYTES])
{
	struct writer writer = {.bytes = ret, .data = CAVE_BYTES};
	const struct {
		const char *load; /* mov constant(%rip), %register */
		uint64_t value;
	} registers[] = {
		{"\x48\x8b\x05", resumed->rax}, {"\x48\x8b\x1d", resumed->rbx},
		{"\x48\x8b\x0d", resumed->rcx}, {"\x48\x8b\x15", resumed->rdx},
		{"\x48\x8b\x35", resumed->rsi}, {"\x48\x8b\x3d", resumed->rdi},
		{"\x48\x8b\x2d", resumed->rbp}, {"\x4c\x8b\x05", resumed->r8},
		{"\x4c\x8b\x0d", resumed->r9},  {"\x4c\x8b\x15", resumed->r10},
		{"\x4c\x8b\x1d", resumed->r11}, {"\x4c\x8b\x25", resumed->r12},
		{"\x4c\x8b\x2d", resumed->r13}, {"\x4c\x8b\x35", resumed->r14},
		{"\x4c\x8b\x3d", resumed->r15}, {"\x48\x8b\x25", resumed->rsp},
	};
	memset(ret, 0, CAVE_BYTES);
	put(&writer, "\x0f\x05", 2); /* syscall: what the tracer wants */
	put_mask(&writer, signal_mask);
	put_flags(&writer, resumed->eflags);
	for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++)
		put_constant(&writer, registers[i].load, 3, registers[i].value);
	put_constant(&writer, "\xff\x25", 2, resumed->rip); /* jmp *constant(%rip) */
}
