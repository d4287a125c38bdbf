/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to be loaded and unloaded, built several times with another NAME:
 * the same code at the same offsets under other function names, so that a stack
 * remembered for one library would be wrong, but plausible, for the next.
 */
#include <stdlib.h>

#define PASTE2(a, b)     a##b
#define PASTE(a, b)      PASTE2(a, b)
#define FUNCTION(suffix) PASTE(NAME, suffix)

typedef void *(*plug_fn)(size_t bytes);

__attribute__((noipa, visibility("default"))) void *FUNCTION(_make)(size_t bytes)
{
	void *block = malloc(bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

/* A second frame of the library, so that its stacks have two names of its own. */
__attribute__((noipa, visibility("default"))) void *FUNCTION(_enter)(size_t bytes)
{
	void *block = FUNCTION(_make)(bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

__attribute__((visibility("default"))) plug_fn plug_entry = FUNCTION(_enter);

__attribute__((visibility("default"))) void plug_free(void *block)
{
	free(block);
}

/* What the host wants done when the library goes. */
__attribute__((visibility("default"))) void (*plug_at_end)(void);

__attribute__((destructor)) static void end(void)
{
	if (plug_at_end)
		plug_at_end();
}
