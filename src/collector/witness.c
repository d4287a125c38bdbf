/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/witness.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collector/procfs.h"

enum {
	SIGNALS = 65,
	LOOKS = 10, /* a millisecond apart */
	LOOK_NS = 1000 * 1000,
	ABOUT_NOW_NS = 200 * 1000 * 1000, /* what is older was another signal */
};

struct witness_page {
	_Atomic uint64_t seen_ns[SIGNALS]; /* when it came last; 0: not since we asked */
};

/* Nothing of ours is kept open by it: who reads our output must see its end. */
static _Noreturn void watch_signals(struct witness_page *page, pid_t parent)
{
	sigset_t all;
	sigfillset(&all);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	close_range(0, ~0u, 0);
	for (;;) {
		int signal = sigwaitinfo(&all, NULL);
		if (signal > 0 && signal < SIGNALS)
			atomic_store(&page->seen_ns[signal], clock_steady_ns());
	}
}

void witness_start(struct witness *witness)
{
	*witness = (struct witness){0};
	struct witness_page *page =
		mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	pid_t parent = getpid(), pid = fork();
	if (pid == 0)
		watch_signals(page, parent);
	if (pid < 0) {
		munmap(page, sizeof *page);
		return;
	}
	*witness = (struct witness){.pid = pid, .page = page};
}

void witness_stop(struct witness *witness)
{
	if (!witness->pid)
		return;
	kill(witness->pid, SIGKILL);
	waitpid(witness->pid, NULL, 0);
	munmap(witness->page, sizeof *witness->page);
	*witness = (struct witness){0};
}

bool witness_saw(struct witness *witness, int signal)
{
	const struct timespec moment = {.tv_nsec = LOOK_NS};
	if (!witness->pid || signal <= 0 || signal >= SIGNALS)
		return false;
	for (int i = 0; i < LOOKS; i++) {
		uint64_t seen_ns = atomic_exchange(&witness->page->seen_ns[signal], 0);
		if (seen_ns && clock_steady_ns() - seen_ns < ABOUT_NOW_NS)
			return true;
		/* It may not have had a processor yet. */
		if (procfs_signal_waits(witness->pid, signal))
			return true;
		nanosleep(&moment, NULL);
	}
	return false;
}
