/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small functions in machine code, run as they are and through their moved
 * beginning: both must give the same.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "harness/tap.h"
#include "inject/reloc.h"

enum { PAGE = 4096, COPY_AT = PAGE };

typedef long (*function)(long, long);

/* Two pages next to each other: the code, and room for the copy. */
static uint8_t *new_page(void)
{
	uint8_t *page = mmap(NULL, 2 * (size_t)PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(page != MAP_FAILED);
	memset(page, 0xcc, PAGE);
	return page;
}

struct sample {
	const char *what;
	uint8_t code[40];
	uint8_t bytes; /* st_size */
	uint8_t entry, steps;
};

static int decode(uint8_t *page, const struct sample *sample, struct reloc *ret,
		  struct tm_error *err)
{
	memcpy(page, sample->code, sizeof sample->code);
	struct reloc_code code = {.bytes = page,
				  .count = sizeof sample->code,
				  .function_bytes = sample->bytes,
				  .address = (uint64_t)page};
	return reloc_decode(&code, ret, err);
}

/* The function's beginning is overwritten by a jump to the copy, as in a patched program. */
static void compare(const struct sample *sample)
{
	uint8_t *page = new_page();
	struct tm_error err = {0};
	struct reloc reloc;
	size_t bytes = 0;
	long plain[3], moved[3];

	if (!CHECK_EQ_I64(decode(page, sample, &reloc, &err), 0)) {
		tap_note("%s: %s", sample->what, err.text);
		return;
	}
	function call;
	memcpy(&call, &page, sizeof call);
	for (int i = 0; i < 3; i++)
		plain[i] = call(i, 5);
	CHECK_EQ_U64(reloc.entry, sample->entry);
	CHECK_EQ_U64(reloc.steps, sample->steps);
	CHECK_EQ_I64(reloc_emit(&reloc, (uint64_t)page + COPY_AT, page + COPY_AT, &bytes), 0);
	CHECK(bytes <= RELOC_COPY_BYTES);
	CHECK_EQ_I64(reloc_jump((uint64_t)page + reloc.entry, (uint64_t)page + COPY_AT,
				page + reloc.entry),
		     0);
	for (int i = 0; i < 3; i++) {
		moved[i] = call(i, 5);
		if (!CHECK_EQ_I64(moved[i], plain[i]))
			tap_note("%s, argument %d", sample->what, i);
	}
	munmap(page, 2 * (size_t)PAGE);
}

static void moves(void)
{
	static const struct sample samples[] = {
		{"plain", {0x48, 0x8d, 0x04, 0x37, 0x48, 0xff, 0xc0, 0xc3}, 8, 0, 2},
		{"after endbr64",
		 {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x04, 0x37, 0x48, 0xff, 0xc0, 0xc3},
		 12,
		 4,
		 2},
		/* mov 9(%rip),%rax: reads what lies behind the ret; ret */
		{"data beside the code",
		 {0x48, 0x8b, 0x05, 1, 0, 0, 0, 0xc3, 1, 2, 3, 4, 5, 6, 7, 8},
		 8,
		 0,
		 1},
		/* cmpb $5,2(%rip); sete %al; movzx %al,%eax; ret: an immediate behind the
		   displacement */
		{"data and a constant",
		 {0x80, 0x3d, 7, 0, 0, 0, 5, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0, 0xc3, 5},
		 14,
		 0,
		 1},
		/* test %rdi,%rdi; je +4; mov %rsi,%rax; ret; xor %eax,%eax; ret */
		{"a short branch",
		 {0x48, 0x85, 0xff, 0x74, 0x04, 0x48, 0x89, 0xf0, 0xc3, 0x31, 0xc0, 0xc3},
		 12,
		 0,
		 2},
		/* the same with a long je */
		{"a long branch",
		 {0x48, 0x85, 0xff, 0x0f, 0x84, 4, 0, 0, 0, 0x48, 0x89, 0xf0, 0xc3, 0x31, 0xc0,
		  0xc3},
		 16,
		 0,
		 2},
		/* jmp +3; nops; lea (%rdi,%rsi),%rax; ret */
		{"a short jump",
		 {0xeb, 3, 0x90, 0x90, 0x90, 0x48, 0x8d, 0x04, 0x37, 0xc3},
		 10,
		 0,
		 1},
		/* sub $8,%rsp; call +5; add $8,%rsp; ret; lea (%rdi,%rsi),%rax; ret */
		{"a call",
		 {0x48, 0x83, 0xec, 8, 0xe8, 5, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3, 0x48, 0x8d,
		  0x04, 0x37, 0xc3},
		 14,
		 0,
		 2},
		/* push %rbx; lea 6(%rip),%rax ; call *%rax; pop %rbx; ret; xchg..; */
		{"a call through a register",
		 {0x53, 0x48, 0x8d, 0x05, 4, 0, 0, 0, 0xff, 0xd0, 0x5b, 0xc3, 0x48, 0x8d, 0x04,
		  0x37, 0xc3},
		 12,
		 0,
		 2},
		/* ret, and filling to the next function */
		{"short with filling behind",
		 {0x31, 0xc0, 0xc3, 0x66, 0x0f, 0x1f, 0x44, 0, 0, 0x90},
		 3,
		 0,
		 2},
		/* jmp to itself + 5: as musl's free */
		{"nothing but a jump", {0xe9, 0, 0, 0, 0, 0x48, 0x8d, 0x04, 0x37, 0xc3}, 5, 0, 1},
	};

	for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
		compare(&samples[i]);
}

/* call *8(%rip) as the last moved instruction: it pushes the address it would have pushed. */
static void indirect_call(void)
{
	uint8_t *page = new_page();
	struct sample sample = {
		"", {0x50, 0x90, 0x90, 0xff, 0x15, 7, 0, 0, 0, 0x59, 0xc3}, 11, 0, 4};
	uint64_t callee = (uint64_t)page + 32;

	memcpy(sample.code + 16, &callee, sizeof callee);
	/* mov (%rsp),%rax; ret */
	memcpy(sample.code + 32, (uint8_t[]){0x48, 0x8b, 0x04, 0x24, 0xc3}, 5);
	struct reloc reloc;
	struct tm_error err = {0};
	size_t bytes;
	REQUIRE(decode(page, &sample, &reloc, &err) == 0);
	REQUIRE(reloc_emit(&reloc, (uint64_t)page + COPY_AT, page + COPY_AT, &bytes) == 0);
	REQUIRE(reloc_jump((uint64_t)page, (uint64_t)page + COPY_AT, page) == 0);
	function call;
	memcpy(&call, &page, sizeof call);
	CHECK_EQ_U64((uint64_t)call(0, 0), (uint64_t)page + 9);
	CHECK_EQ_U64(reloc.step[3].from, 3);
}

static void refuses(void)
{
	static const struct {
		struct sample sample;
		const char *reason;
	} cases[] = {
		{{"", {0xc3, 0x48, 0x89, 0xf0, 0xc3}, 1, 0, 0}, "shorter than the jump"},
		{{"", {0x31, 0xc0, 0x90, 0x90, 0x90, 0xc3}, 2, 0, 0}, "runs on into the next"},
		{{"", {0xe2, 3, 0x48, 0x89, 0xf0, 0xc3}, 6, 0, 0}, "'loop' at +0"},
		{{"", {0x48, 0x89, 0xf1, 0xe3, 1, 0xc3, 0xc3}, 7, 0, 0}, "'jrcxz' at +3"},
		{{"", {0xff, 0xd0, 0x48, 0x89, 0xf0, 0xc3}, 6, 0, 0}, "calls within its first"},
		{{"", {0x50, 0xff, 0x54, 0x24, 8, 0xc3}, 6, 0, 0}, "call at +1"},
		{{"", {0x06, 0x06, 0x06, 0x06, 0x06, 0x06}, 6, 0, 0}, "cannot be decoded"},
		/* dec %rdi; jne back to +3 */
		{{"", {0x31, 0xc0, 0x90, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}, 9, 0, 0},
		 "+6 branches into"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint8_t *page = new_page();
		struct tm_error err = {0};
		struct reloc reloc;
		CHECK_EQ_I64(decode(page, &cases[i].sample, &reloc, &err), -EINVAL);
		CHECK_HAS(err.text, cases[i].reason);
		munmap(page, 2 * (size_t)PAGE);
	}
}

static void too_far(void)
{
	uint8_t bytes[RELOC_COPY_BYTES];

	CHECK_EQ_I64(reloc_jump(0x400000, 0x7f0000000000, bytes), -ERANGE);
	CHECK_EQ_I64(reloc_jump(0x400000, 0x400000 + 5 + 0x7fffffffull, bytes), 0);
	CHECK_EQ_I64(reloc_jump(0x400000, 0x400000 + 6 + 0x7fffffffull, bytes), -ERANGE);
}

static const struct tap_case cases[] = {
	{.name = "a moved beginning does what it did", .run = moves},
	{.name = "a moved call returns into the function itself", .run = indirect_call},
	{.name = "what cannot be moved is refused with the reason", .run = refuses},
	{.name = "a jump that cannot reach is not written", .run = too_far},
};
TAP_MAIN(cases)
