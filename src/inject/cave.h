/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few bytes of code for a process in which there is none of ours yet: behind the
 * end of a program's or library's code its last page has room that nobody uses.
 * The code makes one system call and then gives the thread its own signal mask and
 * registers back, whether or not a tracer is there to do it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

enum { CAVE_BYTES = 320 };

/* Room behind code that ends there, in its page; 0: too little. */
uint64_t cave_after(uint64_t code_end);
/* Is that our code, left by a tracer that was killed? The room was empty before. */
bool cave_is_ours(const uint8_t bytes[CAVE_BYTES]);
/*
 * The code, which begins with `syscall` and needs no stack. resumed: the registers
 * with which the thread goes on by itself (remote_resumed()). It may lie anywhere.
 */
void cave_fill(const struct user_regs_struct *resumed, uint64_t signal_mask,
	       uint8_t ret[CAVE_BYTES]);
