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

/* Who is late each time competes for longer and longer. */
static void lateness_is_remembered(void)
{
	struct giveway *giveway = new_or_skip();
	struct giveway_pair pair = {0};
	uint64_t first_ns = 0, third_ns = 0;
	giveway_join(giveway, &pair, pthread_self(), clock_steady_ns() + 1000 * SECOND);
	for (int i = 0; i < 3; i++) {
		giveway_hurry(giveway, &pair);
		uint64_t begin_ns = clock_steady_ns();
		CHECK(comes_to(SCHED_IDLE));
		third_ns = clock_steady_ns() - begin_ns;
		first_ns = i ? first_ns : third_ns;
	}
	CHECK(third_ns > first_ns);
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
	{.name = "without the right to come back a recorder is stuck below all others",
	 .run = nobody_without_the_right},
};

TAP_MAIN(cases)
