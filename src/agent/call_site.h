/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Where a hook was called from: the caller's pc, its stack pointer and frame pointer after the call
 * returns. */
struct call_site {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t bp;
};

/* For what is called rarely: a site that nobody has the address of can stay in registers. */
#define SITE_COPY(site) (&(struct call_site){(site)->pc, (site)->sp, (site)->bp})

/* To be used directly in an exported function compiled with a frame pointer. */
#define CALL_SITE()                                                                       \
	({                                                                                \
		uintptr_t *frame_ = __builtin_frame_address(0);                           \
		(struct call_site){                                                       \
			.pc = frame_[1], .sp = (uintptr_t)(frame_ + 2), .bp = frame_[0]}; \
	})
