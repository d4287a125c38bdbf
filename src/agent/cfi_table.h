/* SPDX-License-Identifier: Apache-2.0 */
/* From a pc to its FDE and CIE. Internal to cfi_*.c. */
#pragma once

#include "agent/cfi.h"
#include "agent/cfi_read.h"

/* One FDE with what its CIE says. */
struct cfi_entry {
	uintptr_t pc_start;
	uintptr_t pc_end;
	struct cfi_cursor cie_program;
	struct cfi_cursor fde_program;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointer_encoding;
	bool signal_frame;
};

/* False: no FDE covers pc, or what should be one is damaged. */
bool cfi_table_find(const struct cfi_image *image, uintptr_t pc, struct cfi_entry *ret);
