/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGUSR1 to a program that would be ended by it: a switch. The program's own
 * handler, or its ignoring the signal, always wins; and it is told that the
 * default is in place.
 */
#pragma once

#include <stdint.h>

/* Ours, if nothing else is there. */
void usr1_install(void);
/* What a program reads as the handler of a signal: the default where it is ours. */
uintptr_t usr1_shown(uintptr_t handler);
