/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the process itself. */
#pragma once

#include "agent/hook.h"

/* The lane for one; NULL also in a vfork child, which only borrows the memory. */
struct lane *process_lane(const struct call_site *site);
void process_emit(struct lane *lane, const struct call_site *site, enum wire_extra kind,
		  uint64_t first, uint64_t second);

/* A seccomp filter, or the time-stamp counter forbidden: PR_SET_SECCOMP, PR_SET_TSC. */
void process_saw_prctl(int option, unsigned long argument);
/* Likewise by number: seccomp, prctl. */
void process_saw_syscall(long number, unsigned long first, unsigned long second);
