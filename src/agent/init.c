/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginning: in a constructor, and lazily at the first call (the C library
 * allocates before constructors run; a forked child has no constructor). The
 * first thread initialises; calls that come meanwhile pass through.
 */
#include "agent/agent.h"

#include <linux/membarrier.h>
#include <linux/mman.h>

#include "agent/api.h"
#include "agent/emit.h"
#include "agent/environment.h"
#include "agent/intern.h"
#include "agent/memory_ops.h"
#include "agent/page.h"
#include "agent/patches.h"
#include "agent/real.h"
#include "agent/redirect.h"
#include "agent/rendezvous.h"
#include "agent/rows.h"
#include "agent/selfstart.h"
#include "agent/sys.h"
#include "agent/usr1.h"
#include "agent/wake.h"

extern const char _DYNAMIC[] __attribute__((visibility("hidden")));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

enum { START_PATIENCE_S = 10, START_CLOCK = 1 }; /* CLOCK_MONOTONIC */

struct agent agent;
struct agent_fixed agent_fixed = {0};
struct real_functions real = {0};
void *real_clone, *real_prctl, *real_syscall, *real_vfork, *real_system, *real_popen;

static struct elf_scope agent_scope; /* set once, with the real functions */
static char *const **agent_environ;  /* set once, with them; NULL: there is none */

void real_resolve(void)
{
	if (atomic_load_explicit(&agent_fixed.resolved, memory_order_acquire))
		return;
	struct elf_auxv auxv;
	if (elf_auxv_read(&auxv))
		return;
	struct elf_scope scope;
	elf_scope_init(&scope, &auxv, _DYNAMIC);
#define REAL_FIND(name, result, arguments) \
	real.name = (result(*) arguments)elf_find_next(&scope, #name);
	REAL_ALL(REAL_FIND)
#undef REAL_FIND
	real_clone = elf_find_next(&scope, "clone");
	real_prctl = elf_find_next(&scope, "prctl");
	real_syscall = elf_find_next(&scope, "syscall");
	real_vfork = elf_find_next(&scope, "vfork");
	real_system = elf_find_next(&scope, "system");
	real_popen = elf_find_next(&scope, "popen");
	agent_environ = elf_find_object_any(&scope, "environ");
	agent_scope = scope;
	agent_fixed.main_stack_end = auxv.random;
	if (!scope.self) /* no loader has: a tracer has brought us */
		agent_fixed.injected = 1;
	/* Pairs with the acquire above: two threads may both get here, with equal results. */
	atomic_store_explicit(&agent_fixed.resolved, 1, memory_order_release);
}

/* Our own place in the list is not looked for: there is none, and the list may change meanwhile. */
void session_scope(const struct elf_auxv *auxv)
{
	elf_scope_init(&agent_scope, auxv, NULL);
	agent_fixed.main_stack_end = auxv->random;
}

const char *agent_own_path(void)
{
	const struct elf_link_map *self = (const struct elf_link_map *)agent_scope.self;
	return self ? (const char *)self->name : NULL;
}

/* The first definition counts: the program may have a copy of the C library's. */
char *const *agent_environment(void)
{
	return agent_environ ? *agent_environ : NULL;
}

static bool peek(void *ctx, uintptr_t address, void *ret, size_t bytes)
{
	(void)ctx;
	return sys_peek(sys_gettid(), address, ret, bytes);
}

static void *map_for_modules(void *ctx, size_t bytes)
{
	(void)ctx;
	agent_account((int64_t)bytes);
	return agent_map((bytes + AGENT_PAGE - 1) & ~(size_t)(AGENT_PAGE - 1));
}

static void on_module(void *ctx, const struct module *module, bool mapped)
{
	(void)ctx;
	struct lane *lane = lane_of_caller();
	if (lane && !lane->rescanning)
		lane = lane->signal_lane;
	if (mapped && (module->flags & MODULE_AGENT))
		agent.own_instance = module->instance;
	if (mapped && module->api_table)
		api_offer(module->api_table);
	if (!lane)
		return;
	uint64_t instance = module->instance;
	if (mapped)
		emit_module(lane, module);
	else
		emit_extra(lane, WIRE_EV_UNMODULE, &instance, 1);
}

/* Known places first, then a search. */
uint32_t agent_find_tid(void)
{
	static const uint16_t known[] = {0x2d0, 0x30}; /* glibc, musl */
	uint32_t tid = (uint32_t)sys_gettid(), word;
	uintptr_t thread = thread_pointer();
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (sys_peek((int)tid, thread + known[i], &word, sizeof word) && word == tid)
			return known[i];
	for (uint32_t offset = 8; offset < AGENT_PAGE; offset += 4)
		if (sys_peek((int)tid, thread + offset, &word, sizeof word) && word == tid)
			return offset;
	return 0;
}

static bool make_tables(void)
{
	agent.slots = agent_map(AGENT_SLOTS * sizeof *agent.slots);
	if (!agent.slots || !intern_init() || !rows_init())
		return false;
	const struct modules_options options = {
		.scope = &agent_scope,
		.own_dynamic = (uintptr_t)_DYNAMIC,
		.own_image = agent_fixed.injected ? (uintptr_t)__ehdr_start : 0,
		.map = map_for_modules,
		.peek = peek,
		.event = on_module};
	agent.modules = modules_new(&options);
	return agent.modules != NULL;
}

/* What is known from a session before is new to this one's collector. */
static void first_scan(bool again)
{
	struct lane *lane = lane_adopt(thread_pointer());
	if (!lane)
		return;
	lane->agent_sp = (uintptr_t)__builtin_frame_address(0);
	if (again) {
		lane->rescanning = true;
		modules_visit(agent.modules, lane->tid, on_module, NULL);
		lane->rescanning = false;
	}
	rows_rescan(lane, true, 0);
	lane->agent_sp = 0;
}

/* Everything stays where it is: a thread may still be on its way out of the session before. */
static bool renew_tables(void)
{
	lanes_renew();
	return intern_renew();
}

bool session_begin(void)
{
	bool again = agent.slots != NULL;
	agent_fixed.follow_fork = (agent.map.options & WIRE_OPT_FOLLOW_FORK) != 0;
	agent_fixed.starter = (agent.map.options & WIRE_OPT_STARTER) != 0;
	agent_fixed.no_maps = (agent.map.options & WIRE_OPT_NO_MAPS) != 0;
	agent_fixed.pid = (uint32_t)sys_getpid();
	emit_begin_clock();
	agent.tid_offset = agent_find_tid();
	if (!agent.tid_offset)
		atomic_store(&agent.shared_tls, 1);
	if (!sys_failed(sys_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0)))
		atomic_store(&agent.map.control->quick_barrier, 1);
	if (!(again ? renew_tables() : make_tables())) {
		agent_switch_off(WIRE_OFF_NO_MEMORY);
		return false;
	}
	atomic_fetch_add(&agent.generation, 1);
	agent.session = agent_steady_ns() | 1;
	first_scan(again);
	return true;
}

static int redirect_once(const void *object, size_t bytes, void *ctx)
{
	(void)object;
	(void)bytes;
	(void)ctx;
	redirect_start(&agent_scope);
	return 1; /* no other object needs a visit */
}

/* While the loader calls back it loads and unloads nothing. */
void session_redirect(void)
{
	if (agent_fixed.redirected)
		return;
	agent_fixed.redirected = 1;
	if (real.dl_iterate_phdr)
		real.dl_iterate_phdr((void *)redirect_once, NULL);
}

/* All or nothing; in the latter case what was mapped stays, unused. */
static bool begin_session(const char *session, bool forked)
{
	int memory = rendezvous_call(session, forked ? WIRE_HELLO_FORKED : WIRE_HELLO_IMAGE);
	if (memory < 0 || !rendezvous_map(memory, &agent.map) || !session_begin())
		return false;
	if (!forked) { /* a child has its parent's slots and patches */
		/* Before the program's first allocation nothing has been opened by dlopen. */
		agent.staying = modules_count(agent.modules);
		redirect_start(&agent_scope);
		agent_fixed.redirected = 1;
		patches_apply();
	}
	atomic_store(&agent_fixed.was_on, 1);
	/* Switched off by a signal it can be switched on by one. */
	if (!agent.page && agent.map.options & WIRE_OPT_USR1)
		page_make(true);
	return true;
}

/* Nobody records it: it can be woken. */
static void sleep_first(void)
{
	agent_fixed.sleeper = 1;
	if (!agent.page)
		page_make(false);
}

/* What the environment asks for. True: recording is on. */
static bool begin_image(void)
{
	struct environment environment;
	char session[WIRE_PAGE_SESSION_BYTES] = "";
	bool called = false;
	if (!environment_read(&environment))
		return false;
	const char *given = environment_find(&environment, WIRE_SESSION_ENV);
	const char *output = environment_find(&environment, SELFSTART_ENV);
	given = given && given[0] ? given : NULL;
	if (given && strlen(given) < sizeof session) {
		memcpy(session, given, strlen(given) + 1);
		called = true;
		agent_fixed.preloaded = 1;
		page_clear();
	} else if (!given && output && output[0]) {
		page_make(false);
		called = selfstart(&environment, session);
	}
	environment_done(&environment);
	memcpy(agent_fixed.session, session, sizeof session);
	bool on = called && begin_session(session, false);
	if (!on && !given)
		sleep_first();
	return on;
}

/* A child has no constructor, and no environment of its own. */
static bool begin_child(void)
{
	if (atomic_load(&agent_fixed.was_on) && agent_fixed.follow_fork &&
	    begin_session(agent_fixed.session, true))
		return true;
	if (agent_fixed.sleeper)
		sleep_first();
	return false;
}

static bool first_start(void)
{
	bool forked = atomic_load(&agent_fixed.was_on) || agent_fixed.sleeper;
	if (sys_failed(sys_madvise(&agent, sizeof agent, MADV_WIPEONFORK)))
		return false;
	return forked ? begin_child() : begin_image();
}

static void go_on(void)
{
	if (agent.page)
		atomic_store(&agent.page->recording, 1);
	atomic_store(&agent.map.control->agent_ready, 1);
	atomic_store(&agent.state, AGENT_ON);
	if (agent.map.options & WIRE_OPT_USR1)
		usr1_install();
}

/*
 * Somebody else is at it. Where a constructor began it, there is no other thread
 * yet; where the first allocation does, there may be, and their first blocks must
 * not be missed. Bounded: the other may be stopped for ever.
 */
static bool await_start(void)
{
	struct sys_timespec now = {0, 0};
	sys_clock_gettime(START_CLOCK, &now);
	int64_t end = now.seconds + START_PATIENCE_S;
	while (atomic_load(&agent.state) == AGENT_NEW && now.seconds < end) {
		sys_sched_yield();
		sys_clock_gettime(START_CLOCK, &now);
	}
	return agent_records();
}

AGENT_COLD bool agent_start(void)
{
	if (agent_records())
		return true;
	real_resolve();
	uint32_t state = atomic_load(&agent.state), unlocked = 0;
	if (state == AGENT_ON || state == AGENT_PASS)
		return state == AGENT_ON;
	if (state == AGENT_NEW && atomic_load(&agent_fixed.keeper) == thread_pointer())
		return false;
	/* A forked child has its parent's filter: nobody is called. */
	if (state == AGENT_NEW && agent_fixed.filtered) {
		agent_lie_down();
		return false;
	}
	uint32_t own = (uint32_t)sys_gettid();
	if (!atomic_compare_exchange_strong(&agent.init_lock, &unlocked, own))
		return unlocked != own && agent_fixed.injected && await_start();
	state = atomic_load(&agent.state);
	bool on = agent_records();
	if (state == AGENT_NEW || state == AGENT_DORMANT) {
		on = state == AGENT_NEW ? first_start() : agent_wake();
		if (on)
			go_on();
		else if (state == AGENT_NEW)
			agent_lie_down();
	}
	atomic_store(&agent.init_lock, 0);
	return on;
}

__attribute__((constructor)) static void agent_constructor(void)
{
	agent_start();
}

__attribute__((destructor)) static void agent_destructor(void)
{
	page_drop();
}
