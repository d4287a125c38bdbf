/* SPDX-License-Identifier: Apache-2.0 */
/* Registers that functions change, in code written by hand and in the allocators of this machine.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "harness/tap.h"
#include "inject/clobber.h"
#include "inject/plan.h"
#include "inject/plan_extent.h"

enum { RCX = 1u << 1, RDX = 1u << 2, RSI = 1u << 6, RDI = 1u << 7, R8 = 1u << 8, R11 = 1u << 11 };

static uint32_t changed_by(const uint8_t *bytes, size_t count)
{
	const struct plan_elf none = {.fd = -1};
	const struct reloc_code code = {
		.bytes = bytes, .count = count, .function_bytes = count, .address = 0x1000};
	return clobber_find(&code, &none, 0);
}
#define CHANGED(...) \
	changed_by((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void reads(void)
{
	CHECK_EQ_U64(CHANGED(0x48, 0x89, 0x0a), 0);       /* mov %rcx,(%rdx) */
	CHECK_EQ_U64(CHANGED(0x48, 0x39, 0xc8), 0);       /* cmp %rcx,%rax */
	CHECK_EQ_U64(CHANGED(0x48, 0x83, 0xff, 0x05), 0); /* cmp $5,%rdi */
	CHECK_EQ_U64(CHANGED(0x85, 0xc9), 0);             /* test %ecx,%ecx */
	CHECK_EQ_U64(CHANGED(0xc5, 0xf8, 0x77), 0);       /* vzeroupper */
	CHECK_EQ_U64(CHANGED(0x66, 0x0f, 0xef, 0xc9), 0); /* pxor %xmm1,%xmm1 */
	CHECK_EQ_U64(CHANGED(0x48, 0x8b, 0x18), 0);       /* mov (%rax),%rbx: the callee's anyway */
}

static void writes(void)
{
	CHECK_EQ_U64(CHANGED(0x48, 0x8b, 0x0a), RCX);       /* mov (%rdx),%rcx */
	CHECK_EQ_U64(CHANGED(0x4c, 0x8d, 0x1f), R11);       /* lea (%rdi),%r11 */
	CHECK_EQ_U64(CHANGED(0x41, 0xb8, 1, 0, 0, 0), R8);  /* mov $1,%r8d */
	CHECK_EQ_U64(CHANGED(0x31, 0xf6), RSI);             /* xor %esi,%esi */
	CHECK_EQ_U64(CHANGED(0x48, 0x83, 0xc7, 0x08), RDI); /* add $8,%rdi */
	CHECK_EQ_U64(CHANGED(0x0f, 0xb6, 0x10), RDX);       /* movzbl (%rax),%edx */
	CHECK_EQ_U64(CHANGED(0x64, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 0, 0), RCX); /* mov %fs:0,%rcx */
}

static void pushes(void)
{
	/* push %rcx; xor %ecx,%ecx; xor %esi,%esi; pop %rcx */
	CHECK_EQ_U64(CHANGED(0x51, 0x31, 0xc9, 0x31, 0xf6, 0x59), RSI);
}

static void unknown_callees(void)
{
	const uint64_t all = CLOBBER_RAX | CLOBBER_OTHERS;
	CHECK_EQ_U64(CHANGED(0xff, 0xd0), all);                   /* call *%rax */
	CHECK_EQ_U64(CHANGED(0x41, 0xff, 0x54, 0x24, 0x08), all); /* call *8(%r12) */
	CHECK_EQ_U64(CHANGED(0xff, 0x15, 0, 0, 0, 0), all);       /* call *0(%rip) */
	CHECK_EQ_U64(CHANGED(0xff, 0x25, 0, 0, 0, 0), all);       /* jmp *0(%rip) */
	CHECK_EQ_U64(CHANGED(0x3e, 0xff, 0xe0), 0);               /* a switch: jmp *%rax */
	CHECK_EQ_U64(CHANGED(0xff, 0x36), 0);                     /* push (%rsi) */
	CHECK_EQ_U64(CHANGED(0x51, 0xff, 0xd0, 0x59), all & ~(uint64_t)RCX); /* pushed around it */
}

/* Stripped libraries have no names for what malloc calls; their unwind tables know its size. */
static void extents(void)
{
	struct plan_elf elf;
	struct tm_error err = {0};
	unsigned known = 0;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	REQUIRE(plan_elf_open(fd, &elf, &err) == 0);
	for (size_t k = 0; k < elf.table_count; k++)
		for (size_t i = 0; i < elf.tables[k].count; i++) {
			const Elf64_Sym *symbol = &elf.tables[k].symbols[i];
			uint64_t extent = plan_extent(&elf, symbol->st_value);
			if (strcmp(plan_elf_name(&elf.tables[k], symbol), "main") != 0)
				continue;
			CHECK_EQ_U64(extent, symbol->st_size);
			CHECK_EQ_U64(plan_extent(&elf, symbol->st_value + 1), 0);
			known++;
		}
	CHECK(known > 0);
	plan_elf_done(&elf);
	close(fd);
}

static void jemalloc(void)
{
	static const char library[] = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
	struct plan *plan = NULL;
	struct tm_error err = {0};
	int fd = open(library, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		tap_skip(library);
	struct plan_source source = {.fd = fd, .bias = 0x10000, .what = PLAN_ALL};
	REQUIRE(plan_new(&source, &plan, &err) == 0);
	for (size_t i = 0; i < plan->entry_count; i++)
		if (!strcmp(plan->entries[i].name, "malloc"))
			CHECK(plan->entries[i].site.flags & WIRE_SITE_LIGHT);
	plan_free(plan);
	close(fd);
}

static const struct tap_case cases[] = {
	{.name = "a register that is only read, compared or stored is kept", .run = reads},
	{.name = "what is plainly written is known by its number", .run = writes},
	{.name = "a register that is pushed may be restored, and does not count", .run = pushes},
	{.name = "a call through a pointer may change anything", .run = unknown_callees},
	{.name = "functions without symbols have the size of their unwind table", .run = extents},
	{.name = "jemalloc's malloc is known to change all that a call may", .run = jemalloc},
};
TAP_MAIN(cases)
