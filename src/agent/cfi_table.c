/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .eh_frame_hdr is a sorted table of (function, FDE) pairs; an FDE points back
 * to its CIE, which holds what many functions share:
 *
 *   .eh_frame_hdr   version | encodings | eh_frame | count | (pc, FDE) ...
 *   .eh_frame       CIE: length | 0 | version | "zR" | factors | program
 *                   FDE: length | distance to CIE | pc range | program
 *
 * Known limits: the search table must have the usual encoding (4-byte offsets
 * from the header, as all linkers write); with any other, or none, .eh_frame is
 * scanned from its beginning.
 */
#include "agent/cfi_table.h"

enum {
	HDR_TABLE_ENCODING = CFI_PE_DATAREL | CFI_PE_SDATA4,
	HDR_PAIR_BYTES = 8,
	CIE_AUGMENTATION_MAX = 16,
	SAME_START_MAX = 8,
};

/* The parsed .eh_frame_hdr. */
struct header {
	uintptr_t eh_frame;
	uintptr_t table; /* 0: none that can be searched */
	size_t count;
};

static struct cfi_cursor cursor_at(const struct cfi_image *image, uintptr_t at)
{
	bool inside = at >= image->start && at < image->end;
	return (struct cfi_cursor){.at = at, .end = image->end, .bad = !inside};
}

static bool read_header(const struct cfi_image *image, struct header *ret)
{
	if (!image->eh_frame_hdr && image->eh_frame) {
		*ret = (struct header){.eh_frame = image->eh_frame};
		return true;
	}
	if (!image->eh_frame_hdr || image->eh_frame_hdr < image->start ||
	    image->eh_frame_hdr >= image->end)
		return false;
	struct cfi_cursor cursor = cursor_at(image, image->eh_frame_hdr);
	if (image->hdr_bytes < cursor.end - cursor.at)
		cursor.end = cursor.at + image->hdr_bytes;

	uint8_t version = cfi_u8(&cursor);
	uint8_t frame_encoding = cfi_u8(&cursor);
	uint8_t count_encoding = cfi_u8(&cursor);
	uint8_t table_encoding = cfi_u8(&cursor);
	if (cursor.bad || version != 1 || frame_encoding == CFI_PE_OMIT)
		return false;
	ret->eh_frame = cfi_pointer(&cursor, frame_encoding, image->eh_frame_hdr);
	ret->table = 0;
	ret->count = 0;
	if (cursor.bad)
		return false;
	if (count_encoding == CFI_PE_OMIT || table_encoding != HDR_TABLE_ENCODING)
		return true;

	uint64_t count = cfi_pointer(&cursor, count_encoding, image->eh_frame_hdr);
	size_t room = cursor.bad ? 0 : (cursor.end - cursor.at) / HDR_PAIR_BYTES;
	if (count == 0 || room == 0)
		return true;
	ret->table = cursor.at;
	ret->count = count < room ? count : room;
	return true;
}

static int32_t table_word(uintptr_t table, size_t index, size_t which)
{
	int32_t value;
	__builtin_memcpy(&value, (const void *)(table + index * HDR_PAIR_BYTES + which * 4), 4);
	return value;
}

/* Index of the last function that starts at or before pc; header->count: none does. */
static size_t search(const struct cfi_image *image, const struct header *header, uintptr_t pc)
{
	int64_t wanted = (int64_t)(pc - image->eh_frame_hdr);
	size_t low = 0;
	size_t high = header->count; /* the answer is before high */

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table_word(header->table, middle, 0) <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : header->count;
}

/* The z-augmentation's letters with their data. False: damaged or unknown. */
static bool parse_augmentation(struct cfi_cursor *cursor, const char *letters,
			       struct cfi_entry *entry)
{
	uint64_t bytes = cfi_uleb(cursor);
	struct cfi_cursor data = *cursor;

	cfi_skip(cursor, bytes);
	data.end = cursor->at;
	for (const char *letter = letters + 1; *letter && !data.bad; letter++) {
		uint8_t encoding;
		switch (*letter) {
		case 'R':
			entry->pointer_encoding = cfi_u8(&data);
			break;
		case 'P': /* the personality routine: its place is skipped, not followed */
			encoding = cfi_u8(&data) & (uint8_t)~CFI_PE_INDIRECT;
			if ((encoding & CFI_PE_BASE) == 0x50) /* aligned */
				return false;
			cfi_pointer(&data, encoding & CFI_PE_FORMAT, 0);
			break;
		case 'L':
			cfi_u8(&data);
			break;
		case 'S':
			entry->signal_frame = true;
			break;
		case 'B': /* pointer authentication and memory tagging: no data */
		case 'G':
			break;
		default:
			return false;
		}
	}
	return !cursor->bad && !data.bad;
}

/* Length field and end of one entry. False: the terminator, or damaged. */
static bool read_length(struct cfi_cursor *cursor)
{
	uint64_t bytes = cfi_u32(cursor);

	if (bytes == 0xffffffff)
		bytes = cfi_u64(cursor);
	if (cursor->bad || bytes < 4 || bytes > cursor->end - cursor->at)
		return false;
	cursor->end = cursor->at + bytes;
	return true;
}

static bool parse_cie(const struct cfi_image *image, uintptr_t at, struct cfi_entry *entry)
{
	char letters[CIE_AUGMENTATION_MAX];
	size_t count = 0;
	struct cfi_cursor cursor = cursor_at(image, at);

	if (!read_length(&cursor) || cfi_u32(&cursor) != 0)
		return false;
	uint8_t version = cfi_u8(&cursor);
	if (version != 1 && version != 3 && version != 4)
		return false;
	do {
		if (count == CIE_AUGMENTATION_MAX)
			return false;
		letters[count] = (char)cfi_u8(&cursor);
	} while (letters[count++]);
	if (version == 4 && (cfi_u8(&cursor) != 8 || cfi_u8(&cursor) != 0))
		return false;
	entry->code_align = cfi_uleb(&cursor);
	entry->data_align = cfi_sleb(&cursor);
	entry->return_register = version == 1 ? cfi_u8(&cursor) : cfi_uleb(&cursor);
	entry->pointer_encoding = 0;
	entry->signal_frame = false;
	if (letters[0] == 'z') {
		if (!parse_augmentation(&cursor, letters, entry))
			return false;
	} else if (letters[0]) {
		return false;
	}
	entry->cie_program = cursor;
	/* The FDE's own augmentation data is to be skipped only after a 'z'. */
	entry->fde_program.bad = letters[0] == 'z';
	return !cursor.bad;
}

/* Parse the entry at `at`. *ret_next: the following one, 0 at the end. False: not a (good) FDE. */
static bool parse_fde(const struct cfi_image *image, uintptr_t at, struct cfi_entry *ret,
		      uintptr_t *ret_next)
{
	struct cfi_cursor cursor = cursor_at(image, at);

	*ret_next = 0;
	if (!read_length(&cursor))
		return false;
	*ret_next = cursor.end;
	uintptr_t field = cursor.at;
	uint32_t distance = cfi_u32(&cursor);
	if (cursor.bad || distance == 0 || distance > field - image->start)
		return false;
	if (!parse_cie(image, field - distance, ret))
		return false;
	bool augmented = ret->fde_program.bad;

	ret->pc_start = cfi_pointer(&cursor, ret->pointer_encoding, 0);
	uint64_t bytes = cfi_pointer(&cursor, ret->pointer_encoding & CFI_PE_FORMAT, 0);
	ret->pc_end = ret->pc_start + bytes;
	if (augmented)
		cfi_skip(&cursor, cfi_uleb(&cursor));
	ret->fde_program = cursor;
	return !cursor.bad && ret->pc_end > ret->pc_start;
}

static bool covers(const struct cfi_image *image, uintptr_t at, uintptr_t pc, struct cfi_entry *ret,
		   uintptr_t *ret_next)
{
	return parse_fde(image, at, ret, ret_next) && pc >= ret->pc_start && pc < ret->pc_end;
}

static bool scan(const struct cfi_image *image, uintptr_t at, uintptr_t pc, struct cfi_entry *ret)
{
	while (at) {
		uintptr_t next;
		if (covers(image, at, pc, ret, &next))
			return true;
		at = next;
	}
	return false;
}

/*
 * Post-link optimisers leave empty FDEs behind at the start of the true one,
 * which then follows in .eh_frame, or has the entry before it in the table.
 */
static bool find_near(const struct cfi_image *image, const struct header *header, size_t index,
		      uintptr_t pc, struct cfi_entry *ret)
{
	int32_t start = table_word(header->table, index, 0);

	for (unsigned i = 0; i < SAME_START_MAX; i++) {
		uintptr_t fde = image->eh_frame_hdr + (intptr_t)table_word(header->table, index, 1);
		uintptr_t next;
		if (covers(image, fde, pc, ret, &next) ||
		    (next && covers(image, next, pc, ret, &next)))
			return true;
		if (index-- == 0 || table_word(header->table, index, 0) != start)
			return false;
	}
	return false;
}

bool cfi_table_find(const struct cfi_image *image, uintptr_t pc, struct cfi_entry *ret)
{
	struct header header;

	if (!read_header(image, &header))
		return false;
	if (!header.table)
		return scan(image, header.eh_frame, pc, ret);
	size_t index = search(image, &header, pc);
	return index < header.count && find_near(image, &header, index, pc, ret);
}
