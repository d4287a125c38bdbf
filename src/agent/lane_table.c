/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a lane over: the stream goes on under the new thread's name
 * (WIRE_EV_THREAD). The collector marks streams of vanished threads
 * WIRE_STREAM_GONE where they are scarce: then the lane's chunk is no longer the
 * lane's, and the stream record may be claimed by anybody.
 *
 * lane.owner is the lock: who changes it has the lane. All of this may be
 * interrupted by a signal handler of the same thread that does it, too, and
 * done by several threads at once:
 *
 *   owner      a thread's id, known to the kernel; when it is not any more, a
 *              thread that is new in the table makes it LANE_MOVING
 *   slot       then its slot is given back: the lane first, the key after, so
 *              that who finds the key spent finds no lane
 *   new slot   is claimed by its key, and found by the new owner when the lane
 *              is in it: last of all
 *
 * A new thread may have the dead one's thread pointer, and find its lane while
 * another takes that: one of them changes lane.owner, and the other goes on
 * looking. A thread that is interrupted while it does this, by a handler that
 * allocates, may come to have two lanes, of which it uses the first one found.
 * One that a handler tears out of it leaves a lane that nobody gets.
 */
#include "agent/lane_table.h"

#include <linux/prctl.h>

#include "agent/emit.h"
#include "agent/lane.h"
#include "agent/memory_ops.h"
#include "agent/sys.h"
#include "agent/unwind.h"

enum {
	LANE_FREE = 0,       /* lane.owner */
	LANE_MOVING = -1,    /* is being taken over by somebody */
	LANE_UNTOLD = -2,    /* by whom, the kernel cannot be asked */
	LANE_LOOKS = 8,      /* at lanes, before one more is made */
	NO_SUCH_PROCESS = 3, /* ESRCH */
	NO_SLOT = UINT32_MAX,
	/* Looking through all streams takes as long as so many events. */
	DROUGHT_CALLS = 1024,
};

/* ---- streams ---- */

static uint64_t next_serial(void)
{
	return atomic_fetch_add(&agent.map.control->thread_serial, 1) + 1;
}

static bool claim(uint32_t index)
{
	_Atomic uint32_t *of = &agent.map.streams[index].state;
	uint32_t state = atomic_load(of);
	return (state == WIRE_STREAM_FREE || state == WIRE_STREAM_GONE) &&
	       atomic_compare_exchange_strong(of, &state, WIRE_STREAM_CLOSED);
}

/*
 * A stream record nobody uses; index, or UINT32_MAX. One that was just added to
 * those in use is there for all who look: whoever claims it first has it.
 */
static uint32_t claim_stream(void)
{
	_Atomic uint32_t *high = &agent.map.control->streams_high;
	uint32_t used = atomic_load(high);
	if (used > agent.map.stream_count)
		used = agent.map.stream_count;
	for (uint32_t i = 0; i < used; i++)
		if (claim(i))
			return i;
	for (;;) {
		uint32_t fresh = atomic_fetch_add(high, 1);
		if (fresh >= agent.map.stream_count) {
			atomic_store(high, agent.map.stream_count);
			return UINT32_MAX;
		}
		if (claim(fresh))
			return fresh;
	}
}

/* There was no room for a thread a short while ago: each of its calls would look again. */
static bool is_drought(void)
{
	uint32_t left = atomic_load_explicit(&agent.drought, memory_order_relaxed);
	if (left)
		atomic_store_explicit(&agent.drought, left - 1, memory_order_relaxed);
	return left;
}

static void begin_drought(void)
{
	atomic_store_explicit(&agent.drought, DROUGHT_CALLS, memory_order_relaxed);
}

static bool open_stream(struct lane *lane, uint32_t tid)
{
	if (is_drought())
		return false;
	uint32_t index = claim_stream();
	if (index == UINT32_MAX) {
		begin_drought();
		return false;
	}
	struct wire_stream *stream = &agent.map.streams[index];
	atomic_store(&stream->tid, tid);
	atomic_store(&stream->first_tid, tid);
	atomic_store(&stream->lane, lane->number);
	lane->serial = next_serial();
	atomic_store(&stream->serial, lane->serial);
	atomic_store(&stream->head, WIRE_NONE);
	atomic_store(&stream->busy, 0);
	atomic_store(&stream->revoke, 0);
	lane->stream = stream;
	lane->stream_index = index;
	lane->chunk = NULL;
	lane->pending = WIRE_NONE;
	lane->cursor = lane->limit = NULL;
	compiler_barrier(); /* is_given_up() */
	lane->tid = tid;
	/* Pairs with the collector's acquire load of state. */
	atomic_store_explicit(&stream->state, WIRE_STREAM_ACTIVE, memory_order_release);
	return true;
}

static void emit_thread_name(struct lane *lane)
{
	char name[16] __attribute__((aligned(8))) = {0};
	if (agent_may_call() && !sys_failed(sys_prctl(PR_GET_NAME, (unsigned long)name, 0, 0))) {
		uint64_t payload[2];
		memcpy(payload, name, sizeof payload);
		emit_extra(lane, WIRE_EV_THREAD_NAME, payload, 2);
	}
}

/* ---- lanes ---- */

struct lane *lane_make(uint32_t number)
{
	struct lane *lane = arena_take(sizeof *lane);
	if (!lane)
		return NULL;
	lane->number = number;
	lane->count = &lane->own_count;
	lane->stream = &agent.nobody;
	atomic_store_explicit(&lane->owner, (uint32_t)LANE_MOVING, memory_order_relaxed);
	return lane;
}

static void enlist(struct lane *lane)
{
	lane->next = atomic_load_explicit(&agent.lanes, memory_order_relaxed);
	/* Pairs with the acquire loads where the list is followed. */
	while (!atomic_compare_exchange_weak_explicit(&agent.lanes, &lane->next, lane,
						      memory_order_release, memory_order_relaxed))
		continue;
}

bool lane_take_over(struct lane *lane, uint32_t tid)
{
	lane->agent_sp = lane->real_sp = 0;
	lane->open_realloc = false;
	lane->open_site = NULL;
	lane->own_low = lane->own_end = 0;
	memset(lane->labels, 0, sizeof lane->labels);
	lane->labelled = 0;
	unwind_forget(lane);
	uint32_t active = WIRE_STREAM_ACTIVE;
	/* Against the collector, which sets GONE when the old thread has vanished. */
	if (atomic_load(&lane->stream->serial) != lane->serial ||
	    !atomic_compare_exchange_strong(&lane->stream->state, &active, WIRE_STREAM_CLOSED)) {
		if (!open_stream(lane, tid))
			return false;
		emit_repair(lane);
		if (!lane->number)
			emit_thread_name(lane);
		return true;
	}
	lane->tid = tid;
	atomic_store(&lane->stream->tid, tid);
	emit_repair(lane);
	atomic_store_explicit(&lane->stream->state, WIRE_STREAM_ACTIVE, memory_order_release);
	uint64_t payload[2] = {tid, next_serial()};
	emit_extra(lane, WIRE_EV_THREAD, payload, 2);
	emit_thread_name(lane);
	return true;
}

static void renew(struct lane *lane)
{
	lane->tid = (uint32_t)LANE_NOBODY;
	lane->serial = 0;
	lane->taken = lane->pending = WIRE_NONE;
	lane->waiting = false;
	*lane->count =
		(struct agent_count){0}; /* a gate that is closed is 0, too: nothing is left */
	lane->random = 0;
	lane->stream = &agent.nobody;
	lane->limit = NULL; /* no room; what an old cursor points to is still mapped */
}

void lanes_renew(void)
{
	struct lane *lane = atomic_load_explicit(&agent.lanes, memory_order_acquire);
	for (; lane; lane = lane->next) {
		renew(lane);
		if (lane->signal_lane)
			renew(lane->signal_lane);
	}
	atomic_store_explicit(&agent.drought, 0, memory_order_relaxed);
}

/* ---- lanes of threads that have ended ---- */

/*
 * Where the kernel is not to be asked: the collector has seen that the thread is
 * gone, and given its stream away. A thread without a thread pointer of its own,
 * or of a process that shares the memory, it does not see.
 */
static bool is_given_up(const struct lane *lane, uint32_t owner)
{
	if (atomic_load_explicit(&agent.shared_tls, memory_order_relaxed) ||
	    *(const volatile uint32_t *)&lane->tid != owner)
		return false;
	compiler_barrier(); /* open_stream() sets it last */
	const struct wire_stream *stream = *(struct wire_stream *const volatile *)&lane->stream;
	return atomic_load(&stream->serial) != *(const volatile uint64_t *)&lane->serial ||
	       atomic_load(&stream->state) == WIRE_STREAM_GONE;
}

/*
 * Its id may come to be another's before the lane is taken: not within the time
 * in which all ids of the machine are used up. What it left half written in our
 * own code is not to be used by a thread with another stack.
 */
static bool is_dead(const struct lane *lane, uint32_t owner)
{
	if (owner == (uint32_t)LANE_MOVING || owner == (uint32_t)LANE_UNTOLD)
		return false;
	if (agent_may_call() ? sys_tgkill((int)agent_fixed.pid, (int)owner, 0) != -NO_SUCH_PROCESS
			     : !is_given_up(lane, owner))
		return false;
	return !lane->agent_sp && !(lane->signal_lane && lane->signal_lane->agent_sp);
}

static void leave_slot(uint32_t slot)
{
	atomic_store_explicit(&agent.slots[slot].lane, NULL, memory_order_relaxed);
	/* Pairs with the acquire in reserve(). */
	atomic_store_explicit(&agent.slots[slot].key, LANE_SPENT_KEY, memory_order_release);
}

static bool claim_lane(struct lane *lane, uint32_t owner)
{
	return atomic_compare_exchange_strong(&lane->owner, &owner, (uint32_t)LANE_MOVING);
}

/* The lane of a thread that has ended, ours now and in no slot; NULL: none was come upon. One that
 * is free has no stream, and is the second choice. */
static struct lane *find_spare(void)
{
	struct lane *begun = NULL;
	struct lane *spare = atomic_load_explicit(&agent.spare, memory_order_acquire);
	for (int i = 0; i < LANE_LOOKS; i++) {
		struct lane *lane = atomic_load_explicit(&agent.hand, memory_order_acquire);
		if (!lane)
			lane = atomic_load_explicit(&agent.lanes, memory_order_acquire);
		if (!lane || lane == begun)
			break;
		begun = begun ? begun : lane;
		/* Two threads that look at once may turn it back: no harm. */
		atomic_store_explicit(&agent.hand, lane->next, memory_order_release);
		uint32_t owner = atomic_load(&lane->owner);
		if (owner == LANE_FREE) {
			spare = lane;
		} else if (lane != agent.first_lane && is_dead(lane, owner) &&
			   claim_lane(lane, owner)) {
			leave_slot(lane->slot);
			return lane;
		}
	}
	return spare && claim_lane(spare, LANE_FREE) ? spare : NULL;
}

static void give_spare(struct lane *lane)
{
	atomic_store(&lane->owner, LANE_FREE);
	atomic_store_explicit(&agent.spare, lane, memory_order_release);
}

/* ---- who calls ---- */

static uint32_t own_tid(uintptr_t thread)
{
	if (!atomic_load_explicit(&agent.shared_tls, memory_order_relaxed))
		return thread_id_now(thread);
	return agent_may_call() ? (uint32_t)sys_gettid() : 1;
}

/* What lane.owner is to be: a child of vfork, say, has the thread pointer of its parent. */
static uint32_t owner_of(uint32_t tid)
{
	bool is_told = agent_may_call() && (uint32_t)sys_gettid() == tid &&
		       (uint32_t)sys_getpid() == agent_fixed.pid;
	return is_told ? tid : (uint32_t)LANE_UNTOLD;
}

/* A slot with this key, in which no lane is yet. */
static uint32_t reserve(uintptr_t thread)
{
	uint32_t slot = slot_of(thread);
	for (uint32_t probes = 0; probes < LANE_PROBES; probes++) {
		_Atomic uintptr_t *key = &agent.slots[slot].key;
		uintptr_t have = atomic_load_explicit(key, memory_order_acquire);
		if ((have == 0 || have == LANE_SPENT_KEY) &&
		    atomic_compare_exchange_strong(key, &have, thread))
			return slot;
		slot = (slot + 1) & (AGENT_SLOTS - 1);
	}
	begin_drought();
	return NO_SLOT;
}

/* Never silently: what comes of a thread that finds no room. */
static struct lane *refuse(void)
{
	atomic_fetch_add(&agent.map.control->lost, 1);
	return NULL;
}

static struct lane *make_listed(void)
{
	struct lane *lane = lane_make(0);
	if (lane)
		enlist(lane);
	return lane;
}

static struct lane *insert(uintptr_t thread, uint32_t tid)
{
	if (is_drought())
		return refuse();
	struct lane *lane = find_spare();
	if (!lane)
		lane = make_listed();
	uint32_t slot = lane ? reserve(thread) : NO_SLOT;
	if (slot == NO_SLOT || !lane_take_over(lane, tid)) {
		if (slot != NO_SLOT)
			leave_slot(slot);
		if (lane)
			give_spare(lane);
		return refuse();
	}
	lane->slot = slot;
	atomic_store(&lane->owner, owner_of(tid));
	if (!atomic_exchange(&agent.has_first, 1)) {
		lane->count = &agent.first_count;
		agent.first_lane = lane;
		/* Pairs with the acquire in sample_count() and lane_enter(). */
		atomic_store_explicit(&agent.first, thread, memory_order_release);
	}
	atomic_store_explicit(&agent.slots[slot].lane, lane, memory_order_release);
	return lane;
}

/* This thread's lane, which nobody else can take over any more; NULL: it has none. */
static struct lane *claim_own(uintptr_t thread, uint32_t tid)
{
	uint32_t slot = slot_of(thread);
	for (uint32_t probes = 0; probes < LANE_PROBES; probes++) {
		struct agent_slot *one = &agent.slots[slot];
		slot = (slot + 1) & (AGENT_SLOTS - 1);
		uintptr_t key = atomic_load(&one->key);
		struct lane *lane = key == thread ? atomic_load(&one->lane) : NULL;
		if (!key)
			break;
		if (!lane)
			continue;
		uint32_t owner = atomic_load(&lane->owner);
		/* If it was still in the slot after we knew its owner, it is that of the thread
		 * pointer, until the owner changes. */
		if (owner == (uint32_t)LANE_MOVING || atomic_load(&one->lane) != lane ||
		    atomic_load(&one->key) != thread)
			continue;
		if (lane->tid == tid || owner == tid ||
		    atomic_compare_exchange_strong(&lane->owner, &owner, owner_of(tid)))
			return lane;
	}
	return NULL;
}

struct lane *lane_adopt(uintptr_t thread)
{
	if (atomic_load_explicit(&agent.shared_tls, memory_order_relaxed) && agent_may_call())
		thread = (uintptr_t)(uint32_t)sys_gettid()
			 << 6; /* a key of its own per kernel thread */
	uint32_t tid = own_tid(thread);
	struct lane *lane = claim_own(thread, tid);
	if (!lane)
		return insert(thread, tid);
	if (lane->tid == tid)
		return lane;
	modules_break_lock(agent.modules, lane->tid);
	agent_break_locks();
	return lane_take_over(lane, tid) ? lane : refuse();
}

struct lane *lane_of_caller(void)
{
	uintptr_t thread = thread_pointer();
	struct lane *lane = lane_find(thread);
	return lane && lane->tid == thread_id_now(thread) ? lane : NULL;
}
