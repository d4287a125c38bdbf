/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan_api.h"

#include <string.h>

#include "base/io.h"

enum { NOTES_BYTES = 4096, NOTE_API_TABLE = 1 };

static size_t align_up(size_t value, size_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* The note's description is the distance from itself to the table. */
static uint64_t table_of(const uint8_t *description, uint64_t address)
{
	int32_t distance;
	memcpy(&distance, description, sizeof distance);
	uint64_t table = address + (uint64_t)(int64_t)distance;
	return table % sizeof(uint64_t) ? 0 : table;
}

static uint64_t find_in(const struct plan_elf *elf, const Elf64_Phdr *segment)
{
	static const char owner[] = "Tidemark";
	uint8_t notes[NOTES_BYTES];
	size_t bytes = segment->p_filesz < sizeof notes ? segment->p_filesz : sizeof notes;
	size_t alignment = segment->p_align == 8 ? 8 : 4, got = 0, at = 0;
	if (io_pread(elf->fd, notes, bytes, segment->p_offset, &got))
		return 0;
	while (got - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr head;
		memcpy(&head, notes + at, sizeof head);
		at += sizeof head;
		if (head.n_namesz > got - at || head.n_descsz > got - at)
			return 0;
		size_t description = align_up(at + head.n_namesz, alignment);
		if (description > got || head.n_descsz > got - description)
			return 0;
		if (head.n_type == NOTE_API_TABLE && head.n_namesz == sizeof owner &&
		    head.n_descsz == sizeof(int32_t) && !memcmp(notes + at, owner, sizeof owner))
			return table_of(notes + description, segment->p_vaddr + description);
		at = align_up(description + head.n_descsz, alignment);
		if (at > got)
			return 0;
	}
	return 0;
}

/* What is to be written must be data. */
static bool is_writable(const struct plan_elf *elf, uint64_t address)
{
	for (size_t i = 0; i < elf->header_count; i++) {
		const Elf64_Phdr *segment = &elf->headers[i];
		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) &&
		    address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_memsz)
			return true;
	}
	return false;
}

uint64_t plan_api_table(const struct plan_elf *elf)
{
	for (size_t i = 0; i < elf->header_count; i++) {
		uint64_t table =
			elf->headers[i].p_type == PT_NOTE ? find_in(elf, &elf->headers[i]) : 0;
		if (table && is_writable(elf, table))
			return table;
	}
	return 0;
}
