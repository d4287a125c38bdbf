/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small program that is compiled, run, and asked where it was: it prints the
 * return addresses that the names are compared with.
 */
#pragma once

#include "symbols/symbols.h"

struct fixture {
	char folder[64];
	char path[96];
	uint64_t in_inner, in_hidden; /* ELF addresses of the calls */
	struct symbols *symbols;
	unsigned warnings;
	char warning[256];
};

/* Runs a command with the folder put in for %s; its exit status. */
int fixture_shell(const char *format, const char *folder);
/* Compiles the program as folder/p by such a command; skips the case if that fails. */
void fixture_setup(struct fixture *fixture, const char *compile);
void fixture_teardown(struct fixture *fixture);
/* Opens folder/p, which must work. */
struct symbols_module *fixture_open(struct fixture *fixture);
/* A symbols_warn_fn: counts and keeps the sentence. */
void fixture_note_warning(void *ctx, const char *sentence);

#define COMPILE_DEBUG "cd '%s' && cc -O2 -g -rdynamic -Wl,--build-id p.c -o p"
#define COMPILE_PLAIN "cd '%s' && cc -O2 -rdynamic -Wl,--build-id p.c -o p"
