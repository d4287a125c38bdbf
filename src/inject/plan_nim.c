/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan_nim.h"

#include <string.h>

#include "base/memory.h"
#include "inject/file_text.h"

enum {
	RANGES_MAX = 64,
	TARGETS_MAX = 16,
	PIECE_BYTES = 1 << 16,
	CALL_BYTES = 5,
	CODE_BYTES_MAX = 1 << 30, /* of a hostile file */
	TEXT_BYTES_MAX = 16 << 20,
};

struct range {
	uint64_t start, end;
};

struct nim {
	const struct plan_elf *elf;
	struct range own[RANGES_MAX]; /* functions of the allocator */
	size_t own_count;
	uint64_t targets[TARGETS_MAX]; /* what only the allocator calls */
	size_t target_count;
	bool takes, gives; /* some target of each sort is there */
	bool overflow;
};

/* Nim appends "__" and what makes the name unique; the compiler, what makes a part of it. */
static bool is_named(const char *name, const char *wanted)
{
	size_t bytes = strlen(wanted);
	return !strncmp(name, wanted, bytes) && name[bytes] == '_' && name[bytes + 1] == '_';
}

static void note_symbol(struct nim *nim, const Elf64_Sym *symbol, const char *name)
{
	static const char *const own[] = {"rawAlloc",      "rawDealloc",    "getSmallChunk",
					  "getHugeChunk",  "getBigChunk",   "freeBigChunk",
					  "freeHugeChunk", "deallocOsPages"};
	bool takes = is_named(name, "getBigChunk"), gives = is_named(name, "freeBigChunk");
	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
		if (!is_named(name, own[i]))
			continue;
		if (nim->own_count == RANGES_MAX)
			nim->overflow = true;
		else
			nim->own[nim->own_count++] = (struct range){
				symbol->st_value, symbol->st_value + symbol->st_size};
	}
	if (!takes && !gives)
		return;
	nim->takes |= takes;
	nim->gives |= gives;
	if (nim->target_count == TARGETS_MAX)
		nim->overflow = true;
	else
		nim->targets[nim->target_count++] = symbol->st_value;
}

static void note_symbols(struct nim *nim)
{
	for (size_t k = 0; k < nim->elf->table_count; k++) {
		const struct plan_table *table = &nim->elf->tables[k];
		for (size_t i = 0; i < table->count; i++)
			if (ELF64_ST_TYPE(table->symbols[i].st_info) == STT_FUNC)
				note_symbol(nim, &table->symbols[i],
					    plan_elf_name(table, &table->symbols[i]));
	}
}

static bool is_own(const struct nim *nim, uint64_t address)
{
	for (size_t i = 0; i < nim->own_count; i++)
		if (address >= nim->own[i].start && address < nim->own[i].end)
			return true;
	return false;
}

/* Whether these bytes are a call of, or a jump to, what only the allocator calls. */
static bool leads_inside(const struct nim *nim, const uint8_t *bytes, uint64_t address)
{
	int32_t distance;
	if (bytes[0] != 0xe8 && bytes[0] != 0xe9)
		return false;
	memcpy(&distance, bytes + 1, sizeof distance);
	uint64_t target = address + CALL_BYTES + (uint64_t)(int64_t)distance;
	for (size_t i = 0; i < nim->target_count; i++)
		if (target == nim->targets[i])
			return true;
	return false;
}

static bool has_copy_in(const struct nim *nim, const Elf64_Phdr *segment, uint8_t *piece)
{
	uint64_t end = segment->p_vaddr + segment->p_filesz, at = segment->p_vaddr;
	if (segment->p_filesz > CODE_BYTES_MAX || end < at)
		return true;
	while (at < end) {
		size_t got = plan_elf_code(nim->elf, at, piece, PIECE_BYTES);
		if (got < CALL_BYTES)
			break;
		for (size_t i = 0; i + CALL_BYTES <= got; i++)
			if (leads_inside(nim, piece + i, at + i) && !is_own(nim, at + i))
				return true;
		at += got - CALL_BYTES + 1;
	}
	return false;
}

/* True also where it cannot be told. */
static bool has_copies(const struct plan_elf *elf)
{
	struct nim nim = {.elf = elf};
	uint8_t *piece = tm_alloc(PIECE_BYTES);
	note_symbols(&nim);
	bool found = !piece || nim.overflow || !nim.takes || !nim.gives;
	for (size_t i = 0; !found && i < elf->header_count; i++)
		if (elf->headers[i].p_type == PT_LOAD && (elf->headers[i].p_flags & PF_X))
			found = has_copy_in(&nim, &elf->headers[i], piece);
	tm_free(piece);
	return found;
}

void plan_nim_check(const struct plan_elf *elf, struct plan_found *found)
{
	bool any = false, flawed = false;
	for (size_t i = 0; i < found->count; i++) {
		const struct plan_candidate *candidate = &found->list[i];
		any |= candidate->match.family == PLAN_FAMILY_NIM;
		flawed |= candidate->match.family == PLAN_FAMILY_NIM && candidate->flaw;
	}
	if (!any || (!flawed && !has_copies(elf)))
		return;
	for (size_t i = 0; i < found->count; i++)
		if (found->list[i].match.family == PLAN_FAMILY_NIM && !found->list[i].flaw)
			found->list[i].flaw = PLAN_FLAW_COPIED;
}

/* Whether a segment has these bytes, the NUL at the end left out. */
static bool has_text(const struct plan_elf *elf, const Elf64_Phdr *segment, const char *text,
		     void *room)
{
	struct file_stretch stretch = {elf->fd, segment->p_offset, segment->p_filesz};
	if (stretch.bytes > TEXT_BYTES_MAX)
		stretch.bytes = TEXT_BYTES_MAX;
	return file_has_text(&stretch, text, strlen(text), room);
}

/* False where .symtab is there: then the allocator was looked for in it. */
static bool may_be_hidden(const struct plan_elf *elf, bool is_program)
{
	static const char begin[] = "NimMain";
	bool exports = false;
	for (size_t k = 0; k < elf->table_count; k++) {
		const struct plan_table *table = &elf->tables[k];
		if (!table->dynamic)
			return false;
		exports |= memmem(table->names, table->name_bytes, begin, sizeof begin) != NULL;
	}
	return is_program || exports;
}

bool plan_nim_is_hidden(const struct plan_elf *elf, bool is_program)
{
	static const char runtime[] = "Illegal storage access. (Attempt to read from nil?)";
	void *room = may_be_hidden(elf, is_program) ? tm_alloc(FILE_TEXT_ROOM) : NULL;
	bool nim = false, speaks = false;
	for (size_t i = 0; room && !speaks && i < elf->header_count; i++) {
		const Elf64_Phdr *segment = &elf->headers[i];
		speaks = segment->p_type == PT_NOTE && has_text(elf, segment, "Tidemark", room);
		nim |= segment->p_type == PT_LOAD && !(segment->p_flags & PF_W) &&
		       has_text(elf, segment, runtime, room);
	}
	tm_free(room);
	return nim && !speaks;
}
