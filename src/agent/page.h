/* SPDX-License-Identifier: Apache-2.0 */
/* The page through which a sleeping agent is woken: wire/page.h. */
#pragma once

#include <stdbool.h>

/*
 * A page for this process: in a file that tools find, or (hidden) only for
 * ourselves. agent.page is set. Always succeeds in the latter way.
 */
void page_make(bool hidden);
/* Another image of this process may have left a file, and this one has none. */
void page_clear(void);
/* The process ends: its file goes. Harmless in a child, and when there is none. */
void page_drop(void);
