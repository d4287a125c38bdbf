/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps argv[1] thousand small blocks, says "full", frees them all. */
#include "ledger.h"

LEDGER_SITE(hoard_malloc);

SITE void *hoard_malloc(size_t n)
{
	return ledger_alloc(&hoard_malloc_site, malloc(n), n);
}

int main(int argc, char **argv)
{
	size_t count = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) * 1000;
	void **kept = mmap(NULL, count * sizeof *kept, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(kept != MAP_FAILED, "no memory");
	ledger_open("");
	for (size_t i = 0; i < count; i++)
		kept[i] = hoard_malloc(i % 100 + 1);
	say("full\n");
	for (size_t i = 0; i < count; i++) {
		ledger_free(&hoard_malloc_site, kept[i], i % 100 + 1);
		free(kept[i]);
	}
	ledger_print("hoard", LEDGER_EXACT | LEDGER_PEAK);
	return 0;
}
