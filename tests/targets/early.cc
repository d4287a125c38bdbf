// SPDX-License-Identifier: Apache-2.0
// Allocation before main and after it: .preinit_array, constructors, static
// objects, thread_local destructors, pthread keys, atexit, at_quick_exit is in
// process.c, destructors. The very last destructor writes the ledger.
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>

LEDGER_SITE(preinit_malloc);
LEDGER_SITE(constructor_malloc);
LEDGER_SITE(static_malloc);
LEDGER_SITE(main_malloc);
LEDGER_SITE(tls_malloc);
LEDGER_SITE(key_malloc);
LEDGER_SITE(atexit_malloc);
LEDGER_SITE(destructor_malloc);

#define DEFINE_SITE(name)                                                                          \
	extern "C" SITE void *name(size_t n)                                                       \
	{                                                                                          \
		return ledger_alloc(&name##_site, malloc(n), n);                                   \
	}

DEFINE_SITE(preinit_malloc)
DEFINE_SITE(constructor_malloc)
DEFINE_SITE(static_malloc)
DEFINE_SITE(main_malloc)
DEFINE_SITE(tls_malloc)
DEFINE_SITE(key_malloc)
DEFINE_SITE(atexit_malloc)
DEFINE_SITE(destructor_malloc)

typedef void *(*make_fn)(size_t);

static void some(make_fn make, struct ledger_site *site, size_t base)
{
	for (size_t i = 0; i < 20; i++) {
		void *kept = make(base + i);
		void *gone = make(base + 2 * i);
		ledger_free(site, gone, base + 2 * i);
		free(gone);
		KEEP(kept);
	}
}

static void before_all()
{
	some(preinit_malloc, &preinit_malloc_site, 11);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)() = before_all;

__attribute__((constructor(101))) static void construct()
{
	some(constructor_malloc, &constructor_malloc_site, 12);
}

struct static_object {
	static_object() { some(static_malloc, &static_malloc_site, 13); }
	~static_object() { some(static_malloc, &static_malloc_site, 14); }
};
static static_object object;

struct tls_object {
	int used = 0;
	~tls_object() { some(tls_malloc, &tls_malloc_site, 15); }
};
static thread_local tls_object tls;
static pthread_key_t key;

// A key's destructor that sets the key again runs again: three times in all.
static void key_destructor(void *value)
{
	uintptr_t left = (uintptr_t)value;
	some(key_malloc, &key_malloc_site, 16);
	if (left > 1)
		pthread_setspecific(key, (void *)(left - 1));
}

static void *thread_body(void *)
{
	tls.used = 1;
	pthread_setspecific(key, (void *)3);
	some(main_malloc, &main_malloc_site, 17);
	return nullptr;
}

static void at_exit()
{
	some(atexit_malloc, &atexit_malloc_site, 18);
}

__attribute__((destructor(101))) static void destruct()
{
	some(destructor_malloc, &destructor_malloc_site, 19);
	ledger_print("early", 0);
}

int main()
{
	ledger_open("");
	pthread_key_create(&key, key_destructor);
	atexit(at_exit);
	for (int i = 0; i < 10; i++) {
		pthread_t thread;
		check(!pthread_create(&thread, nullptr, thread_body, nullptr), "no thread");
		pthread_join(thread, nullptr);
	}
	tls.used = 1;
	some(main_malloc, &main_malloc_site, 20);
	return 0;
}
