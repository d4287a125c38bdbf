/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   program ── fork, with no signal at its end ──> middle ── fork ──> collector
 *      └── waits for the middle one, which ends at once: the collector is
 *          nobody's child but init's
 *
 * The C library's wait functions never see the middle one: it was made without
 * SIGCHLD and is waited for here, before the program runs.
 */
#include "agent/selfstart.h"

#include <linux/mman.h>
#include <linux/prctl.h>

#include "agent/agent.h"
#include "agent/memory_ops.h"
#include "agent/procself.h"
#include "agent/quiet.h"
#include "agent/sys.h"

enum {
	SYS_NR_POLL_ = 7,
	SYS_NR_CLONE_ = 56,
	SYS_NR_EXECVE_ = 59,
	SYS_NR_WAIT4_ = 61,
	SYS_NR_ACCESS_ = 21,
	SYS_NR_PIPE2_ = 293,
	CLOSE_ON_EXEC = 02000000,
	SET_FD_FLAGS = 2,
	WAIT_ALL = 0x40000000, /* __WALL: also those without SIGCHLD */
	CHILD_SIGNAL = 17,
	MAY_EXECUTE = 1,
	POLL_IN = 1,
	POLL_OUT = 4,
	HEARD_MS = 250, /* each of up to four pieces */
	READY_MS = 20000,
	ERROR_INTERRUPTED = -4,
	PATH_BYTES = 4352,
	NAME_DIGITS = 16,
	TOKEN_DIGITS = 32,
	ARGUMENTS_MAX = 1 << 20,
};

/* What is the case at the end of that time at the latest; 0: nothing of it. */
static short await_events(int fd, short events, int time_ms)
{
	struct {
		int fd;
		short events, got;
	} poll = {.fd = fd, .events = events};
	while (sys_call3(SYS_NR_POLL_, (long)&poll, 1, time_ms) == ERROR_INTERRUPTED)
		;
	return poll.got;
}

/* A pipe may be full, and its reader stuck: the program is not to wait for it. */
static void say(const char *text)
{
	if (await_events(2, POLL_OUT, HEARD_MS) && quiet_write(2, text, strlen(text)) < 0)
		return; /* nobody listens */
}

/* As process 1, or as a subreaper, it would be given the collector to wait for. */
static bool would_inherit(const struct environment *environment)
{
	int reaps = 0;
	if (sys_getpid() == 1) {
		const char *output = environment_find(environment, SELFSTART_ENV);
		say("tidemark: not recorded: this program is process 1, so its wait() would return "
		    "the recorder. Put tidemark in front of it:\n"
		    "tidemark:   ENTRYPOINT [\"tidemark\", \"run\", \"-o\", \"");
		say(output);
		say("\", \"--\", \"PROGRAM\", \"ARGUMENT\"]\n");
		return true;
	}
	if (!sys_failed(sys_prctl(PR_GET_CHILD_SUBREAPER, (unsigned long)&reaps, 0, 0)) && reaps) {
		say("tidemark: not recorded: this program takes orphans in "
		    "(PR_SET_CHILD_SUBREAPER), "
		    "so its wait() would return the recorder. Start it with 'tidemark run'.\n");
		return true;
	}
	return false;
}

static bool can_execute(const char *path)
{
	return !sys_failed(sys_call3(SYS_NR_ACCESS_, (long)path, MAY_EXECUTE, 0));
}

/* TIDEMARK_COLLECTOR, or the tool beside this file as it is built and installed. */
static bool find_collector(const struct environment *environment, char *ret)
{
	static const char *const places[] = {"/tidemark", "/../../bin/tidemark",
					     "/../../../bin/tidemark"};
	const char *chosen = environment_find(environment, "TIDEMARK_COLLECTOR");
	if (chosen && chosen[0]) {
		if (strlen(chosen) < PATH_BYTES && can_execute(chosen)) {
			procself_put(ret, chosen);
			return true;
		}
		say("tidemark: not recorded: TIDEMARK_COLLECTOR names no program: ");
		say(chosen);
		say("\n");
		return false;
	}
	char folder[PATH_BYTES - 64] = "";
	size_t bytes = procself_path((uintptr_t)find_collector, folder, sizeof folder)
			       ? strlen(folder)
			       : 0;
	while (bytes && folder[bytes - 1] != '/')
		bytes--;
	folder[bytes ? bytes - 1 : 0] = 0;
	for (size_t i = 0; bytes && i < sizeof places / sizeof places[0]; i++) {
		procself_put(procself_put(ret, folder), places[i]);
		if (can_execute(ret))
			return true;
	}
	say("tidemark: not recorded: the tool is not beside libtidemark.so; set "
	    "TIDEMARK_COLLECTOR to its path.\n");
	return false;
}

static char *put_random(char *to, unsigned digits)
{
	uint8_t bytes[TOKEN_DIGITS / 2] = {0};
	sys_getrandom(bytes, digits / 2, 0);
	for (unsigned i = 0; i < digits; i++)
		*to++ = "0123456789abcdef"[bytes[i / 2] >> (i % 2 * 4) & 15];
	*to = 0;
	return to;
}

static void name_session(char *to)
{
	to = procself_put_number(procself_put(to, "tidemark-"), (uint64_t)sys_getpid());
	to = put_random(procself_put(to, "-"), NAME_DIGITS);
	put_random(procself_put(to, ":"), TOKEN_DIGITS);
}

/* Plain memory: what agent_map() gives is not there in a child. */
static char *map_plain(size_t bytes)
{
	void *got =
		sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return sys_failed((long)got) ? NULL : got;
}

static bool is_named(const char *entry, const char *name)
{
	size_t bytes = strlen(name);
	for (size_t i = 0; i < bytes; i++)
		if (entry[i] != name[i])
			return false;
	return entry[bytes] == '=';
}

/* ---- the collector's environment ---- */

struct launch {
	char *memory;
	size_t bytes;
	char **envp;
	char path[PATH_BYTES];
	int ready[2];
};

static char *put_variable(char **at, const char *name)
{
	char *entry = *at;
	*at = procself_put(procself_put(entry, name), "=");
	return entry;
}

/* As ours, without the agent, and with what it must know. */
static bool make_environment(struct launch *launch, const struct environment *from,
			     const char *session)
{
	size_t count = 0;
	for (size_t i = 0; i < from->bytes; i++)
		count += !from->block[i];
	launch->bytes = (count + 8) * sizeof(char *) + from->bytes + 1024;
	launch->memory = map_plain(launch->bytes);
	if (!launch->memory)
		return false;
	launch->envp = (char **)launch->memory;
	char *at = launch->memory + (count + 8) * sizeof(char *);
	size_t used = 0;
	for (size_t i = 0; i < from->bytes; i += strlen(from->block + i) + 1) {
		const char *entry = from->block + i;
		if (!entry[0] || is_named(entry, "LD_PRELOAD"))
			continue;
		launch->envp[used++] = at;
		at = procself_put(at, entry) + 1;
	}
	launch->envp[used++] = put_variable(&at, "TIDEMARK_SESSION");
	at = procself_put(at, session) + 1;
	launch->envp[used++] = put_variable(&at, SELFSTART_PID_ENV);
	at = procself_put_number(at, (uint64_t)sys_getpid()) + 1;
	launch->envp[used++] = put_variable(&at, SELFSTART_READY_ENV);
	procself_put_number(at, (uint64_t)launch->ready[1]);
	launch->envp[used] = NULL;
	return true;
}

/* ---- starting it ---- */

static void become_collector(const struct launch *launch)
{
	char tool[] = "tidemark", command[] = "collect";
	char *argv[] = {tool, command, NULL};
	sys_fcntl(launch->ready[1], SET_FD_FLAGS, 0);
	sys_call3(SYS_NR_EXECVE_, (long)launch->path, (long)argv, (long)launch->envp);
	say("tidemark: not recorded: the tool beside libtidemark.so cannot be executed\n");
}

static bool fork_twice(const struct launch *launch)
{
	long middle = sys_call6(SYS_NR_CLONE_, 0, 0, 0, 0, 0, 0);
	if (!middle) {
		if (!sys_call6(SYS_NR_CLONE_, CHILD_SIGNAL, 0, 0, 0, 0, 0))
			become_collector(launch);
		sys_exit_group(0);
	}
	if (middle < 0)
		return false;
	while (sys_call4(SYS_NR_WAIT4_, middle, 0, WAIT_ALL, 0) == ERROR_INTERRUPTED)
		;
	return true;
}

/* A byte says that it listens; an end without one, that it has given up. */
static bool await_ready(int fd)
{
	char byte = 0;
	return await_events(fd, POLL_IN, READY_MS) && sys_read(fd, &byte, 1) == 1;
}

static bool start(struct launch *launch, const struct environment *environment, const char *session)
{
	if (sys_failed(sys_call3(SYS_NR_PIPE2_, (long)launch->ready, CLOSE_ON_EXEC, 0)))
		return false;
	bool started = make_environment(launch, environment, session) && fork_twice(launch);
	sys_close(launch->ready[1]);
	started = started && await_ready(launch->ready[0]);
	sys_close(launch->ready[0]);
	if (launch->memory)
		sys_munmap(launch->memory, launch->bytes);
	return started;
}

/* ---- what the program starts later ---- */

/*
 * In the array that the kernel made and the C library uses: the entry that asks
 * for a recording becomes the one that names it, for programs that this one
 * starts or executes.
 */
static void tell_descendants(const char *session)
{
	uint64_t *stack = (uint64_t *)procself_stat(PROCSELF_START_STACK), argc = 0, end = 1;
	int tid = sys_gettid();
	char *entry = map_plain(AGENT_PAGE);
	if (!stack || !entry || !sys_peek(tid, (uintptr_t)stack, &argc, sizeof argc) ||
	    argc > ARGUMENTS_MAX ||
	    !sys_peek(tid, (uintptr_t)(stack + 1 + argc), &end, sizeof end) || end)
		return;
	procself_put(procself_put(entry, "TIDEMARK_SESSION="), session);
	for (char **envp = (char **)(stack + argc + 2); *envp; envp++)
		if (is_named(*envp, SELFSTART_ENV))
			*envp = entry;
}

bool selfstart(const struct environment *environment, char ret_session[WIRE_PAGE_SESSION_BYTES])
{
	struct launch launch = {0};
	if (would_inherit(environment) || !find_collector(environment, launch.path))
		return false;
	name_session(ret_session);
	if (!start(&launch, environment, ret_session))
		return false;
	tell_descendants(ret_session);
	return true;
}
