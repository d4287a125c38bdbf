/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping and waking: wake.c. */
#pragma once

#include "agent/agent.h"

/* Nothing is to be recorded any more: sleep, or pass on for good. */
void agent_rest(void);
/* The same at once, for who has the lock of agent_start(). */
void agent_lie_down(void);
/* Under the lock of agent_start(): the page says that somebody wants us. True: recording is on. */
bool agent_wake(void);

/* In a program that runs already: what redirect_start() does at the start of one. */
void session_redirect(void);

/* Hooks just go on to the real function. One load and one branch while recording. */
static inline bool agent_passes(void)
{
	uint32_t state = atomic_load_explicit(&agent.state, memory_order_relaxed);
	if (likely(state == AGENT_ON))
		return false;
	return state == AGENT_PASS ||
	       (state == AGENT_DORMANT &&
		atomic_load_explicit(&agent.page->wake, memory_order_relaxed) < WIRE_WAKE_ASKED);
}
