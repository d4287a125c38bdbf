/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping and waking. Asleep, a hook is three loads and a jump. It wakes in the
 * first call after the page was written to, and a session begins as if a tracer
 * had come in: over the memory of the session before, whose lanes belong to
 * nobody now.
 *
 * A thread may have been stopped anywhere inside a hook since that session, for
 * any time. Whoever writes an event has its stream's `busy` raised; so before the
 * memory is replaced all streams are asked back (as the collector does with an
 * idle thread's), and nobody may be busy. Whoever comes later finds `revoke`, and
 * then that its lane has no stream.
 */
#include "agent/wake.h"

#include <linux/membarrier.h>

#include "agent/emit.h"
#include "agent/memory_ops.h"
#include "agent/rendezvous.h"
#include "agent/sys.h"
#include "agent/usr1.h"

enum { BUSY_LOOKS = 200, BUSY_WAIT_NS = 500 * 1000 };

void agent_lie_down(void)
{
	struct wire_page *page = agent.page;
	if (page)
		atomic_store(&page->recording, 0);
	atomic_store(&agent.state, page ? AGENT_DORMANT : AGENT_PASS);
}

/*
 * Under the lock that waking takes, too: another session may have begun since
 * the caller looked. Who cannot have it comes again with the next call.
 */
void agent_rest(void)
{
	uint32_t unlocked = 0;
	if (!atomic_compare_exchange_strong(&agent.init_lock, &unlocked, 1))
		return;
	if (agent_records() && atomic_load(&agent.map.control->state) == WIRE_OFF)
		agent_lie_down();
	atomic_store(&agent.init_lock, 0);
}

static uint32_t streams_used(void)
{
	uint32_t high = atomic_load(&agent.map.control->streams_high);
	return high < agent.map.stream_count ? high : agent.map.stream_count;
}

static bool is_busy(uint32_t high)
{
	for (uint32_t i = 0; i < high; i++)
		if (atomic_load_explicit(&agent.map.streams[i].busy, memory_order_acquire))
			return true;
	return false;
}

/* Nobody is writing into the memory of the session before, or will. */
static bool leave_memory(void)
{
	const struct sys_timespec moment = {0, BUSY_WAIT_NS};
	if (!agent.map.control)
		return true;
	uint32_t high = streams_used();
	atomic_store(&agent.map.control->state, WIRE_OFF);
	for (uint32_t i = 0; i < high; i++)
		atomic_store(&agent.map.streams[i].revoke, 1);
	/* Each thread's store of busy and its load of revoke are in order now. */
	if (sys_failed(sys_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0)))
		sys_membarrier(MEMBARRIER_CMD_GLOBAL, 0);
	for (int i = 0; i < BUSY_LOOKS; i++) {
		if (!is_busy(high))
			return true;
		sys_nanosleep(&moment, NULL);
	}
	return false;
}

/* The session to call; false: none. */
static bool read_call(struct wire_page *page, char *ret)
{
	uint32_t wake = atomic_load_explicit(&page->wake, memory_order_acquire);
	const char *from = wake == WIRE_WAKE_SELF ? agent_fixed.session : page->session;
	memcpy(ret, from, WIRE_PAGE_SESSION_BYTES);
	ret[WIRE_PAGE_SESSION_BYTES - 1] = 0;
	atomic_store(&page->wake, WIRE_WAKE_NO);
	return wake >= WIRE_WAKE_ASKED && ret[0];
}

static enum wire_refused enter(const char *session)
{
	if (!agent_may_call())
		return WIRE_REFUSED_SECCOMP;
	if (!leave_memory())
		return WIRE_REFUSED_BUSY;
	int memory = rendezvous_call(session, WIRE_HELLO_WOKEN);
	if (memory < 0)
		return WIRE_REFUSED_UNREACHED;
	if (agent.slots)
		lanes_renew();
	if (!rendezvous_map(memory, &agent.map))
		return WIRE_REFUSED_MEMORY;
	atomic_store(&agent.state, AGENT_NEW); /* others pass on; what is loaded can be emitted */
	return session_begin() ? WIRE_REFUSED_NO : WIRE_REFUSED_MEMORY;
}

bool agent_wake(void)
{
	char session[WIRE_PAGE_SESSION_BYTES];
	struct wire_page *page = agent.page;
	/* A child of vfork leaves the call for its parent, whose memory it is in. */
	if ((agent_may_call() && (uint32_t)sys_getpid() != agent_fixed.pid) ||
	    !read_call(page, session))
		return false;
	enum wire_refused refused = enter(session);
	atomic_store(&page->refused, (uint32_t)refused);
	if (refused) {
		atomic_store(&agent.state, AGENT_DORMANT);
		return false;
	}
	atomic_fetch_add(&page->sessions, 1);
	atomic_store(&page->recording, 1);
	atomic_store(&agent_fixed.was_on, 1);
	session_redirect();
	atomic_store(&agent_fixed.redirect_due, 1);
	return true;
}
