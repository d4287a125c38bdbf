/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/reloc.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <string.h>

enum step_kind {
	STEP_COPY,          /* as it is */
	STEP_RIP,           /* with a corrected displacement at `at` */
	STEP_JUMP,          /* to target */
	STEP_BRANCH,        /* to target, on condition `at` */
	STEP_CALL,          /* of target */
	STEP_CALL_INDIRECT, /* ModRM byte at `at`; target: of a displacement behind it, else 0 */
};

enum {
	SCAN_BYTES_MAX = 1 << 20, /* of a function, for branches into its first bytes */
	NEAR_BRANCH_BYTES = 6,
	PUSH_ADDRESS_BYTES = 13,
};

typedef ZydisDecodedInstruction instruction;

static bool decode(const uint8_t *bytes, size_t count, instruction *ret)
{
	ZydisDecoder decoder;
	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, count, ret));
}

static bool is_padding(const instruction *in)
{
	return in->mnemonic == ZYDIS_MNEMONIC_NOP || in->mnemonic == ZYDIS_MNEMONIC_INT3;
}

static bool has_relative_target(const instruction *in)
{
	return in->raw.imm[0].is_relative && in->raw.imm[0].size;
}

static bool is_rip_relative(const instruction *in)
{
	return (in->attributes & ZYDIS_ATTRIB_HAS_MODRM) && in->raw.modrm.mod == 0 &&
	       in->raw.modrm.rm == 5;
}

static bool ends_flow(const instruction *in)
{
	return in->meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
	       in->meta.category == ZYDIS_CATEGORY_RET || in->mnemonic == ZYDIS_MNEMONIC_UD2 ||
	       in->mnemonic == ZYDIS_MNEMONIC_HLT;
}

static uint64_t relative_target(const instruction *in, uint64_t address)
{
	return address + in->length + (uint64_t)in->raw.imm[0].value.s;
}

static uint64_t rip_target(const instruction *in, uint64_t address)
{
	return address + in->length + (uint64_t)in->raw.disp.value;
}

/* ---- looking ---- */

/* jcc in its short or long form has the condition in the low bits of the opcode. */
static bool is_conditional(const instruction *in, uint8_t *ret_condition)
{
	bool is_short = in->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (in->opcode & 0xf0) == 0x70;
	bool is_long = in->opcode_map == ZYDIS_OPCODE_MAP_0F && (in->opcode & 0xf0) == 0x80;
	*ret_condition = in->opcode & 15;
	return is_short || is_long;
}

static int classify_branch(const instruction *in, uint64_t address, struct reloc_step *step,
			   struct tm_error *err)
{
	uint8_t condition = 0;
	step->target = relative_target(in, address);
	if (in->meta.category == ZYDIS_CATEGORY_UNCOND_BR && in->mnemonic == ZYDIS_MNEMONIC_JMP)
		step->kind = STEP_JUMP;
	else if (in->meta.category == ZYDIS_CATEGORY_CALL)
		step->kind = STEP_CALL;
	else if (in->meta.category == ZYDIS_CATEGORY_COND_BR && is_conditional(in, &condition))
		step->kind = STEP_BRANCH;
	else
		return tm_fail(err, -EINVAL, "its instruction '%s' at +%u cannot be moved",
			       ZydisMnemonicGetString(in->mnemonic), step->from);
	step->at = condition;
	return 0;
}

/* Called through memory or a register; the pushed address is ours to push, so not by rsp. */
static int classify_indirect(const instruction *in, uint64_t address, struct reloc_step *step,
			     struct tm_error *err)
{
	bool by_sib = in->raw.modrm.mod != 3 && in->raw.modrm.rm == 4;
	bool by_rsp = (by_sib && in->raw.sib.base == 4) ||
		      (in->raw.modrm.mod == 3 && in->raw.modrm.rm == 4);
	if (by_rsp || in->opcode != 0xff || in->raw.modrm.reg != 2)
		return tm_fail(err, -EINVAL, "its call at +%u cannot be moved", step->from);
	step->kind = STEP_CALL_INDIRECT;
	step->at = in->raw.modrm.offset;
	step->target = is_rip_relative(in) ? rip_target(in, address) : 0;
	return 0;
}

static int classify(const instruction *in, uint64_t address, struct reloc_step *step,
		    struct tm_error *err)
{
	step->kind = STEP_COPY;
	step->bytes = in->length;
	if (has_relative_target(in))
		return classify_branch(in, address, step, err);
	if (in->meta.category == ZYDIS_CATEGORY_CALL)
		return classify_indirect(in, address, step, err);
	if (is_rip_relative(in)) {
		step->kind = STEP_RIP;
		step->at = in->raw.disp.offset;
		step->target = rip_target(in, address);
	}
	return 0;
}

/* Behind the end of the flow, and of the function, only filling may be overwritten. */
static int check_filling(const struct reloc_code *code, size_t at, size_t end, struct tm_error *err)
{
	if (at < code->function_bytes)
		at = code->function_bytes;
	while (at < end) {
		instruction in;
		if (at >= code->count || !decode(code->bytes + at, code->count - at, &in) ||
		    !is_padding(&in))
			return tm_fail(err, -EINVAL,
				       "it is shorter than the jump of %u bytes that would lead to "
				       "the hook",
				       RELOC_PATCH_BYTES);
		at += in.length;
	}
	return 0;
}

static bool is_call(const struct reloc_step *step)
{
	return step->kind == STEP_CALL || step->kind == STEP_CALL_INDIRECT;
}

static int collect(const struct reloc_code *code, struct reloc *reloc, struct tm_error *err)
{
	size_t at = reloc->entry, end = at + RELOC_PATCH_BYTES;
	bool flows = true;
	while (flows && at < end) {
		instruction in;
		struct reloc_step *step = &reloc->step[reloc->steps];
		if (code->function_bytes && at >= code->function_bytes)
			return tm_fail(err, -EINVAL, "it runs on into the next function at +%zu",
				       at);
		if (at >= code->count || !decode(code->bytes + at, code->count - at, &in))
			return tm_fail(err, -EINVAL, "its code at +%zu cannot be decoded", at);
		*step = (struct reloc_step){.from = (uint8_t)at};
		int error = classify(&in, code->address + at, step, err);
		if (error)
			return error;
		at += in.length;
		reloc->steps++;
		flows = !ends_flow(&in);
		if (is_call(step) && at < end)
			return tm_fail(err, -EINVAL,
				       "it calls within its first %u bytes: the call would return "
				       "into the patch",
				       RELOC_PATCH_BYTES);
	}
	reloc->end = (uint8_t)at;
	reloc->falls_through = flows;
	return at < end ? check_filling(code, at, end, err) : 0;
}

bool reloc_see(const struct reloc_code *code, size_t at, struct reloc_seen *ret)
{
	instruction in;
	if (at >= code->count || !decode(code->bytes + at, code->count - at, &in))
		return false;
	*ret = (struct reloc_seen){
		in.length, has_relative_target(&in) ? relative_target(&in, code->address + at) : 0};
	return true;
}

typedef bool (*target_fn)(const void *ctx, uint64_t target);

/* Where in the function is the first branch or call whose target is wanted? SIZE_MAX: nowhere. */
static size_t find_branch(const struct reloc_code *code, target_fn wanted, const void *ctx)
{
	size_t end = code->function_bytes ? code->function_bytes : code->count;
	end = end < code->count ? end : code->count;
	end = end < SCAN_BYTES_MAX ? end : SCAN_BYTES_MAX;
	for (size_t at = 0; at < end;) {
		instruction in;
		if (!decode(code->bytes + at, code->count - at, &in)) {
			at++;
			continue;
		}
		if (has_relative_target(&in) &&
		    wanted(ctx, relative_target(&in, code->address + at)))
			return at;
		at += in.length;
	}
	return SIZE_MAX;
}

/* Behind the first of the overwritten bytes. */
static bool is_inside(const void *ctx, uint64_t target)
{
	const struct reloc *reloc = ctx;
	uint64_t start = reloc->address + reloc->entry;
	return target > start && target < start + RELOC_PATCH_BYTES;
}

static int check_branches(const struct reloc_code *code, const struct reloc *reloc,
			  struct tm_error *err)
{
	size_t at = find_branch(code, is_inside, reloc);
	if (at == SIZE_MAX)
		return 0;
	return tm_fail(err, -EINVAL, "its code at +%zu branches into its first instructions", at);
}

struct addresses {
	const uint64_t *list;
	size_t count;
};

static bool is_listed(const void *ctx, uint64_t target)
{
	const struct addresses *addresses = ctx;
	for (size_t i = 0; i < addresses->count; i++)
		if (addresses->list[i] == target)
			return true;
	return false;
}

bool reloc_leads_to(const struct reloc_code *code, const uint64_t *addresses, size_t count)
{
	struct addresses wanted = {addresses, count};
	return find_branch(code, is_listed, &wanted) != SIZE_MAX;
}

int reloc_decode(const struct reloc_code *code, struct reloc *ret_reloc, struct tm_error *err)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct reloc reloc = {.address = code->address};
	if (code->count > sizeof endbr64 && memcmp(code->bytes, endbr64, sizeof endbr64) == 0)
		reloc.entry = sizeof endbr64;
	int error = collect(code, &reloc, err);
	if (!error)
		error = check_branches(code, &reloc, err);
	if (error)
		return error;
	size_t kept = (size_t)reloc.entry + RELOC_PATCH_BYTES;
	kept = reloc.end > kept ? reloc.end : kept;
	memcpy(reloc.old, code->bytes, kept);
	*ret_reloc = reloc;
	return 0;
}

/* ---- writing ---- */

/* The 32-bit distance of target from an instruction's end. */
static int put_distance(uint8_t *at, uint64_t end, uint64_t target)
{
	int64_t distance = (int64_t)(target - end);
	int32_t value = (int32_t)distance;
	if (value != distance)
		return -ERANGE;
	memcpy(at, &value, sizeof value);
	return 0;
}

int reloc_jump(uint64_t from, uint64_t to, uint8_t *bytes)
{
	bytes[0] = 0xe9;
	return put_distance(bytes + 1, from + RELOC_PATCH_BYTES, to);
}

/* push of a 64-bit constant that changes no register: push its low half, store the high one. */
static size_t put_push(uint8_t *bytes, uint64_t value)
{
	uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);
	static const uint8_t store_high[4] = {0xc7, 0x44, 0x24, 0x04}; /* movl $high, 4(%rsp) */
	bytes[0] = 0x68;
	memcpy(bytes + 1, &low, sizeof low);
	memcpy(bytes + 5, store_high, sizeof store_high);
	memcpy(bytes + 9, &high, sizeof high);
	return PUSH_ADDRESS_BYTES;
}

static int put_branch(const struct reloc_step *step, uint64_t place, uint8_t *bytes, size_t *length)
{
	bytes[0] = 0x0f;
	bytes[1] = (uint8_t)(0x80 | step->at);
	*length = NEAR_BRANCH_BYTES;
	return put_distance(bytes + 2, place + NEAR_BRANCH_BYTES, step->target);
}

static int put_indirect(const struct reloc_step *step, uint64_t place, uint8_t *bytes,
			size_t *length)
{
	uint8_t *copy = bytes + *length;
	copy[step->at] = (uint8_t)((copy[step->at] & ~0x38) | 4 << 3); /* call /2 -> jmp /4 */
	*length += step->bytes;
	return step->target ? put_distance(copy + step->at + 1, place + *length, step->target) : 0;
}

static int put_step(const struct reloc *reloc, const struct reloc_step *step, uint64_t place,
		    uint8_t *bytes, size_t *length)
{
	const uint8_t *old = reloc->old + step->from;
	uint64_t back = reloc->address + step->from + step->bytes;
	*length = 0;
	switch ((enum step_kind)step->kind) {
	case STEP_BRANCH:
		return put_branch(step, place, bytes, length);
	case STEP_CALL:
		*length = put_push(bytes, back);
		__attribute__((fallthrough));
	case STEP_JUMP:
		*length += RELOC_PATCH_BYTES;
		return reloc_jump(place + *length - RELOC_PATCH_BYTES, step->target,
				  bytes + *length - RELOC_PATCH_BYTES);
	case STEP_CALL_INDIRECT:
		*length = put_push(bytes, back);
		memcpy(bytes + *length, old, step->bytes);
		return put_indirect(step, place, bytes, length);
	case STEP_COPY:
	case STEP_RIP:
		break;
	}
	memcpy(bytes, old, step->bytes);
	*length = step->bytes;
	if (step->kind == STEP_COPY)
		return 0;
	return put_distance(bytes + step->at, place + *length, step->target);
}

int reloc_emit(struct reloc *reloc, uint64_t place, uint8_t *bytes, size_t *ret_bytes)
{
	size_t used = 0;
	int error = 0;
	for (unsigned i = 0; i < reloc->steps && !error; i++) {
		size_t length = 0;
		reloc->step[i].to = (uint8_t)used;
		error = put_step(reloc, &reloc->step[i], place + used, bytes + used, &length);
		used += length;
	}
	bool returns = reloc->falls_through && !is_call(&reloc->step[reloc->steps - 1]);
	if (!error && returns) {
		error = reloc_jump(place + used, reloc->address + reloc->end, bytes + used);
		used += RELOC_PATCH_BYTES;
	}
	if (!error)
		*ret_bytes = used;
	return error;
}
