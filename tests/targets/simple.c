/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plainest deterministic program: every figure is known. Built in many
 * ways (dynamic, static, 32 bits, musl, ASan, setuid) to see what those change.
 * It prints a line and ends with the status given as its first argument.
 */
#include "ledger.h"

LEDGER_SITE(simple_keep);
LEDGER_SITE(simple_drop);

SITE void *simple_keep(size_t n)
{
	return ledger_alloc(&simple_keep_site, malloc(n), n);
}

SITE void *simple_drop(size_t n)
{
	return ledger_alloc(&simple_drop_site, malloc(n), n);
}

int main(int argc, char **argv)
{
	void *late[100];
	ledger_open("");
	for (size_t i = 0; i < 100; i++) {
		KEEP(simple_keep(i));
		late[i] = simple_drop(1000 + i);
	}
	for (size_t i = 0; i < 100; i++) {
		ledger_free(&simple_drop_site, late[i], 1000 + i);
		free(late[i]);
	}
	say("simple was here\n");
	ledger_print("simple", LEDGER_EXACT | LEDGER_PEAK);
	return argc > 1 ? atoi(argv[1]) : 0;
}
