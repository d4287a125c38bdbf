/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "inject/plan_elf.h"
#include "inject/plan_find.h"

/*
 * Nim's rawAlloc and rawDealloc are entry points only where the compiler left
 * them in one piece: an optimised build has copies of them inside of other
 * functions, and hooking the rest would count some allocations without their
 * frees. A copy shows in whom it calls: only these two call getBigChunk and
 * freeBigChunk. If there is one, or it cannot be told, all candidates of the
 * family get a flaw: exact figures, or none.
 */
void plan_nim_check(const struct plan_elf *elf, struct plan_found *found);

/*
 * A Nim program without symbols: it has an allocator that cannot be found, and
 * that does not speak for itself. Told by a sentence of Nim's runtime; a library
 * also by NimMain, which it exports so that whoever loads it can begin it.
 */
bool plan_nim_is_hidden(const struct plan_elf *elf, bool is_program);
