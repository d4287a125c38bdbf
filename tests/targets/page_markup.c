/* SPDX-License-Identifier: Apache-2.0 */
/* A function whose name is markup, without debug information: part of page.c. */
#include "ledger.h"

void *marked(size_t bytes) __asm__("\"<img src=x onerror=alert(1)>\"");
SITE void *marked(size_t bytes)
{
	void *block = malloc(bytes);
	KEEP(block);
	return block;
}
