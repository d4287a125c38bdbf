/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "inject/plan_elf.h"

/*
 * The ELF address of the module's table for what it says about heaps of its own
 * (include/tidemark.h), as its note tells; 0: it has none.
 */
uint64_t plan_api_table(const struct plan_elf *elf);
