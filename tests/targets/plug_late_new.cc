// SPDX-License-Identifier: Apache-2.0
// A library in C++ that brings an allocator of its own along, whose operator new it calls.
#include <cstddef>
#include <new>

extern "C" __attribute__((noipa, visibility("default"))) void *late_malloc(std::size_t bytes)
{
	void *block = ::operator new(bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

extern "C" __attribute__((visibility("default"))) void late_free(void *block)
{
	::operator delete(block);
}
