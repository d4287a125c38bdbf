/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A realloc that fails, and a block that changes hands right after: one thread
 * makes blocks and asks for too much of each, two others free them at once and
 * make their own in the same place.
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>
#include <sched.h>

LEDGER_SITE(hand_over);
LEDGER_SITE(take_place);

enum { TAKERS = 2, ROUNDS = 30000, SPINS = 200, BYTES = 2000 };
static void *handed;
static int over;

SITE void *hand_over(size_t bytes)
{
	void *block = ledger_alloc(&hand_over_site, malloc(bytes), bytes);
	void *larger = realloc(block, (size_t)1 << 62);
	KEEP(larger);
	check(block && !larger, "that much memory is not to be had");
	ledger_realloc(&hand_over_site, bytes, &hand_over_site, larger, 0);
	return block;
}

SITE void take_place(void *old)
{
	ledger_free(&hand_over_site, old, BYTES);
	free(old);
	void *block = ledger_alloc(&take_place_site, malloc(BYTES), BYTES);
	KEEP(block);
	ledger_free(&take_place_site, block, BYTES);
	free(block);
}

/* Who we wait for may have no processor. */
static void wait_a_little(unsigned *spins)
{
	if (++*spins % SPINS == 0)
		sched_yield();
}

static void *taker(void *none)
{
	unsigned spins = 0;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		void *block = __atomic_load_n(&handed, __ATOMIC_RELAXED)
				      ? __atomic_exchange_n(&handed, NULL, __ATOMIC_ACQ_REL)
				      : NULL;
		if (block)
			take_place(block);
		else
			wait_a_little(&spins);
	}
	return none;
}

static void await_taken(void)
{
	unsigned spins = 0;
	while (__atomic_load_n(&handed, __ATOMIC_ACQUIRE))
		wait_a_little(&spins);
}

int main(void)
{
	pthread_t takers[TAKERS];
	ledger_open("");
	for (int i = 0; i < TAKERS; i++)
		check(!pthread_create(&takers[i], NULL, taker, NULL), "no thread");
	for (int i = 0; i < ROUNDS; i++) {
		void *block = hand_over(BYTES);
		await_taken();
		__atomic_store_n(&handed, block, __ATOMIC_RELEASE);
	}
	await_taken();
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	ledger_print("undone", 0);
	return 0;
}
