/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TIDEMARK_CFI_FILES (a list with colons) compares these files as well, every
 * row of them: run it after a change of cfi*.c over all libraries at hand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/cfi.h"
#include "cfi_compare.h"
#include "cfi_exotic.h"
#include "cfi_image.h"
#include "harness/tap.h"

enum { PAGE_BYTES = 4096, CLOBBERED = 1u << 0 | 1u << 1 | 1u << 2 };

extern const char __ehdr_start[];

/* This program's own table. */
static struct cfi_image own_image(void)
{
	struct cfi_loaded loaded;

	REQUIRE(cfi_load("/proc/self/exe", &loaded));
	struct cfi_image image = loaded.image;
	/* From the copy to the original: the file's first byte is mapped at __ehdr_start. */
	uintptr_t move = (uintptr_t)__ehdr_start - (uintptr_t)loaded.memory;
	image.start += move;
	image.end += move;
	image.eh_frame_hdr += move;
	image.code_start += move;
	image.code_end += move;
	cfi_unload(&loaded);
	return image;
}

static struct cfi_rule rule_at(const struct cfi_image *image, const char *function, size_t offset)
{
	struct cfi_rule rule;
	cfi_find(image, (uintptr_t)function + offset, &rule);
	return rule;
}

/* Exhaustive over small files; of large ones every n-th function, to stay quick. */
static void system_files(void)
{
	static const struct {
		const char *path;
		unsigned every;
	} files[] = {
		{"/proc/self/exe", 1},
		{"/lib/x86_64-linux-gnu/libc.so.6", 1},
		{"/lib64/ld-linux-x86-64.so.2", 1},
		{"/lib/x86_64-linux-gnu/libm.so.6", 1},
		{"/lib/x86_64-linux-gnu/libmvec.so.1", 1},
		{"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 1},
		{"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 3},
		{"/usr/bin/python3.11", 1},
		{"/usr/bin/node", 17},
		{"/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", 17},
		{"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", 31},
	};
	struct cfi_compare_stats stats = {0};

	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		if (access(files[i].path, R_OK) == 0)
			CHECK(cfi_compare_file(files[i].path, files[i].every, &stats));
	tap_note("%llu functions, %llu rows, %llu slow", (unsigned long long)stats.functions,
		 (unsigned long long)stats.rows, (unsigned long long)stats.kinds[CFI_SLOW]);
	CHECK_EQ_U64(stats.mismatches, 0);
	CHECK(stats.rows > 10000);
}

static void asked_files(void)
{
	char *list = getenv("TIDEMARK_CFI_FILES");
	struct cfi_compare_stats stats = {0};

	if (!list)
		tap_skip("TIDEMARK_CFI_FILES is not set");
	for (char *path = strtok(list, ":"); path; path = strtok(NULL, ":"))
		if (!cfi_compare_file(path, 1, &stats))
			tap_note("%s: no unwind table", path);
	tap_note("%llu functions, %llu rows, %llu slow, %llu unanswered by libdw",
		 (unsigned long long)stats.functions, (unsigned long long)stats.rows,
		 (unsigned long long)stats.kinds[CFI_SLOW], (unsigned long long)stats.unanswered);
	CHECK_EQ_U64(stats.mismatches, 0);
}

static void simple_rules(void)
{
	struct cfi_image image = own_image();
	struct cfi_rule rule = rule_at(&image, exotic_nested, 0);

	CHECK_EQ_U64(rule.kind, CFI_SP);
	CHECK_EQ_I64(rule.cfa_offset, 8);
	CHECK(!rule.bp_saved);
	rule = rule_at(&image, exotic_nested, 3);
	CHECK_EQ_U64(rule.kind, CFI_BP);
	CHECK_EQ_I64(rule.cfa_offset, 16);
	CHECK(rule.bp_saved);
	CHECK_EQ_I64(rule.bp_offset, -16);
	rule = rule_at(&image, exotic_nested, 8);
	CHECK_EQ_U64(rule.kind, CFI_SP);
	CHECK_EQ_I64(rule.cfa_offset, 8);
	CHECK_EQ_I64(rule_at(&image, exotic_plt, 10).cfa_offset, 8);
	CHECK_EQ_I64(rule_at(&image, exotic_plt, 11).cfa_offset, 16);
	CHECK_EQ_U64(rule_at(&image, exotic_plt, 11).kind, CFI_SP);
	CHECK_EQ_U64(rule_at(&image, exotic_end, 1).kind, CFI_END);
	CHECK_EQ_I64(rule_at(&image, exotic_far, 299).cfa_offset, 8);
	CHECK_EQ_I64(rule_at(&image, exotic_far, 300).cfa_offset, 16);
	CHECK_EQ_I64(rule_at(&image, exotic_far, 70300).cfa_offset, 24);
	CHECK_EQ_I64(rule_at(&image, exotic_after_expr, 3).cfa_offset, 56);
	rule = rule_at(&image, exotic_realigned, 1);
	CHECK_EQ_U64(rule.kind, CFI_BP_DEREF);
	CHECK_EQ_I64(rule.cfa_offset, -8);
	CHECK_EQ_I64(rule.bp_offset, 0);
	CHECK_EQ_U64(rule_at(&image, exotic_realigned, 2).kind, CFI_SLOW);
}

static void slow_rules(void)
{
	struct cfi_image image = own_image();

	CHECK_EQ_U64(rule_at(&image, exotic_rbx, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_register, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_val_offset, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_val_offset, 2).kind, CFI_SP);
	CHECK_EQ_U64(rule_at(&image, exotic_huge, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_ra16, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_expressions, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_signal, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_rbp_gone, 1).kind, CFI_SLOW);
	CHECK_EQ_U64(rule_at(&image, exotic_loop, 1).kind, CFI_SLOW);
}

/* musl's trampoline has no FDE and may follow any function. */
static void trampolines(void)
{
	struct cfi_image image = own_image();

	CHECK_EQ_U64(rule_at(&image, exotic_before_wide, 0).kind, CFI_SP);
	CHECK_EQ_U64(rule_at(&image, exotic_wide, -(size_t)1).kind, CFI_SIGNAL);
	CHECK_EQ_U64(rule_at(&image, exotic_wide, 0).kind, CFI_SIGNAL);
	CHECK_EQ_U64(rule_at(&image, exotic_wide, 1).kind, CFI_NONE);
	CHECK_EQ_U64(rule_at(&image, exotic_narrow, -(size_t)1).kind, CFI_SIGNAL);
	CHECK_EQ_U64(rule_at(&image, exotic_narrow, 0).kind, CFI_SIGNAL);
	CHECK_EQ_U64(rule_at(&image, exotic_last, 0).kind, CFI_NONE);
	CHECK(!cfi_covers(&image, (uintptr_t)exotic_wide));
	CHECK(cfi_covers(&image, (uintptr_t)exotic_before_wide));
	/* Not read when the code is not known to be readable. */
	image.code_end = image.code_start = 0;
	CHECK_EQ_U64(rule_at(&image, exotic_wide, 0).kind, CFI_NONE);
}

static bool peek_nothing(void *ctx, uintptr_t address, uint64_t *ret)
{
	(void)ctx;
	(void)address;
	(void)ret;
	return false;
}

static bool peek_address(void *ctx, uintptr_t address, uint64_t *ret)
{
	(void)ctx;
	*ret = address;
	return true;
}

static void steps(void)
{
	struct cfi_image image = own_image();
	struct cfi_regs regs = {.known = 1u << CFI_RSP | 1u << CFI_RIP | 1u << 0};
	bool signal_frame = true;

	regs.reg[CFI_RSP] = 1000;
	CHECK(!cfi_step(&image, (uintptr_t)exotic_rbx + 1, peek_address, NULL, &regs,
			&signal_frame));
	CHECK(!cfi_step(&image, (uintptr_t)exotic_end + 1, peek_address, NULL, &regs,
			&signal_frame));
	CHECK(!cfi_step(&image, (uintptr_t)exotic_loop + 1, peek_address, NULL, &regs,
			&signal_frame));
	CHECK(!cfi_step(&image, (uintptr_t)exotic_last, peek_address, NULL, &regs, &signal_frame));
	CHECK(!cfi_step(&image, (uintptr_t)exotic_nested, peek_nothing, NULL, &regs,
			&signal_frame));
	CHECK_EQ_U64(regs.reg[CFI_RSP], 1000);

	CHECK(cfi_step(&image, (uintptr_t)exotic_nested, peek_address, NULL, &regs, &signal_frame));
	CHECK_EQ_U64(regs.reg[CFI_RSP], 1008);
	CHECK_EQ_U64(regs.reg[CFI_RIP], 1000);
	CHECK_EQ_U64(regs.known & CLOBBERED, 0);
	CHECK(!signal_frame);

	CHECK(cfi_step(&image, (uintptr_t)exotic_wide, peek_address, NULL, &regs, &signal_frame));
	CHECK(signal_frame);
	CHECK_EQ_U64(regs.reg[CFI_RSP], 1008 + CFI_UCONTEXT_RSP);
	CHECK_EQ_U64(regs.reg[CFI_RBP], 1008 + CFI_UCONTEXT_RBP);
	CHECK_EQ_U64(regs.reg[CFI_RIP], 1008 + CFI_UCONTEXT_RIP);
	CHECK_EQ_U64(regs.known, (1u << CFI_REGISTERS) - 1);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A copy of a table that ends at (or begins after) a page nobody may read. */
struct guarded {
	uint8_t *map;
	size_t map_bytes;
	uint8_t *bytes;
	size_t count;
	struct cfi_image image;
};

static struct guarded guard(const struct cfi_image *from, bool at_end)
{
	/* .eh_frame follows .eh_frame_hdr in every linker's output. */
	size_t count = from->end - from->eh_frame_hdr;
	size_t pages = (count + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	struct guarded copy = {.count = count, .map_bytes = pages + 2 * PAGE_BYTES};

	copy.map = mmap(NULL, copy.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(copy.map != MAP_FAILED);
	REQUIRE(mprotect(copy.map + PAGE_BYTES, pages, PROT_READ | PROT_WRITE) == 0);
	copy.bytes = copy.map + PAGE_BYTES + (at_end ? pages - count : 0);
	memcpy(copy.bytes, (const void *)from->eh_frame_hdr, count);
	copy.image = (struct cfi_image){
		.start = (uintptr_t)copy.bytes,
		.end = (uintptr_t)copy.bytes + count,
		.eh_frame_hdr = (uintptr_t)copy.bytes,
		.hdr_bytes = from->hdr_bytes,
	};
	return copy;
}

/* Ask for everything around one pc of the copy; only crashes and hangs are wrong. */
static void ask(const struct guarded *copy, uint64_t *seed)
{
	int32_t function;
	uint32_t pairs = (uint32_t)((copy->image.hdr_bytes - 12) / 8);
	struct cfi_rule rule;
	struct cfi_regs regs = {.known = (1u << CFI_REGISTERS) - 1};
	bool signal_frame;

	memcpy(&function, copy->bytes + 12 + next_random(seed) % pairs * 8, sizeof function);
	uintptr_t pc = copy->image.eh_frame_hdr + (intptr_t)function + next_random(seed) % 64;
	cfi_find(&copy->image, pc, &rule);
	cfi_covers(&copy->image, pc);
	cfi_step(&copy->image, pc, peek_address, NULL, &regs, &signal_frame);
}

static void damage(bool at_end, bool linear)
{
	struct cfi_loaded loaded;
	uint64_t seed = 88172645463325252;

	REQUIRE(cfi_load(linear ? "/proc/self/exe" : "/lib/x86_64-linux-gnu/libc.so.6", &loaded));
	struct guarded copy = guard(&loaded.image, at_end);
	uint8_t *pristine = malloc(copy.count);
	REQUIRE(pristine);
	memcpy(pristine, copy.bytes, copy.count);
	for (unsigned round = 0; round < (linear ? 100u : 4000u); round++) {
		unsigned spoiled = 1 + (unsigned)(next_random(&seed) % 64);
		for (unsigned i = 0; i < spoiled; i++) {
			size_t at = next_random(&seed) % copy.count;
			/* The first bytes matter most. */
			if (next_random(&seed) % 4 == 0)
				at %= 64;
			copy.bytes[at] = (uint8_t)next_random(&seed);
		}
		if (linear)
			copy.bytes[3] = 0xff;
		for (unsigned i = 0; i < 20; i++)
			ask(&copy, &seed);
		if (round % 50 == 49)
			memcpy(copy.bytes, pristine, copy.count);
	}
	free(pristine);
	munmap(copy.map, copy.map_bytes);
	cfi_unload(&loaded);
}

static void damaged_end(void)
{
	damage(true, false);
}

static void damaged_start(void)
{
	damage(false, false);
}

static void damaged_linear(void)
{
	damage(true, true);
}

/* A module of which only the first bytes are left. */
static void cut_tables(void)
{
	struct cfi_loaded loaded;
	uint64_t seed = 1234567;

	REQUIRE(cfi_load("/proc/self/exe", &loaded));
	for (size_t bytes = 0; bytes < 2000; bytes++) {
		struct guarded copy = guard(&loaded.image, true);
		/* The end of the copy is the guard page: move the table towards it. */
		memmove(copy.bytes + copy.count - bytes, copy.bytes, bytes);
		copy.bytes += copy.count - bytes;
		copy.image.start = copy.image.eh_frame_hdr = (uintptr_t)copy.bytes;
		for (unsigned i = 0; i < 4; i++) {
			struct cfi_rule rule;
			cfi_find(&copy.image, copy.image.start - next_random(&seed) % 65536, &rule);
			copy.image.hdr_bytes = next_random(&seed) % 4096;
		}
		munmap(copy.map, copy.map_bytes);
	}
	cfi_unload(&loaded);
}

/* Every answer over the copy is that over the original, which has a search table. */
static void compare_images(const struct cfi_image *image, const struct cfi_image *copy)
{
	uintptr_t move = copy->code_start - image->code_start;
	uint64_t found = 0;

	for (uintptr_t pc = image->code_start; pc < image->code_end; pc += 97) {
		struct cfi_rule with;
		struct cfi_rule without;
		cfi_find(image, pc, &with);
		cfi_find(copy, pc + move, &without);
		found += with.kind != CFI_NONE;
		if (with.kind != without.kind || with.cfa_offset != without.cfa_offset)
			tap_note("0x%zx differs", (size_t)(pc - image->code_start));
		CHECK(with.kind == without.kind && with.cfa_offset == without.cfa_offset);
	}
	CHECK(found > 20);
}

/* Without a search table, or without the header, only slower. */
static void without_table(void)
{
	struct cfi_image image = own_image();
	struct cfi_loaded loaded;
	int32_t distance;

	REQUIRE(cfi_load("/proc/self/exe", &loaded));
	((uint8_t *)loaded.image.eh_frame_hdr)[3] = 0xff;
	compare_images(&image, &loaded.image);
	memcpy(&distance, (const void *)(loaded.image.eh_frame_hdr + 4), sizeof distance);
	loaded.image.eh_frame = loaded.image.eh_frame_hdr + 4 + (uintptr_t)(intptr_t)distance;
	loaded.image.eh_frame_hdr = 0;
	compare_images(&image, &loaded.image);
	cfi_unload(&loaded);
}

static void no_table(void)
{
	struct cfi_image image = {.start = 0};

	CHECK_EQ_U64(rule_at(&image, exotic_nested, 0).kind, CFI_NONE);
	CHECK(!cfi_covers(&image, (uintptr_t)exotic_nested));
}

static const struct tap_case cases[] = {
	{.name = "stacks of system libraries and programs are right", .run = system_files},
	{.name = "stacks of the files asked for are right", .run = asked_files, .seconds = 3600},
	{.name = "ordinary code has a quick rule", .run = simple_rules},
	{.name = "special code is not given a wrong quick rule", .run = slow_rules},
	{.name = "stacks go on below signal handlers of musl", .run = trampolines},
	{.name = "the full machine steps, and says when it cannot", .run = steps},
	{.name = "a damaged table is never read beyond its end", .run = damaged_end},
	{.name = "a damaged table is never read before its start", .run = damaged_start},
	{.name = "a damaged table without index does no harm", .run = damaged_linear},
	{.name = "a cut table does no harm", .run = cut_tables},
	{.name = "a table without index gives the same stacks", .run = without_table},
	{.name = "an object without table has no rules", .run = no_table},
};
TAP_MAIN(cases)
