/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/owner.h"

#include <sys/syscall.h>
#include <unistd.h>

void owner_enter(struct owner *owner, _Atomic uint32_t *word)
{
	/* The kernel finds the word at a fixed distance from the list's member. */
	owner->entry.next = &owner->head.list;
	owner->head = (struct robust_list_head){
		.list = {.next = &owner->entry},
		.futex_offset = (long)((intptr_t)word - (intptr_t)&owner->entry),
	};
	syscall(SYS_set_robust_list, &owner->head, sizeof owner->head);
	atomic_store_explicit(word, (uint32_t)syscall(SYS_gettid), memory_order_release);
}

void owner_leave(struct owner *owner, _Atomic uint32_t *word)
{
	owner->head.list.next = &owner->head.list;
	atomic_store_explicit(word, 0, memory_order_release);
}
