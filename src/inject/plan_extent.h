/* SPDX-License-Identifier: Apache-2.0 */
/* How long a function is that has no symbol: stripped files keep their unwind tables. */
#pragma once

#include "inject/plan_elf.h"

/*
 * The bytes of the function that begins at the ELF address, by the table that
 * .eh_frame_hdr has of them; 0: it has none, or none of the usual form. Reads a few
 * words of the file.
 */
uint64_t plan_extent(const struct plan_elf *elf, uint64_t address);
