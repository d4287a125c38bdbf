/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usr1.h"

#include <linux/futex.h>

#include "agent/agent.h"
#include "agent/sys.h"

enum {
	SYS_NR_SIGACTION_ = 13,
	USR1 = 10,
	BY_DEFAULT = 0,
	/* SA_RESTART, SA_ONSTACK, SA_RESTORER */
	FLAGS = 0x10000000 | 0x08000000 | 0x04000000,
};

/* As the kernel lays it out. */
struct action {
	uintptr_t handler;
	uint64_t flags;
	uintptr_t restorer;
	uint64_t mask;
};

void usr1_return(void);
__asm__(".text\n"
	".type usr1_return,@function\n"
	"usr1_return:\n"
	"	mov $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	".size usr1_return,.-usr1_return\n");

static int set_action(const struct action *action, struct action *ret_old)
{
	return (int)sys_call4(SYS_NR_SIGACTION_, USR1, (long)action, (long)ret_old, 8);
}

/* A child that is not recorded: the signal does to it what it always did. */
static void do_default(void)
{
	const struct action plain = {.handler = BY_DEFAULT};
	set_action(&plain, NULL);
	sys_tgkill(sys_getpid(), sys_gettid(), USR1); /* comes when we return */
}

static void on_usr1(int number)
{
	(void)number;
	struct wire_control *control = agent.map.control;
	if ((uint32_t)sys_getpid() != agent_fixed.pid) {
		do_default();
	} else if (agent_records() && control && atomic_load(&control->state) != WIRE_OFF) {
		atomic_fetch_add(&control->usr1, 1);
		if (atomic_exchange(&control->asleep, 0))
			sys_futex(&control->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	} else if (agent.page) {
		/* Twice before the program has allocated anything: as if nothing had been. */
		uint32_t none = WIRE_WAKE_NO;
		if (!atomic_compare_exchange_strong(&agent.page->wake, &none, WIRE_WAKE_SELF) &&
		    none == WIRE_WAKE_SELF)
			atomic_compare_exchange_strong(&agent.page->wake, &none, WIRE_WAKE_NO);
	}
}

void usr1_install(void)
{
	const struct action ours = {
		.handler = (uintptr_t)on_usr1, .flags = FLAGS, .restorer = (uintptr_t)usr1_return};
	struct action old;
	if (agent_may_call() && !sys_failed(set_action(NULL, &old)) && old.handler == BY_DEFAULT)
		set_action(&ours, NULL);
}

uintptr_t usr1_shown(uintptr_t handler)
{
	return handler == (uintptr_t)on_usr1 ? BY_DEFAULT : handler;
}
