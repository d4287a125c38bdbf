/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that leaves blocks unfreed, knows of some of them, and changes from
 * build to build. leaks [N [STATUS]]: parse_line() allocates N blocks of 100
 * bytes (3 if not given) and frees all but one; leak_known() leaves 64 bytes
 * that the program's own suppressions accept; leak_other() leaves 5 blocks of 10.
 */
#include "ledger.h"

LEDGER_SITE(parse_line);
LEDGER_SITE(leak_known);
LEDGER_SITE(leak_other);

#ifndef NO_DEFAULT_SUPPRESSIONS
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "# known, and as it should be\nleak:^leak_known$\n";
}
#endif

SITE void *parse_line(size_t n)
{
	return ledger_alloc(&parse_line_site, malloc(n), n);
}

SITE void *leak_known(size_t n)
{
	return ledger_alloc(&leak_known_site, malloc(n), n);
}

SITE void *leak_other(size_t n)
{
	return ledger_alloc(&leak_other_site, malloc(n), n);
}

int main(int argc, char **argv)
{
	int lines = argc > 1 ? atoi(argv[1]) : 3;
	void *kept = NULL;
	ledger_open("");
	for (int i = 0; i < lines; i++) {
		if (kept) {
			ledger_free(&parse_line_site, kept, 100);
			free(kept);
		}
		kept = parse_line(100);
	}
	KEEP(leak_known(64));
	for (int i = 0; i < 5; i++)
		KEEP(leak_other(10));
#ifdef OTHER_BUILD
	KEEP(parse_line(1000));
#endif
	ledger_print("leaks", LEDGER_EXACT | LEDGER_PEAK);
	return argc > 2 ? atoi(argv[2]) : 0;
}
