// SPDX-License-Identifier: Apache-2.0
// Functions that end in a jump: they leave no frame. And templates with long names.
#include <cstdlib>
#include <vector>

#define SITE __attribute__((noinline, noclone))

static void *volatile kept;

SITE void *make_leaf(size_t bytes)
{
	return malloc(bytes); // a jump
}

SITE void *make_inner(size_t bytes)
{
	void *block = malloc(bytes);
	kept = block;
	return block;
}

SITE void *make_outer(size_t bytes)
{
	return make_inner(bytes + 1); // a jump
}

SITE void call_both()
{
	kept = make_leaf(1000);
	kept = make_outer(2000);
	kept = make_inner(4000);
}

template <class T> struct Shelf {
	std::vector<T> items;
	SITE void put(T item)
	{
		items.push_back(item);
	}
};

int main()
{
	call_both();
	static Shelf<std::pair<long, long>> shelf;
	shelf.put({1, 2});
	return 0;
}
