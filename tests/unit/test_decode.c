/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder of the static build against Zydis, on all code of the C library and
 * of this program: attaching with a wrong length would break the program.
 */
#include "../../compat/zydis/decode.h"
#include "harness/tap.h"

#include <Zydis/Zydis.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 8 };

struct tally {
	uint64_t compared, wrong, refused;
};

/* What src/inject looks at. */
struct brief {
	uint8_t length, mod, reg, rm, disp_offset;
	bool relative, rip, call, branch, ends, filling;
	int64_t target, disp;
};

static struct brief of_zydis(const ZydisDecodedInstruction *in)
{
	bool modrm = in->attributes & ZYDIS_ATTRIB_HAS_MODRM;
	struct brief brief = {
		.length = in->length,
		.relative = in->raw.imm[0].is_relative && in->raw.imm[0].size,
		.call = in->meta.category == ZYDIS_CATEGORY_CALL,
		.filling =
			in->mnemonic == ZYDIS_MNEMONIC_NOP || in->mnemonic == ZYDIS_MNEMONIC_INT3,
		.ends = in->meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
			in->meta.category == ZYDIS_CATEGORY_RET ||
			in->mnemonic == ZYDIS_MNEMONIC_UD2 || in->mnemonic == ZYDIS_MNEMONIC_HLT,
		.mod = modrm ? in->raw.modrm.mod : 0,
		.reg = modrm ? in->raw.modrm.reg : 0,
		.rm = modrm ? in->raw.modrm.rm : 0,
	};
	brief.rip = modrm && brief.mod == 0 && brief.rm == 5;
	brief.target = brief.relative ? in->raw.imm[0].value.s : 0;
	brief.branch = brief.relative && in->meta.category == ZYDIS_CATEGORY_COND_BR;
	brief.disp = brief.rip ? in->raw.disp.value : 0;
	brief.disp_offset = brief.rip ? in->raw.disp.offset : 0;
	return brief;
}

static struct brief of_ours(const struct decode_instruction *in)
{
	bool modrm = in->attributes & DECODE_HAS_MODRM;
	struct brief brief = {
		.length = in->length,
		.relative = in->raw.imm[0].is_relative && in->raw.imm[0].size,
		.call = in->meta.category == DECODE_CALL,
		.filling = in->mnemonic == DECODE_NOP || in->mnemonic == DECODE_INT3,
		.ends = in->meta.category == DECODE_JUMP || in->meta.category == DECODE_RETURN ||
			in->mnemonic == DECODE_UD2 || in->mnemonic == DECODE_HLT,
		.mod = modrm ? in->raw.modrm.mod : 0,
		.reg = modrm ? in->raw.modrm.reg : 0,
		.rm = modrm ? in->raw.modrm.rm : 0,
	};
	brief.rip = modrm && brief.mod == 0 && brief.rm == 5;
	brief.target = brief.relative ? in->raw.imm[0].value.s : 0;
	brief.branch = brief.relative && in->meta.category == DECODE_BRANCH;
	brief.disp = brief.rip ? in->raw.disp.value : 0;
	brief.disp_offset = brief.rip ? in->raw.disp.offset : 0;
	return brief;
}

static bool is_equal(const struct brief *a, const struct brief *b)
{
	return a->length == b->length && a->mod == b->mod && a->reg == b->reg && a->rm == b->rm &&
	       a->disp_offset == b->disp_offset && a->relative == b->relative && a->rip == b->rip &&
	       a->call == b->call && a->branch == b->branch && a->ends == b->ends &&
	       a->filling == b->filling && a->target == b->target && a->disp == b->disp;
}

static void show(const uint8_t *bytes, size_t count)
{
	printf("# differs:");
	for (size_t i = 0; i < count; i++)
		printf(" %02x", bytes[i]);
	printf("\n");
}

static void compare(const uint8_t *code, size_t count, struct tally *tally)
{
	ZydisDecoder decoder;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < count;) {
		ZydisDecodedInstruction theirs;
		struct decode_instruction ours;
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code + at,
								count - at, &theirs))) {
			at++;
			continue;
		}
		tally->compared++;
		struct brief a = of_zydis(&theirs), b;
		if (decode_instruction(code + at, count - at, &ours)) {
			tally->refused++;
		} else if (b = of_ours(&ours), !is_equal(&a, &b)) {
			if (tally->wrong++ < SHOWN)
				show(code + at, theirs.length);
		}
		at += theirs.length;
	}
}

static int compare_object(struct dl_phdr_info *object, size_t bytes, void *ctx)
{
	(void)bytes;
	bool wanted = !object->dlpi_name[0] || strstr(object->dlpi_name, "/libc.so");
	for (int i = 0; wanted && i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X))
			compare((const uint8_t *)(object->dlpi_addr + segment->p_vaddr),
				segment->p_filesz, ctx);
	}
	return 0;
}

static void same_as_zydis(void)
{
	struct tally tally = {0};
	dl_iterate_phdr(compare_object, &tally);
	CHECK(tally.compared > 100000);
	CHECK_EQ_U64(tally.wrong, 0);
	/* Refusing is safe; seldom is enough. */
	CHECK(tally.refused * 1000 < tally.compared);
}

/* Cut short anywhere, or nonsense: a refusal, nothing worse. */
static void nonsense(void)
{
	static const uint8_t call[] = {0x67, 0xe8, 1, 2, 3, 4};
	struct decode_instruction in;
	for (size_t count = 0; count < sizeof call; count++)
		CHECK_EQ_I64(decode_instruction(call, count, &in), -1);
	CHECK_EQ_I64(decode_instruction(call, sizeof call, &in), 0);
	CHECK_EQ_I64(in.raw.imm[0].value.s, 0x04030201);
	uint8_t prefixes[32];
	memset(prefixes, 0x66, sizeof prefixes);
	CHECK_EQ_I64(decode_instruction(prefixes, sizeof prefixes, &in), -1);
	uint32_t random = 1;
	for (int round = 0; round < 100000; round++) {
		uint8_t bytes[16];
		for (size_t i = 0; i < sizeof bytes; i++) {
			random = random * 1664525 + 1013904223;
			bytes[i] = (uint8_t)(random >> 24);
		}
		if (!decode_instruction(bytes, sizeof bytes, &in))
			CHECK(in.length > 0 && in.length <= 15);
	}
}

static const struct tap_case cases[] = {
	{.name = "the static tool reads code as Zydis does", .run = same_as_zydis},
	{.name = "nonsense is refused", .run = nonsense},
};
TAP_MAIN(cases)
