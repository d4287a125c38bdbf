/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loader does not know and memory does not hold, from /proc and from
 * the program's file. Make system calls: for init only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What /proc/self/exe points to, NUL-terminated; its length, 0: unknown. */
uint32_t module_path_of_program(char *ret, size_t bytes);

/* The file mapped at address, from /proc/self/maps; its length, 0: none. */
uint32_t module_path_at(uintptr_t address, char *ret, size_t bytes);

/*
 * ELF address of the section .eh_frame of the program, from the section headers
 * of its file; 0: none. For programs linked without PT_GNU_EH_FRAME.
 */
uintptr_t module_eh_frame_of_program(void);
