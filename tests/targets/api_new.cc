// SPDX-License-Identifier: Apache-2.0
// One mode per form of C++'s operator new and delete. The C++ library makes a
// block of its own at start, so totals are not exact; the functions' are.
#include "ledger.h"

#include <new>

static constexpr int rounds = 60;
static constexpr std::align_val_t alignment{128};
static volatile size_t huge = (size_t)1 << 62;

LEDGER_SITE(by_new);
LEDGER_SITE(by_new_array);
LEDGER_SITE(by_new_nothrow);
LEDGER_SITE(by_new_aligned);
LEDGER_SITE(by_new_aligned_nothrow);
LEDGER_SITE(by_new_expression);

extern "C" {

SITE void *by_new(size_t n)
{
	void *block = nullptr;
	try {
		block = ::operator new(n);
	} catch (const std::bad_alloc &) {
	}
	return ledger_alloc(&by_new_site, block, n);
}

SITE void *by_new_array(size_t n)
{
	return ledger_alloc(&by_new_array_site, ::operator new[](n), n);
}

SITE void *by_new_nothrow(size_t n)
{
	return ledger_alloc(&by_new_nothrow_site, ::operator new(n, std::nothrow), n);
}

SITE void *by_new_aligned(size_t n)
{
	void *block = ::operator new(n, alignment);
	check(((uintptr_t)block & 127) == 0, "new: not aligned");
	return ledger_alloc(&by_new_aligned_site, block, n);
}

SITE void *by_new_aligned_nothrow(size_t n)
{
	return ledger_alloc(&by_new_aligned_nothrow_site,
			    ::operator new[](n, alignment, std::nothrow), n);
}

struct weight {
	char bytes[96];
	weight() { bytes[0] = 1; }
	~weight() { KEEP(this); }
};

SITE void *by_new_expression(size_t)
{
	return ledger_alloc(&by_new_expression_site, new weight, sizeof(weight));
}
}

typedef void *(*make_fn)(size_t);
typedef void (*drop_fn)(void *, size_t);

static void mix(make_fn make, drop_fn drop, ledger_site *site, size_t fixed)
{
	for (size_t i = 1; i <= rounds; i++) {
		// Multiples of the alignment: libstdc++ rounds up to it before it asks.
		size_t small = fixed ? fixed : i * 128, large = fixed ? fixed : i * 256;
		void *a = make(small);
		void *b = make(large);
		check(a && b, "out of memory");
		ledger_free(site, b, large);
		drop(b, large);
		if (i % 3 == 0)
			continue;
		ledger_free(site, a, small);
		drop(a, small);
	}
}

int main(int argc, char **argv)
{
	ledger_open("");
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "new"))
		mix(by_new, [](void *p, size_t) { ::operator delete(p); }, &by_new_site, 0);
	else if (!strcmp(mode, "new_sized"))
		mix(by_new, [](void *p, size_t n) { ::operator delete(p, n); }, &by_new_site, 0);
	else if (!strcmp(mode, "new_array"))
		mix(by_new_array, [](void *p, size_t) { ::operator delete[](p); },
		    &by_new_array_site, 0);
	else if (!strcmp(mode, "new_nothrow"))
		mix(by_new_nothrow, [](void *p, size_t) { ::operator delete(p, std::nothrow); },
		    &by_new_nothrow_site, 0);
	else if (!strcmp(mode, "new_aligned"))
		mix(by_new_aligned, [](void *p, size_t) { ::operator delete(p, alignment); },
		    &by_new_aligned_site, 0);
	else if (!strcmp(mode, "new_aligned_nothrow"))
		mix(by_new_aligned_nothrow,
		    [](void *p, size_t) { ::operator delete[](p, alignment, std::nothrow); },
		    &by_new_aligned_nothrow_site, 0);
	else if (!strcmp(mode, "new_expression"))
		mix(by_new_expression, [](void *p, size_t) { delete (weight *)p; },
		    &by_new_expression_site, sizeof(weight));
	else if (!strcmp(mode, "bad_alloc"))
		for (int i = 0; i < rounds; i++)
			check(!by_new(huge), "a huge new worked");
	else
		check(0, "usage: api_new MODE");
	ledger_print(mode, 0);
	return 0;
}
