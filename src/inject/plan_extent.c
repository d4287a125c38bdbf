/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan_extent.h"

enum {
	VERSION = 1,
	UDATA4 = 0x03,         /* DW_EH_PE_udata4 */
	DATAREL_SDATA4 = 0x3b, /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */
	ENTRIES_MAX = 1 << 24,
};

/* .eh_frame_hdr as linkers write it; then the entries, sorted by start. */
struct index_head {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
};

/* Both from the head's address on. */
struct index_entry {
	int32_t start, record;
};

/* The begin of an FDE: its start is relative to the field itself. */
struct record {
	uint32_t bytes, cie;
	int32_t start;
	uint32_t extent;
};

static const Elf64_Phdr *find_index(const struct plan_elf *elf)
{
	for (size_t i = 0; i < elf->header_count; i++)
		if (elf->headers[i].p_type == PT_GNU_EH_FRAME)
			return &elf->headers[i];
	return NULL;
}

static bool read_all(const struct plan_elf *elf, uint64_t address, void *data, size_t bytes)
{
	return plan_elf_data(elf, address, data, bytes) == bytes;
}

/* The record that the sorted table has for exactly this start, or 0. */
static uint64_t find_record(const struct plan_elf *elf, uint64_t index, uint32_t count,
			    uint64_t address)
{
	uint64_t low = 0, high = count;
	while (low < high) {
		uint64_t middle = (low + high) / 2;
		struct index_entry entry;
		if (!read_all(elf, index + sizeof(struct index_head) + middle * sizeof entry,
			      &entry, sizeof entry))
			return 0;
		uint64_t start = index + (uint64_t)(int64_t)entry.start;
		if (start == address)
			return index + (uint64_t)(int64_t)entry.record;
		if (start < address)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

uint64_t plan_extent(const struct plan_elf *elf, uint64_t address)
{
	const Elf64_Phdr *index = find_index(elf);
	struct index_head head;
	struct record record;
	if (!index || !read_all(elf, index->p_vaddr, &head, sizeof head) ||
	    head.version != VERSION || head.count_encoding != UDATA4 ||
	    head.table_encoding != DATAREL_SDATA4 || head.count > ENTRIES_MAX)
		return 0;
	uint64_t at = find_record(elf, index->p_vaddr, head.count, address);
	if (!at || !read_all(elf, at, &record, sizeof record))
		return 0;
	/* Another form of start would not say the same. */
	uint64_t start = at + offsetof(struct record, start) + (uint64_t)(int64_t)record.start;
	return start == address ? record.extent : 0;
}
