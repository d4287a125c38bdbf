/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile names of functions: through the demanglers and into every length of room. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "symbols/symbols.h"

enum { NAME_MAX_BYTES = 20 * 1024, ROOM = 4 * 1024 };

static void check(const char *out, size_t room)
{
	if (strnlen(out, room) == room)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char name[NAME_MAX_BYTES];
	char out[ROOM], brief[ROOM];
	if (size < 2 || size >= sizeof name)
		return 0;
	/* The first byte says how much room there is. */
	size_t room = data[0] ? (size_t)data[0] * 16 : 1;
	memcpy(name, data + 1, size - 1);
	name[size - 1] = '\0';
	symbols_demangle(name, out, room);
	check(out, room);
	symbols_shorten(out, brief, room);
	check(brief, room);
	symbols_shorten(name, brief, room);
	check(brief, room);
	symbols_demangle_nim(name, out, room);
	check(out, room);
	return 0;
}
