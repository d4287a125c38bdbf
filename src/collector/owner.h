/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the target that its collector lives: the drain thread's id stands in
 * a robust futex. When the thread dies, however that happens, the kernel marks
 * the word FUTEX_OWNER_DIED; no pid need be looked at, so this works across pid
 * namespaces.
 */
#pragma once

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>

struct owner {
	struct robust_list entry;     /* the list's only member, in private memory */
	struct robust_list_head head; /* must stay in place until owner_leave() */
};

/* The calling thread owns the word from now on. It must hold no robust mutex. */
void owner_enter(struct owner *owner, _Atomic uint32_t *word);
void owner_leave(struct owner *owner, _Atomic uint32_t *word);
