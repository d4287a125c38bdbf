/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a lane is, hosted, with threads that come and go. Not for TSan: that what
 * a thread wrote is seen by who has heard of its end from the kernel, it does not
 * know.
 */
#include "agent/lane.h"

#include "agent/emit.h"
#include "harness/tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK = 64 << 10, AT_ONCE = 8, CHURN = 20000, STREAMS = 1024, FEW_STREAMS = 4 };

struct agent agent;
struct agent_fixed agent_fixed;
static _Atomic bool may_call = true;
static _Atomic unsigned lanes_made, looks;
static struct wire_control control;
static struct wire_stream streams[STREAMS];

/* ---- what the table needs of the rest of the agent ---- */

void *arena_take(size_t bytes)
{
	atomic_fetch_add(&lanes_made, 1);
	return calloc(1, bytes);
}

void arena_give(void *memory, size_t bytes)
{
	(void)bytes;
	free(memory);
}

bool agent_may_call(void)
{
	atomic_fetch_add(&looks, 1);
	return may_call;
}

void agent_break_locks(void)
{
}

void modules_break_lock(struct modules *modules, uint32_t tid)
{
	(void)modules;
	(void)tid;
}

void emit_extra(struct lane *lane, enum wire_extra kind, const uint64_t *payload, uint32_t words)
{
	(void)lane;
	(void)kind;
	(void)payload;
	(void)words;
}

void emit_repair(struct lane *lane)
{
	(void)lane;
}

/* The table reads them; nothing else does. */
static void begin(uint32_t stream_count)
{
	uint32_t own = (uint32_t)getpid();
	agent.map = (struct wire_map){
		.control = &control, .streams = streams, .stream_count = stream_count};
	agent.slots = calloc(AGENT_SLOTS, sizeof *agent.slots);
	agent_fixed.pid = own;
	REQUIRE(agent.slots);
	while (agent.tid_offset < AGENT_PAGE &&
	       *(uint32_t *)(thread_pointer() + agent.tid_offset) != own)
		agent.tid_offset += 4;
	REQUIRE(agent.tid_offset < AGENT_PAGE);
	REQUIRE(lane_adopt(thread_pointer()) == agent.first_lane);
}

static pthread_t start(void *(*run)(void *), void *argument, void *stack)
{
	pthread_t thread;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	if (stack)
		REQUIRE(!pthread_attr_setstack(&attributes, stack, STACK));
	REQUIRE(!pthread_create(&thread, &attributes, run, argument));
	pthread_attr_destroy(&attributes);
	return thread;
}

/* Nobody else writes into a lane that is this thread's. */
static void *use_lane(void *argument)
{
	uint64_t own = (uintptr_t)argument;
	for (int i = 0; i < 20; i++) {
		struct lane *lane = lane_of_caller();
		if (!lane)
			lane = lane_adopt(thread_pointer());
		if (!lane || lane->tid != (uint32_t)gettid())
			return NULL;
		if (i && lane->random != own)
			return NULL;
		lane->random = own;
	}
	return argument;
}

/* `pointers` stacks are used in turn, and with them as many thread pointers. */
static void churn(uintptr_t pointers)
{
	pthread_t threads[AT_ONCE];
	char *stacks = mmap(NULL, pointers * STACK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	REQUIRE(stacks != MAP_FAILED);
	begin(STREAMS);
	for (uintptr_t i = 0; i < CHURN + AT_ONCE; i++) {
		void *result = (void *)1;
		if (i >= AT_ONCE)
			REQUIRE(!pthread_join(threads[i % AT_ONCE], &result) && result);
		if (i < CHURN)
			threads[i % AT_ONCE] =
				start(use_lane, (void *)(i + 1), stacks + i % pointers * STACK);
	}
	munmap(stacks, pointers * STACK);
	CHECK_EQ_U64(atomic_load(&control.lost), 0);
}

static void new_pointers(void)
{
	churn(CHURN);
	CHECK(lanes_made < 8 * AT_ONCE);
	CHECK(atomic_load(&control.streams_high) < 8 * AT_ONCE);
}

/* A new thread comes back to its pointer's lane while others look for one. */
static void pointers_again(void)
{
	churn(3 * AT_ONCE);
}

static pthread_barrier_t all_there, go_home;

static void *live(void *argument)
{
	struct lane **ret_lane = argument;
	*ret_lane = lane_adopt(thread_pointer());
	pthread_barrier_wait(&all_there);
	pthread_barrier_wait(&go_home);
	return NULL;
}

static void too_many(void)
{
	pthread_t threads[AT_ONCE];
	struct lane *lanes[AT_ONCE], *later = NULL;
	unsigned with_lane = 0;
	begin(FEW_STREAMS);
	pthread_barrier_init(&all_there, NULL, AT_ONCE + 1);
	pthread_barrier_init(&go_home, NULL, AT_ONCE + 1);
	for (int i = 0; i < AT_ONCE; i++)
		threads[i] = start(live, &lanes[i], NULL);
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < AT_ONCE; i++)
		with_lane += lanes[i] != NULL;
	CHECK_EQ_U64(with_lane, FEW_STREAMS - 1); /* the first thread has one */
	CHECK_EQ_U64(atomic_load(&control.lost), AT_ONCE - with_lane);
	pthread_barrier_wait(&go_home);
	for (int i = 0; i < AT_ONCE; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_init(&all_there, NULL, 1);
	pthread_barrier_init(&go_home, NULL, 1);
	unsigned tries = 0;
	while (!later && tries++ < 2000)
		pthread_join(start(live, &later, NULL), NULL);
	CHECK(later != NULL);
	CHECK_EQ_U64(atomic_load(&control.lost), AT_ONCE - with_lane + tries - 1);
}

static void *call_often(void *argument)
{
	for (unsigned i = 0; i < 1000; i++)
		if (lane_adopt(thread_pointer()))
			return NULL;
	return argument;
}

/* The thread that cannot have a stream neither looks through all of them nor asks the kernel. */
static void refused_cheaply(void)
{
	begin(1);
	pthread_join(start(call_often, streams, NULL), NULL);
	looks = 0;
	void *result = NULL;
	pthread_join(start(call_often, streams, NULL), &result);
	CHECK(result == streams);
	CHECK_EQ_U64(atomic_load(&control.lost), 2000);
	CHECK(looks < 100);
	CHECK(lanes_made < 8);
}

/* Likewise one whose thread pointer has a lane, the stream of which has been given away. */
static void refused_stream(void)
{
	struct lane *lane = NULL;
	void *result = NULL;
	begin(2);
	pthread_barrier_init(&all_there, NULL, 1);
	pthread_barrier_init(&go_home, NULL, 1);
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(stack != MAP_FAILED);
	pthread_join(start(live, &lane, stack), NULL);
	REQUIRE(lane);
	atomic_store(&lane->stream->state, WIRE_STREAM_CLOSED);
	pthread_join(start(call_often, streams, stack), &result);
	CHECK(result == streams);
	CHECK_EQ_U64(atomic_load(&control.lost), 1000);
	CHECK(looks < 100);
	atomic_store(&lane->stream->state, WIRE_STREAM_GONE);
	pthread_join(start(call_often, streams, stack), &result);
	CHECK(!result);
}

/* Where no call may be made only the collector knows who has ended. */
static void without_calls(void)
{
	struct lane *lane = NULL, *other = NULL;
	begin(STREAMS);
	pthread_barrier_init(&all_there, NULL, 1);
	pthread_barrier_init(&go_home, NULL, 1);
	char *stacks =
		mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(stacks != MAP_FAILED);
	pthread_join(start(live, &lane, stacks), NULL);
	REQUIRE(lane);
	may_call = false;
	pthread_join(start(live, &other, stacks + STACK), NULL);
	CHECK(other && other != lane);
	atomic_store(&lane->stream->state, WIRE_STREAM_GONE);
	pthread_join(start(live, &other, stacks + 2 * STACK), NULL);
	CHECK(other == lane);
}

static const struct tap_case cases[] = {
	{.name = "threads that have ended make room for those with new pointers",
	 .run = new_pointers},
	{.name = "a lane has one owner, when pointers come back, too", .run = pointers_again},
	{.name = "threads that find no room are counted, until there is some", .run = too_many},
	{.name = "each call of a thread without room costs little", .run = refused_cheaply},
	{.name = "nor does one whose stream was given away", .run = refused_stream},
	{.name = "without calls a lane is left alone until its stream is gone",
	 .run = without_calls},
};
TAP_MAIN(cases)
