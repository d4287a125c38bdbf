/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks born in pauses: a random history against a plain array that counts. */
#include "collector/paused.h"
#include "harness/tap.h"

enum { ADDRESSES = 3000, STEPS = 200000 };

static uint64_t address_of(unsigned i)
{
	return 0x7f0000000010ull + (uint64_t)i * 16;
}

static void ends_are_known(void)
{
	static unsigned counts[ADDRESSES];
	struct paused paused = {0};
	uint64_t random = 88172645463325252ull, births = 0, frees = 0;
	CHECK(!paused_ended(&paused, address_of(0)));
	for (unsigned i = 0; i < STEPS; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		/* More births than ends at first, so that it grows; then it empties. */
		unsigned at = (unsigned)(random >> 20) % ADDRESSES;
		if (random % 100 < (i < STEPS / 2 ? 60u : 30u)) {
			REQUIRE(paused_born(&paused, address_of(at)) == 0);
			counts[at]++;
			births++;
		} else {
			bool known = paused_ended(&paused, address_of(at));
			if (!CHECK(known == (counts[at] > 0)))
				break;
			counts[at] -= known;
			frees += known;
		}
	}
	CHECK_EQ_U64(paused.births, births);
	CHECK_EQ_U64(paused.frees, frees);
	for (unsigned i = 0; i < ADDRESSES; i++)
		for (; counts[i]; counts[i]--)
			CHECK(paused_ended(&paused, address_of(i)));
	CHECK_EQ_U64(paused.used, 0);
	paused_done(&paused);
}

static const struct tap_case cases[] = {
	{.name = "the free of a block born in a pause is a mystery", .run = ends_are_known},
};

TAP_MAIN(cases)
