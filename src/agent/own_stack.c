/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main stack ends where the kernel put the random bytes. Any other thread
 * has its control block at the end of its stack, and in it the C library keeps
 * where that begins and how large it is: glibc as stackblock and stackblock_size,
 * musl as map_base and map_size. At which offset differs from version to version,
 * but two neighbouring words that span from below the block to just behind it
 * are nothing else, where the first is the larger one: a small number and a
 * pointer into the block (the thread's id, and the list behind it) do so, too.
 *
 * Known limits: a thread that was given its stack in musl, or was made without
 * the C library, has none of its own here.
 */
#include "agent/own_stack.h"

#include "agent/sys.h"

enum {
	MAIN_BYTES = 64 << 20,  /* below the main stack's end the kernel maps nothing else */
	BLOCK_BYTES = 4096,     /* no control block is larger */
	BEHIND_BYTES = 8192,    /* nor is what lies between its begin and the stack's end */
	STACK_BYTES_MIN = 2048, /* PTHREAD_STACK_MIN of musl */
};

/* The words that say where the stack is, in the thread's control block. Once for a thread. */
AGENT_COLD static void seek_stack(struct lane *lane)
{
	uintptr_t thread = thread_pointer(), low = 0;
	lane->own_end = 1; /* sought: nothing lies below it */
	for (uintptr_t at = thread; at < thread + BLOCK_BYTES; at += sizeof low) {
		uintptr_t bytes, end;
		if (at % AGENT_PAGE || at == thread)
			bytes = *(const volatile uintptr_t *)at;
		else if (!agent_may_call() || !sys_peek((int)lane->tid, at, &bytes, sizeof bytes))
			return;
		end = low + bytes;
		if (low > bytes && low < thread && bytes >= STACK_BYTES_MIN && end > thread &&
		    end - thread <= BEHIND_BYTES) {
			lane->own_low = low;
			lane->own_end = thread;
			return;
		}
		low = bytes;
	}
}

uintptr_t own_stack_end(struct lane *lane, uintptr_t sp)
{
	uintptr_t main_end = agent_fixed.main_stack_end;
	if (sp < main_end && main_end - sp <= MAIN_BYTES)
		return main_end;
	if (unlikely(!lane->own_end))
		seek_stack(lane);
	return sp >= lane->own_low && sp < lane->own_end ? lane->own_end : 0;
}
