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

static void check_nim(const char *mangled, const char *wanted)
{
	char out[512];
	symbols_demangle_nim(mangled, out, sizeof out);
	CHECK_STR(out, wanted);
}

/* Mangled by Nim 1.6, by Nim 2 and by Nim 1.2. */
static void nim(void)
{
	check_nim("addChunkToMatrix__system_3944", "system.addChunkToMatrix");
	check_nim("addInt__stdZprivateZdigitsutils_167", "digitsutils.addInt");
	check_nim("X5BX5Deq___tables_146", "tables.[]=");
	check_nim("dollar___systemZdollars_3", "dollars.$");
	check_nim("eqdestroy___system_3043", "system.=destroy");
	check_nim("work__demo_u12", "demo.work");
	check_nim("work__demo_12.constprop.0", "demo.work");
	check_nim("rawAlloc_mE4QEVyMvGRVliDWDngZCQ", "rawAlloc");
	/* Not Nim's. */
	check_nim("NimMain", "NimMain");
	check_nim("__libc_start_call_main", "__libc_start_call_main");
	check_nim("qsort_r", "qsort_r");
	check_nim("_12", "_12");
	check_nim("__a_1", "__a_1");
	check_nim("_ZN3foo3barEi", "foo::bar(int)");
	char tiny[4];
	symbols_demangle_nim("grow__tables_4", tiny, sizeof tiny);
	CHECK_STR(tiny, "gro");
}

static void check_short(const char *name, const char *wanted)
{
	char out[512];
	symbols_shorten(name, out, sizeof out);
	CHECK_STR(out, wanted);
}

static void short_cpp(void)
{
	check_short("main", "main");
	check_short("", "");
	check_short("std::vector<int, std::allocator<int> >::push_back(int&&)",
		    "std::vector<…>::push_back(int&&)");
	check_short("std::map<A<B<C> >, D>::operator[](A<B<C> > const&)",
		    "std::map<…>::operator[](A<…> const&)");
	check_short("bool std::operator< <char>(std::X<char> const&)",
		    "bool std::operator< <…>(std::X<…> const&)");
	check_short("a::operator<<(int)", "a::operator<<(int)");
	check_short("std::unique_ptr<A>::operator->() const",
		    "std::unique_ptr<…>::operator->() const");
	check_short("a::operator<=> <int>(int)", "a::operator<=> <…>(int)");
	check_short("f<&(a::operator-><int>())>(int)", "f<…>(int)");
	check_short("std::function<int (int)>::operator()(int) const",
		    "std::function<…>::operator()(int) const");
	check_short("g(std::__cxx11::basic_string<char, std::char_traits<char>, "
		    "std::allocator<char> > const&, int)",
		    "g(std::string const&, int)");
	check_short("my_operator<int>()", "my_operator<…>()");
	/* Cut by a limit, or never closed. */
	check_short("a<b<c", "a<…>");
	check_short("a>b", "a>b");
	char tiny[5];
	symbols_shorten("vector<int>", tiny, sizeof tiny);
	CHECK_STR(tiny, "vect");
}

static void short_rust(void)
{
	check_short("<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
		    "<alloc::vec::Vec<…> as core::ops::drop::Drop>::drop");
	check_short("demo::sort::<u8>", "demo::sort<…>");
	check_short("demo::Tree<K,V>::insert", "demo::Tree<…>::insert");
	check_short("<fn() -> u8 as demo::Run>::run::{closure#0}",
		    "<fn() -> u8 as demo::Run>::run::{closure#0}");
	check_short("<demo::Printer>::list::<<demo::Printer>::print::{closure#5}>",
		    "<demo::Printer>::list<…>");
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
	{.name = "Nim's procs are shown as module.proc", .run = nim},
	{.name = "C++ names can be shown without template arguments", .run = short_cpp},
	{.name = "Rust names can be shown without generics", .run = short_rust},
	{.name = "clones and versions have their function's name", .run = clones},
	{.name = "a name that unfolds for ever does not hang the report",
	 .run = bomb,
	 .seconds = 5},
	{.name = "an overlong name is cut", .run = long_names},
};
TAP_MAIN(cases)
