// SPDX-License-Identifier: Apache-2.0
// Exceptions across frames that have allocated, in the main thread and in
// threads, with destructors that free on the way. The C++ library allocates the
// exceptions themselves; the named functions are compared.
#define LEDGER_THREADS
#include "ledger.h"

#include <new>
#include <pthread.h>
#include <stdexcept>

LEDGER_SITE(own_malloc);
LEDGER_SITE(own_new);
LEDGER_SITE(thrown_new);
LEDGER_SITE(handler_malloc);

static volatile size_t huge = (size_t)1 << 62;

extern "C" SITE void *own_malloc(size_t n)
{
	return ledger_alloc(&own_malloc_site, malloc(n), n);
}

extern "C" SITE void *own_new(size_t n)
{
	return ledger_alloc(&own_new_site, ::operator new(n), n);
}

// Throws bad_alloc through this frame; counts the failed call first.
extern "C" SITE void *thrown_new(size_t n)
{
	ledger_alloc(&thrown_new_site, nullptr, n);
	void *block = ::operator new(n);
	KEEP(block);
	return block;
}

extern "C" SITE void *handler_malloc(size_t n)
{
	return ledger_alloc(&handler_malloc_site, malloc(n), n);
}

struct guard {
	void *block;
	size_t bytes;
	explicit guard(size_t n) : block(own_malloc(n)), bytes(n) {}
	~guard()
	{
		ledger_free(&own_malloc_site, block, bytes);
		free(block);
	}
};

struct guard_new {
	void *block;
	size_t bytes;
	explicit guard_new(size_t n) : block(own_new(n)), bytes(n) {}
	~guard_new()
	{
		ledger_free(&own_new_site, block, bytes);
		::operator delete(block);
	}
};

struct deep_error : std::runtime_error {
	int depth;
	explicit deep_error(int d) : std::runtime_error("deep"), depth(d) {}
};

extern "C" SITE int descend(int depth, int limit)
{
	guard first((size_t)depth + 1);
	guard_new second((size_t)depth + 50);
	if (depth == limit)
		throw deep_error(depth);
	int result = descend(depth + 1, limit);
	KEEP(&second);
	return result + 1;
}

extern "C" SITE int catch_and_rethrow(int limit)
{
	try {
		return descend(0, limit);
	} catch (const deep_error &error) {
		guard late((size_t)error.depth + 7);
		throw;
	}
}

static void *work(void *)
{
	for (int i = 0; i < 200; i++) {
		int caught = -1;
		try {
			catch_and_rethrow(i % 40);
		} catch (const deep_error &error) {
			caught = error.depth;
		}
		check(caught == i % 40, "a wrong exception was caught");
		guard after((size_t)i + 1);
		bool failed = false;
		try {
			guard outer(64);
			thrown_new(huge);
		} catch (const std::bad_alloc &) {
			failed = true;
		}
		check(failed, "bad_alloc was lost");
	}
	return nullptr;
}

static int handler_left = 3;

static void new_handler()
{
	void *block = handler_malloc(33);
	KEEP(block);
	if (--handler_left == 0)
		throw deep_error(1000);
}

int main()
{
	ledger_open("");
	pthread_t threads[4];
	for (pthread_t &thread : threads)
		check(!pthread_create(&thread, nullptr, work, nullptr), "no thread");
	for (pthread_t &thread : threads)
		pthread_join(thread, nullptr);
	work(nullptr);
	std::set_new_handler(new_handler);
	bool thrown = false;
	try {
		void *block = ::operator new(huge);
		KEEP(block);
	} catch (const deep_error &error) {
		thrown = error.depth == 1000;
	}
	check(thrown, "the new handler's exception was lost");
	ledger_print("exceptions", LEDGER_FUZZY); // the runtime allocates between
	return 0;
}
