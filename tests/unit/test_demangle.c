/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"
#include "symbols/symbols.h"

#include <stdio.h>
#include <string.h>

static void check(const char *mangled, const char *wanted)
{
	char out[512];
	symbols_demangle(mangled, out, sizeof out);
	CHECK_STR(out, wanted);
}

static void plain_names(void)
{
	check("malloc", "malloc");
	check("_start", "_start");
	check("", "");
	check("_Z", "_Z");
	check("_Znot a name", "_Znot a name");
}

static void cpp(void)
{
	check("_Znwm", "operator new(unsigned long)");
	check("_ZN3foo3barEi", "foo::bar(int)");
	check("_ZNSt6vectorIiSaIiEE9push_backEOi",
	      "std::vector<int, std::allocator<int> >::push_back(int&&)");
}

/* Mangled forms from the documents of the two schemes. */
static void rust(void)
{
	check("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place");
	check("_RNvCs1234_7mycrate3foo", "mycrate::foo");
}

static void d_language(void)
{
	check("_D3foo3barFiZv", "foo.bar(int)");
}

static void clones(void)
{
	check("sysmalloc_mmap.constprop.0", "sysmalloc_mmap");
	check("work.isra.0.cold", "work");
	check("_ZN3foo3barEi.part.0", "foo::bar(int)");
	check("name.with.dots", "name.with.dots");
	check(".cold", ".cold");
	check("dlopen@@GLIBC_2.34", "dlopen");
	check("memcpy@GLIBC_2.2.5", "memcpy");
	check("malloc@plt", "malloc@plt");
}

/* Each template argument names the one before twice: 2^60 characters if printed whole. */
static void bomb(void)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[2048] = "_Z1fI1AIiiE";
	size_t used = strlen(name);
	for (unsigned i = 0; i < 60; i++) {
		/* Substitution 0 is f, then each argument adds A and A<...>: S_, S0_, S1_ ... */
		unsigned id = 1 + 2 * i;
		char text[3] = {digits[id / 36], digits[id % 36], '\0'};
		const char *shown = id < 36 ? text + 1 : text;
		used += (size_t)snprintf(name + used, sizeof name - used, "1AIS%s_S%s_E", shown,
					 shown);
	}
	snprintf(name + used, sizeof name - used, "Evv");
	char out[4096];
	symbols_demangle(name, out, sizeof out);
	CHECK_HAS(out, "f<A<int, int>, A<A<int, int>, A<int, int> >, A<A<A<");
	CHECK_EQ_U64(strlen(out), sizeof out - 1);
}

static void long_names(void)
{
	static char name[40000];
	memset(name, 'x', sizeof name - 1);
	memcpy(name, "_Z", 2);
	char out[64];
	symbols_demangle(name, out, sizeof out);
	CHECK_EQ_U64(strlen(out), sizeof out - 1);
	char one[1] = {'?'};
	symbols_demangle("main", one, sizeof one);
	CHECK_STR(one, "");
}

static const struct tap_case cases[] = {
	{.name = "C names are shown as they are", .run = plain_names},
	{.name = "C++ names read as in the source", .run = cpp},
	{.name = "Rust names read as in the source, without the hash", .run = rust},
	{.name = "D names read as in the source", .run = d_language},
	{.name = "clones and versions have their function's name", .run = clones},
	{.name = "a name that unfolds for ever does not hang the report",
	 .run = bomb,
	 .seconds = 5},
	{.name = "an overlong name is cut", .run = long_names},
};
TAP_MAIN(cases)
