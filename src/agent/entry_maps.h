/* SPDX-License-Identifier: Apache-2.0 */
/* What mapping functions tell, whether they were reached by name or by a patch. */
#pragma once

#include "agent/hook.h"
#include "wire/site.h"

/* With a lane: is mapped memory recorded now? */
bool maps_wanted(void);
/* Around the real call; a: its arguments, as they were. Others than those of mapping tell nothing.
 */
void maps_before(struct lane *lane, const struct call_site *site, enum wire_hook hook,
		 const uintptr_t *a);
void maps_after(struct lane *lane, const struct call_site *site, enum wire_hook hook,
		const uintptr_t *a, uintptr_t result);

/* Where the data segment ends now. A system call. */
uintptr_t maps_break(void);
/* After a call that has moved it. */
void maps_moved_break(struct lane *lane, const struct call_site *site, uint64_t from, uint64_t to);
