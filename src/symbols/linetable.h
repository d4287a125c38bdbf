/* SPDX-License-Identifier: Apache-2.0 */
/* The line table of one unit, decoded: address to file, line and column. */
#pragma once

#include "base/text.h"
#include "symbols/unit.h"

struct linetable_row {
	uint32_t delta; /* from the sequence's begin */
	uint32_t file, line, column;
};

struct linetable {
	struct linetable_row *rows;
	size_t row_count, row_room;
	struct linetable_sequence *sequences; /* by address */
	size_t sequence_count, sequence_room;
	struct linetable_file *files; /* by number, [0] unused before DWARF 5 */
	size_t file_count, file_room;
	const char **folders;
	size_t folder_count, folder_room;
	const char *comp_dir; /* NULL = unknown */
	uint16_t version;
};

/* -ENODATA if the unit has none, -EBADMSG, -EFBIG, -ENOMEM. O(bytes of the table). */
TM_MUST_CHECK int linetable_load(struct linetable *table, const struct unit *unit);
void linetable_done(struct linetable *table);
size_t linetable_bytes(const struct linetable *table);

/* The row that covers the address, or NULL. O(log rows). */
const struct linetable_row *linetable_find(const struct linetable *table, uint64_t address);
/* Appends the path of a file number; false if there is no such file. */
bool linetable_path(const struct linetable *table, uint32_t file, struct text *out);
