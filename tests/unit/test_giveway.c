/* SPDX-License-Identifier: Apache-2.0 */
/* Recording threads give way to the program, and compete where they do not get on. */
#include "collector/giveway.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/tap.h"

#define SECOND 1000000000ull

enum { STEP_US = 1000, STEPS = 20000 };

static struct giveway *new_or_skip(void)
{
	struct giveway *giveway = giveway_new();
	if (!giveway)
		tap_skip("no right to compete again after giving way");
	return giveway;
}

static int policy_of(pthread_t thread)
{
	struct sched_param ignored;
	int policy = -1;
	REQUIRE(!pthread_getschedparam(thread, &policy, &ignored));
	return policy;
}

/* glibc keeps what it was told of its threads: asked is the kernel. */
static int own_policy(void)
{
	return sched_getscheduler(0);
}

static bool comes_to(int policy)
{
	for (int i = 0; i < STEPS && own_policy() != policy; i++)
		usleep(STEP_US);
	return own_policy() == policy;
}

static _Atomic bool other_ends;
static _Atomic int other_policy;

static void *other(void *arg)
{
	(void)arg;
	while (!other_ends) {
		other_policy = own_policy();
		usleep(STEP_US);
	}
	return NULL;
}

static pthread_t start_other(void)
{
	pthread_t thread;
	REQUIRE(!pthread_create(&thread, NULL, other, NULL));
	return thread;
}

static void end_other(pthread_t thread)
{
	other_ends = true;
	pthread_join(thread, NULL);
}

static bool other_comes_to(int policy)
{
	for (int i = 0; i < STEPS && other_policy != policy; i++)
		usleep(STEP_US);
	return other_policy == policy;
}

static void both_give_way(void)
{
	struct giveway *giveway = new_or_skip();
	pthread_t thread = start_other();
	struct giveway_pair pair = {0};
	giveway_join(giveway, &pair, thread, clock_steady_ns() + 1000 * SECOND);
	CHECK_EQ_I64(own_policy(), SCHED_IDLE);
	CHECK_EQ_I64(policy_of(thread), SCHED_IDLE);
	CHECK(other_comes_to(SCHED_IDLE));
	giveway_leave(giveway, &pair);
	CHECK_EQ_I64(own_policy(), SCHED_OTHER);
	CHECK(other_comes_to(SCHED_OTHER));
	giveway_leave(giveway, &pair);
	giveway_hurry(giveway, &pair);
	CHECK_EQ_I64(own_policy(), SCHED_OTHER);
	giveway_free(giveway);
	end_other(thread);
}

static void late_ones_compete(void)
{
	struct giveway *giveway = new_or_skip();
	pthread_t thread = start_other();
	struct giveway_pair pair = {0};
	giveway_join(giveway, &pair, thread, clock_steady_ns() + SECOND / 20);
	CHECK_EQ_I64(own_policy(), SCHED_IDLE);
	CHECK(comes_to(SCHED_OTHER));
	CHECK(other_comes_to(SCHED_OTHER));
	/* It gets on again: gives way again, after a while. */
	giveway_get_on(&pair, clock_steady_ns() + 1000 * SECOND);
	CHECK(comes_to(SCHED_IDLE));
	CHECK(other_comes_to(SCHED_IDLE));
	giveway_leave(giveway, &pair);
	giveway_free(giveway);
	end_other(thread);
}

static void hurried_ones_compete(void)
{
	struct giveway *giveway = new_or_skip();
	struct giveway_pair pair = {0};
	giveway_join(giveway, &pair, pthread_self(), clock_steady_ns() + 1000 * SECOND);
	giveway_hurry(giveway, &pair);
	CHECK_EQ_I64(own_policy(), SCHED_OTHER);
	giveway_leave(giveway, &pair);
	giveway_free(giveway);
}

static bool comes_to_idle_getting_on(struct giveway_pair *pair)
{
	for (int i = 0; i < STEPS && own_policy() != SCHED_IDLE; i++) {
		giveway_get_on(pair, clock_steady_ns() + SECOND / 50);
		usleep(STEP_US);
	}
	return own_policy() == SCHED_IDLE;
}

/* Who is late again at once competes for longer and longer. Where we are stopped for long in
 * between, it is not at once: then all begins anew.
 */
static void lateness_is_remembered(void)
{
	struct giveway *giveway = new_or_skip();
	struct giveway_pair pair = {0};
	uint64_t longest_ns = 0;
	giveway_join(giveway, &pair, pthread_self(), clock_steady_ns() + SECOND / 50);
	for (int i = 0; i < 50 && longest_ns < SECOND / 10; i++) {
		CHECK(comes_to(SCHED_OTHER));
		uint64_t begin_ns = clock_steady_ns();
		CHECK(comes_to_idle_getting_on(&pair));
		uint64_t length_ns = clock_steady_ns() - begin_ns;
		longest_ns = length_ns > longest_ns ? length_ns : longest_ns;
	}
	CHECK(longest_ns >= SECOND / 10);
	giveway_leave(giveway, &pair);
	giveway_free(giveway);
}

/* Who is told again to hurry does not give way in between. */
static void hurry_is_prolonged(void)
{
	struct giveway *giveway = new_or_skip();
	struct giveway_pair pair = {0};
	giveway_join(giveway, &pair, pthread_self(), clock_steady_ns() + 1000 * SECOND);
	giveway_hurry(giveway, &pair);
	uint64_t until_ns = pair.until_ns;
	usleep(STEP_US);
	giveway_hurry(giveway, &pair);
	CHECK(pair.until_ns > until_ns);
	CHECK_EQ_I64(own_policy(), SCHED_OTHER);
	CHECK(!giveway_gives_way(&pair));
	CHECK(comes_to(SCHED_IDLE));
	CHECK(giveway_gives_way(&pair));
	giveway_leave(giveway, &pair);
	CHECK(!giveway_gives_way(&pair));
	giveway_free(giveway);
}

struct errand_seen {
	struct giveway *giveway;
	struct giveway_pair *pair;
	pthread_t thread;
	int policies[2]; /* at its begin, and after it was late */
};

static void see_errand(void *ctx)
{
	struct errand_seen *seen = ctx;
	seen->thread = pthread_self();
	seen->policies[0] = own_policy();
	if (seen->giveway)
		giveway_hurry(seen->giveway, seen->pair);
	comes_to(SCHED_OTHER);
	seen->policies[1] = own_policy();
}

/* Work in a thread of its own gives way like the pair, and competes when that does. */
static void work_apart_belongs_to_the_pair(void)
{
	struct giveway *giveway = new_or_skip();
	struct giveway_pair pair = {0};
	struct errand_seen seen = {.giveway = giveway, .pair = &pair};
	giveway_join(giveway, &pair, pthread_self(), clock_steady_ns() + 1000 * SECOND);
	giveway_apart(&pair, see_errand, &seen);
	CHECK(!pthread_equal(seen.thread, pthread_self()));
	CHECK_EQ_I64(seen.policies[0], SCHED_IDLE);
	CHECK_EQ_I64(seen.policies[1], SCHED_OTHER);
	CHECK(!pair.has_apart);
	giveway_leave(giveway, &pair);
	giveway_free(giveway);
}

static void count_errand(void *ctx)
{
	++*(unsigned *)ctx;
}

/* The minder lifts at any moment: no thread that has ended may be touched (sanitizers look). */
static void apart_and_lifted_at_once(void)
{
	struct giveway *giveway = new_or_skip();
	struct giveway_pair pair = {0};
	unsigned done = 0;
	giveway_join(giveway, &pair, pthread_self(), 0); /* late from the start */
	for (int i = 0; i < 2000; i++)
		giveway_apart(&pair, count_errand, &done);
	CHECK_EQ_U64(done, 2000);
	giveway_leave(giveway, &pair);
	giveway_free(giveway);
}

struct third {
	struct giveway *giveway;
	struct giveway_pair *pair;
	_Atomic bool joined, leaves;
	int policies[2]; /* in it, and when it left */
};

static void *be_third(void *arg)
{
	struct third *third = arg;
	giveway_also(third->giveway, third->pair);
	third->policies[0] = own_policy();
	third->joined = true;
	while (!third->leaves)
		usleep(STEP_US);
	giveway_no_more(third->giveway, third->pair);
	third->policies[1] = own_policy();
	return NULL;
}

static void a_third_gives_way_too(void)
{
	struct giveway *giveway = new_or_skip();
	struct giveway_pair pair = {0};
	struct third third = {.giveway = giveway, .pair = &pair};
	pthread_t thread;
	giveway_join(giveway, &pair, pthread_self(), clock_steady_ns() + 1000 * SECOND);
	/* A new thread is as its maker is. */
	REQUIRE(!pthread_create(&thread, NULL, be_third, &third));
	for (int i = 0; i < STEPS && !third.joined; i++)
		usleep(STEP_US);
	CHECK(third.joined);
	giveway_hurry(giveway, &pair);
	CHECK_EQ_I64(policy_of(thread), SCHED_OTHER);
	third.leaves = true;
	pthread_join(thread, NULL);
	CHECK_EQ_I64(third.policies[0], SCHED_IDLE);
	CHECK_EQ_I64(third.policies[1], SCHED_OTHER);
	giveway_leave(giveway, &pair);
	giveway_free(giveway);
}

static void *without_right(void *arg)
{
	struct giveway_pair pair = {0};
	(void)arg;
	giveway_join(NULL, &pair, pthread_self(), 0);
	giveway_hurry(NULL, &pair);
	CHECK_EQ_I64(own_policy(), SCHED_OTHER);
	giveway_leave(NULL, &pair);
	giveway_also(NULL, &pair);
	giveway_no_more(NULL, &pair);
	CHECK(!giveway_gives_way(&pair));
	unsigned done = 0;
	giveway_apart(&pair, count_errand, &done);
	CHECK_EQ_U64(done, 1);
	CHECK_EQ_I64(own_policy(), SCHED_OTHER);
	CHECK(!giveway_free(NULL));
	return NULL;
}

static void nobody_without_the_right(void)
{
	if (geteuid() == 0 && setuid(65534))
		tap_skip("root cannot become another user");
	/* With the capability or the limit left to it, it may. */
	struct giveway *giveway = giveway_new();
	CHECK_EQ_I64(own_policy(), SCHED_OTHER);
	giveway_free(giveway);
	without_right(NULL);
}

static const struct tap_case cases[] = {
	{.name = "recording takes the processor from the program's partner", .run = both_give_way},
	{.name = "a starved recorder makes the program wait for good", .run = late_ones_compete},
	{.name = "a snapshot before the memory ends comes late", .run = hurried_ones_compete},
	{.name = "a crowded machine starves the recorder again and again",
	 .run = lateness_is_remembered},
	{.name = "a busy program waits for a recorder on its own processor",
	 .run = hurry_is_prolonged},
	{.name = "a pass in a thread of its own is starved, or takes the partner's processor",
	 .run = work_apart_belongs_to_the_pair},
	{.name = "the recorder touches a thread that has ended", .run = apart_and_lifted_at_once},
	{.name = "looking at the program's memory takes the partner's processor",
	 .run = a_third_gives_way_too},
	{.name = "without the right to come back a recorder is stuck below all others",
	 .run = nobody_without_the_right},
};

TAP_MAIN(cases)
