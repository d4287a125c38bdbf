/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of unwind rules, hosted: threads find and add rules while the table
 * is wiped under them, again and again. The modules and their unwind tables are
 * made up: a rule says which address it is of.
 */
#include "agent/rows.h"

#include "agent/intern.h"
#include "harness/tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
	THREADS = 4,
	FINDS = 2000000,   /* of each thread */
	ADDRESSES = 4096,  /* in each generation: soon most rows are of older ones */
	GENERATION = 4000, /* finds of a thread until it begins another one */
	MADE_UP = 0x5,     /* what every module is */
};

struct agent agent;
struct agent_fixed agent_fixed;

bool agent_may_call(void)
{
	return true;
}

void *agent_map(size_t bytes)
{
	void *memory = aligned_alloc(AGENT_PAGE, bytes);
	return memory ? memset(memory, 0, bytes) : NULL;
}

void agent_account(int64_t bytes)
{
	(void)bytes;
}

bool agent_lock(_Atomic uint32_t *lock, int spins)
{
	(void)spins;
	return !atomic_exchange(lock, 1);
}

void agent_unlock(_Atomic uint32_t *lock)
{
	atomic_store(lock, 0);
}

uint32_t modules_generation(const struct modules *modules)
{
	(void)modules;
	return 0;
}

enum modules_result modules_rescan(struct modules *modules, uint32_t tid, bool thorough)
{
	(void)modules;
	(void)tid;
	(void)thorough;
	return MODULES_SAME;
}

enum modules_result modules_rescan_at(struct modules *modules, uint32_t tid, uintptr_t address)
{
	(void)modules;
	(void)tid;
	(void)address;
	return MODULES_SAME;
}

bool modules_find(const struct modules *modules, uintptr_t address, struct module_code *ret)
{
	(void)modules;
	(void)address;
	*ret = (struct module_code){.instance = MADE_UP};
	return true;
}

bool cfi_covers(const struct cfi_image *image, uintptr_t pc)
{
	(void)image;
	(void)pc;
	return false;
}

void cfi_find(const struct cfi_image *image, uintptr_t pc, struct cfi_rule *ret)
{
	(void)image;
	*ret = (struct cfi_rule){.kind = CFI_SP, .cfa_offset = (int32_t)(pc & 0x3fffff)};
}

static uint64_t rule_of(uint64_t pc)
{
	return row_pack(ROW_SP, (int32_t)((pc - 1) & 0x3fffff), 0, MADE_UP);
}

static void *find_and_add(void *arg)
{
	struct lane *lane = calloc(1, sizeof *lane);
	uint64_t random = (uintptr_t)arg, wrong = 0;
	for (int i = 0; lane && i < FINDS; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		uint32_t generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
		uint64_t pc = 0x10001 + 16 * ((random >> 33) % ADDRESSES);
		uint64_t row = rows_find(rows_key(pc, generation));
		if (!row)
			row = rows_derive(lane, pc, generation);
		wrong += row != rule_of(pc);
		if (!(i % GENERATION))
			atomic_fetch_add_explicit(&agent.generation, 1, memory_order_release);
	}
	free(lane);
	return (void *)(uintptr_t)wrong;
}

static uint64_t without_rule(const struct agent_table *table)
{
	uint64_t found = 0;
	for (uint64_t slot = 0; slot <= table->mask; slot++)
		found += atomic_load(&table->entries[2 * slot]) &&
			 !atomic_load(&table->entries[2 * slot + 1]);
	return found;
}

static void wiped_rules_deceive_nobody(void)
{
	pthread_t threads[THREADS];
	REQUIRE(rows_init());
	struct agent_table *table = atomic_load(&agent.rows);
	for (uintptr_t i = 0; i < THREADS; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, find_and_add, (void *)(i + 1)));
	for (int i = 0; i < THREADS; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		CHECK_EQ_U64((uintptr_t)wrong, 0);
	}
	CHECK(atomic_load(&agent.rows) == table); /* it was wiped, never replaced */
	CHECK_EQ_U64(without_rule(table), 0);     /* it would be derived at every event */
	free(table);
}

static const struct tap_case cases[] = {
	{.name = "no stack is followed by the rule of another address",
	 .run = wiped_rules_deceive_nobody},
};
TAP_MAIN(cases)
