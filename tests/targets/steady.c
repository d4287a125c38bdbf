/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in two phases, parted by an event and not by a clock: it allocates,
 * says "ready", waits for a byte on standard input (its end also serves),
 * allocates argv[1] thousand pairs more, says "done" and ends with status 3.
 */
#include "ledger.h"

LEDGER_SITE(first_malloc);
LEDGER_SITE(second_malloc);

SITE void *first_malloc(size_t n)
{
	return ledger_alloc(&first_malloc_site, malloc(n), n);
}

SITE void *second_malloc(size_t n)
{
	return ledger_alloc(&second_malloc_site, malloc(n), n);
}

int main(int argc, char **argv)
{
	size_t pairs = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) * 1000;
	char letter = 0;
	ledger_open("");
	for (size_t i = 1; i <= 1000; i++)
		KEEP(first_malloc(i));
	say("ready\n");
	if (read(0, &letter, 1) < 0)
		return 4;
	for (size_t i = 0; i < pairs; i++) {
		void *block = second_malloc(i % 500);
		ledger_free(&second_malloc_site, block, i % 500);
		free(block);
	}
	ledger_print("steady", LEDGER_EXACT | LEDGER_PEAK);
	say("done\n");
	return 3;
}
