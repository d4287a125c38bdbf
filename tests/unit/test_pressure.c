/* SPDX-License-Identifier: Apache-2.0 */
/* When a snapshot is taken and when the recorder shrinks: figures in, verdicts out. */
#include "collector/pressure.h"
#include "harness/tap.h"

#define MS  1000000ull
#define MIB (1ull << 20)

/* The program's group, of 1000 MiB, has so many; the recorder is another one's. */
static struct pressure_verdict group_at(struct pressure *p, uint64_t now_ms, uint64_t used_mib)
{
	struct pressure_verdict verdict;
	pressure_judge(p,
		       &(struct pressure_look){.now_ns = now_ms * MS,
					       .program = {.limit_bytes = 1000 * MIB,
							   .used_bytes = used_mib * MIB}},
		       &verdict);
	return verdict;
}

static void snapshot_once_per_level(void)
{
	struct pressure p = {0};
	CHECK(!group_at(&p, 1000, 500).snapshot);
	CHECK(!group_at(&p, 1100, 899).snapshot);
	CHECK(group_at(&p, 1200, 901).snapshot);
	CHECK(!group_at(&p, 1300, 940).snapshot);
	CHECK(group_at(&p, 1400, 999).snapshot); /* two levels in one step */
	CHECK(!group_at(&p, 1500, 1000).snapshot);
	CHECK(!group_at(&p, 1600, 860).snapshot); /* not well yet */
	CHECK(!group_at(&p, 1700, 910).snapshot);
	CHECK(!group_at(&p, 1800, 800).snapshot);
	CHECK(group_at(&p, 1900, 910).snapshot); /* anew */
}

/* At its limit for days: a snapshot each time it was met, but not all the time. */
static void snapshot_when_met(void)
{
	struct pressure p = {0};
	struct pressure_verdict verdict;
	unsigned snapshots = 0;
	for (uint64_t second = 1; second <= 100; second++) {
		pressure_judge(&p,
			       &(struct pressure_look){.now_ns = second * 1000 * MS,
						       .program = {.limit_bytes = 1000 * MIB,
								   .used_bytes = 990 * MIB,
								   .hits = second}},
			       &verdict);
		snapshots += verdict.snapshot;
	}
	CHECK_EQ_U64(snapshots, 10);
	/* Met because of file pages only, which the kernel drops: nothing to fear. */
	pressure_judge(&p,
		       &(struct pressure_look){.now_ns = 999000 * MS,
					       .program = {.limit_bytes = 1000 * MIB,
							   .used_bytes = 100 * MIB,
							   .hits = 5000}},
		       &verdict);
	CHECK(!verdict.snapshot);
}

static void looks_sooner_when_it_grows(void)
{
	struct pressure p = {0};
	CHECK_EQ_U64(group_at(&p, 1000, 100).again_ns, 100 * MS);
	CHECK_EQ_U64(group_at(&p, 1100, 100).again_ns, 100 * MS);
	/* 1 MiB per ms, 700 to go: 175 ms would do, 100 is the most. */
	CHECK_EQ_U64(group_at(&p, 1200, 200).again_ns, 100 * MS);
	uint64_t again = group_at(&p, 1300, 700).again_ns; /* 5 per ms, 200 to go */
	CHECK(again > 9 * MS && again < 11 * MS);
	CHECK_EQ_U64(group_at(&p, 1301, 899).again_ns, 2 * MS);
	struct pressure none = {0};
	struct pressure_verdict verdict;
	pressure_judge(&none, &(struct pressure_look){.now_ns = MS}, &verdict);
	CHECK_EQ_U64(verdict.again_ns, 1000 * MS);
	CHECK(!verdict.snapshot && !verdict.shrink);
}

static struct pressure_verdict own_at(struct pressure *p, uint64_t now_ms, uint64_t own_mib,
				      uint64_t group_mib)
{
	struct pressure_verdict verdict;
	pressure_judge(p,
		       &(struct pressure_look){
			       .now_ns = now_ms * MS,
			       .own_bytes = own_mib * MIB,
			       .own = {.limit_bytes = 1000 * MIB, .used_bytes = group_mib * MIB}},
		       &verdict);
	return verdict;
}

static void shrinks_step_by_step(void)
{
	struct pressure p = {.max_bytes = 100 * MIB};
	CHECK(!own_at(&p, 1000, 84, 0).shrink);
	CHECK(own_at(&p, 1100, 86, 0).shrink);
	CHECK(!own_at(&p, 1200, 86, 0).shrink); /* the step has not shown yet */
	struct pressure_verdict verdict = own_at(&p, 1300, 86, 0);
	CHECK(verdict.shrink && verdict.deep);
	CHECK(own_at(&p, 1310, 101, 0).shrink); /* over it: at once */
	CHECK(!own_at(&p, 2000, 50, 0).shrink);
	/* 10 MiB in 100 ms, 25 to go: in 62 ms. */
	uint64_t again = own_at(&p, 2100, 60, 0).again_ns;
	CHECK(again > 60 * MS && again < 65 * MS);
}

/* The container is full of the program: the recorder's few megabytes are not worth exactness. */
static void shrinks_for_the_group(void)
{
	struct pressure p = {0};
	CHECK(!own_at(&p, 1000, 20, 890).shrink);
	struct pressure_verdict verdict = own_at(&p, 2000, 20, 910);
	CHECK(verdict.shrink && !verdict.deep);
	verdict = own_at(&p, 2600, 240, 910);
	CHECK(verdict.shrink && !verdict.deep);
	verdict = own_at(&p, 3000, 260, 910);
	CHECK(verdict.shrink && verdict.deep);
}

static const struct tap_case cases[] = {
	{.name = "what holds the memory is on disk before the kernel kills",
	 .run = snapshot_once_per_level},
	{.name = "a container at its limit is not written to death", .run = snapshot_when_met},
	{.name = "a fast growth is seen in time", .run = looks_sooner_when_it_grows},
	{.name = "--max-memory is kept", .run = shrinks_step_by_step},
	{.name = "the container's limit is respected, and exactness kept",
	 .run = shrinks_for_the_group},
};
TAP_MAIN(cases)
