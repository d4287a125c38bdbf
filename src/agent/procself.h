/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the own process, and a few others, from /proc, and text without a C library. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum procself_field {
	PROCSELF_THREADS = 20,
	PROCSELF_START_TICKS = 22,
	PROCSELF_START_STACK = 28, /* where argc is */
};
/* A number of /proc/self/stat; 0 if the system does not say. */
uint64_t procself_stat(enum procself_field field);
/* The file that an address of ours was mapped from. False: it cannot be told. */
int procself_path(uintptr_t address, char *ret, size_t room);

/* 'R', 'S', 'T' (stopped), ... of a thread whose name begins so; 0: there is none, or /proc does
 * not say. */
char procself_state_of(uint32_t thread, const char *name);

/* Both append, end with a NUL, and return where that is. */
char *procself_put(char *to, const char *text);
char *procself_put_number(char *to, uint64_t number);
