/* SPDX-License-Identifier: Apache-2.0 */
/* What may be entered, judged on facts of machines that this one is not. */
#include "harness/tap.h"
#include "inject/target.h"

#include <errno.h>
#include <string.h>

enum { USER = 1000, OTHER = 1001 };
#define CAP(number) (1ull << (number))

/* A process of our own, which nothing speaks against. */
static struct target_facts ordinary(void)
{
	return (struct target_facts){
		.pid = 100,
		.own_pid = 200,
		.exists = true,
		.class_known = true,
		.is_64_bit = true,
		.same_user = true,
		.status = {.state = 'S', .group = 100, .uid = {USER, USER, USER, USER}},
		.own = {.state = 'R', .group = 200, .uid = {USER, USER, USER, USER}},
	};
}

static void refuses(const struct target_facts *facts, int code, const char *why, const char *what)
{
	struct tm_error err = {0};
	CHECK_EQ_I64(target_judge(facts, &err), code);
	CHECK_HAS(err.text, why);
	CHECK_HAS(err.text, what);
	CHECK(strlen(err.text) + 1 < sizeof err.text);
}

static void accepts(const struct target_facts *facts)
{
	struct tm_error err = {0};
	if (!CHECK_EQ_I64(target_judge(facts, &err), 0))
		tap_note("%s", err.text);
}

static void lets_own_processes_in(void)
{
	struct target_facts facts = ordinary();
	accepts(&facts);
	facts.yama = 1;
	facts.is_descendant = true;
	accepts(&facts);
	facts.is_descendant = false;
	facts.own.capabilities = CAP(19);
	accepts(&facts);
	facts.same_user = false;
	facts.yama = 2;
	accepts(&facts);
	facts.status.seccomp = 2;
	facts.own.capabilities |= CAP(21);
	accepts(&facts);
}

static void names_the_missing_right(void)
{
	struct target_facts facts = ordinary();
	facts.same_user = false;
	facts.status.uid[1] = OTHER;
	refuses(&facts, -EPERM, "another user (uid 1001)", "sudo");
	facts = ordinary();
	facts.yama = 1;
	refuses(&facts, -EPERM, "ptrace_scope is 1", "--dormant");
	facts.yama = 2;
	refuses(&facts, -EPERM, "ptrace_scope is 2", "sudo");
	facts.yama = 3;
	facts.own.capabilities = ~0ull;
	refuses(&facts, -EPERM, "ptrace_scope is 3", "tidemark run");
	facts = ordinary();
	facts.can_read_maps = -EACCES;
	refuses(&facts, -EPERM, "hides itself", "sudo");
}

static void refuses_what_is_unsafe(void)
{
	struct target_facts facts = ordinary();
	facts.status.seccomp = 2;
	refuses(&facts, -EPERM, "seccomp filter", "CAP_SYS_ADMIN");
	facts.status.seccomp = 1;
	facts.own.capabilities = ~0ull;
	refuses(&facts, -EPERM, "strict mode", "tidemark run");
	facts = ordinary();
	facts.shadow_stack = true;
	refuses(&facts, -ENOTSUP, "shadow stack", "GLIBC_TUNABLES");
	facts = ordinary();
	facts.is_64_bit = false;
	refuses(&facts, -ENOEXEC, "not a 64-bit program", "x86-64");
	facts = ordinary();
	facts.own_agent = true;
	refuses(&facts, -EALREADY, "started with tidemark's agent", "tidemark list");
	facts = ordinary();
	facts.status.tracer = 42;
	strcpy(facts.tracer_name, "gdb");
	refuses(&facts, -EBUSY, "traced by process 42 (gdb)", "end that first");
}

static void refuses_what_is_no_process(void)
{
	struct target_facts facts = ordinary();
	facts.exists = false;
	refuses(&facts, -ESRCH, "no process 100", "100");
	facts = ordinary();
	facts.status.kernel_thread = true;
	refuses(&facts, -EINVAL, "thread of the kernel", "100");
	facts = ordinary();
	facts.has_ended = true;
	refuses(&facts, -ESRCH, "has ended", "parent");
	facts = ordinary();
	facts.own_pid = 100;
	refuses(&facts, -EINVAL, "itself", "100");
}

static void forbidden(const struct target_facts *facts, const char *why)
{
	struct tm_error err = {0};
	CHECK_EQ_I64(target_say_forbidden(facts, &err), -EPERM);
	CHECK_HAS(err.text, "process 100");
	CHECK_HAS(err.text, why);
	CHECK_HAS(err.text, "--dormant");
}

static void knows_where_it_lives(void)
{
	struct target_facts facts = ordinary();
	forbidden(&facts, "SYS_PTRACE");
	facts.user_namespace = true;
	forbidden(&facts, "another user namespace");
	facts.container = TARGET_KUBERNETES;
	forbidden(&facts, "securityContext.capabilities");
	facts.container = TARGET_DOCKER;
	forbidden(&facts, "--cap-add SYS_PTRACE");
	facts.container = TARGET_LXC;
	forbidden(&facts, "sudo outside");
	facts.deny_ptrace = true;
	forbidden(&facts, "setsebool deny_ptrace off");
}

/* Texts as those machines show them. */
static void reads_their_texts(void)
{
	CHECK(target_parse_shadow_stack("Name:\tx\nx86_Thread_features:\tshstk wrss \n"
					"x86_Thread_features_locked:\tshstk wrss \n"));
	CHECK(!target_parse_shadow_stack("Name:\tx\nx86_Thread_features:\t\n"
					 "x86_Thread_features_locked:\tshstk \n"));
	CHECK(!target_parse_shadow_stack("Name:\tshstk\n"));
	CHECK_EQ_I64(target_parse_container(
			     "0::/kubepods.slice/kubepods-burstable.slice/"
			     "kubepods-burstable-podd1f6.slice/cri-containerd-5ab8.scope\n"),
		     TARGET_KUBERNETES);
	CHECK_EQ_I64(target_parse_container("12:pids:/kubepods/besteffort/pod7f/docker-9c\n"),
		     TARGET_KUBERNETES);
	CHECK_EQ_I64(target_parse_container("0::/system.slice/docker-03d2.scope\n"), TARGET_DOCKER);
	CHECK_EQ_I64(target_parse_container("0::/machine.slice/libpod-88aa.scope/container\n"),
		     TARGET_PODMAN);
	CHECK_EQ_I64(target_parse_container("0::/lxc.payload.web/init.scope\n"), TARGET_LXC);
	CHECK_EQ_I64(target_parse_container("0::/user.slice/user-1000.slice\n"),
		     TARGET_NO_CONTAINER);
	CHECK(target_parse_boolean("1 1"));
	CHECK(!target_parse_boolean("0 0"));
	CHECK(!target_parse_boolean(""));
}

static const struct tap_case cases[] = {
	{.name = "who forbids it is named, with the way around", .run = knows_where_it_lives},
	{.name = "machines that we do not have are understood", .run = reads_their_texts},
	{.name = "own processes can be attached to", .run = lets_own_processes_in},
	{.name = "a missing right is named", .run = names_the_missing_right},
	{.name = "what is unsafe is refused, with a way around", .run = refuses_what_is_unsafe},
	{.name = "what is no process is told apart", .run = refuses_what_is_no_process},
};
TAP_MAIN(cases)
