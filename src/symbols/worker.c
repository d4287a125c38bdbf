/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information is read in child processes, since a damaged file, or one
 * that shrinks under its reader, may end them. Many addresses are shared out;
 * the answers are told in order whoever is ready first.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "symbols/answers.h"
#include "symbols/set.h"

enum { WORKERS_MAX = 4, REQUESTS_EACH = 8 * 1024 };
/* Beyond its CPU limit the child may still hang on a dead network disk. */
#define SILENCE_MAX_MS (30 * 1000)

struct worker {
	pid_t pid; /* 0 = none */
	int fd;    /* -1 = it has said all */
	struct receiver receiver;
};

static _Noreturn void run_child(const struct resolve_batch *batch, size_t from, size_t end, int fd)
{
	struct sender sender = {.fd = fd};
	uint64_t seconds = set_lines_budget_ns(batch->symbols) / 1000000000u + 3;
	struct rlimit none = {0}, cpu = {.rlim_cur = seconds, .rlim_max = seconds};
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_CPU, &cpu);
	set_become_worker(batch->symbols, sender_warning, sender_progress, &sender);
	int code = resolve_here(batch, from, end, sender_frames, sender_done, &sender);
	_exit(code ? 1 : 0);
}

/* With all signals blocked, so that the parent's handlers never run in the child. */
static bool start(const struct resolve_batch *batch, struct worker *workers, size_t index)
{
	struct worker *worker = &workers[index];
	int ends[2];
	if (pipe(ends))
		return false;
#ifdef F_SETPIPE_SZ
	fcntl(ends[0], F_SETPIPE_SZ, 1 << 20); /* fewer changes between the two */
#endif
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t child = fork();
	if (child == 0) {
		for (size_t i = 0; i < index; i++)
			close(workers[i].fd);
		close(ends[0]);
		run_child(batch, worker->receiver.done, worker->receiver.end, ends[1]);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return false;
	}
	worker->pid = child;
	worker->fd = ends[0];
	return true;
}

static void stop(struct worker *worker)
{
	if (worker->fd >= 0)
		close(worker->fd);
	if (worker->pid) {
		kill(worker->pid, SIGKILL); /* it has ended, or hangs */
		while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	receiver_done(&worker->receiver);
}

static int read_some(struct worker *worker)
{
	char bytes[64 * 1024];
	ssize_t got = read(worker->fd, bytes, sizeof bytes);
	if (got < 0 && errno == EINTR)
		return 0;
	if (got > 0)
		return receiver_put(&worker->receiver, bytes, (size_t)got);
	close(worker->fd);
	worker->fd = -1;
	return 0;
}

/* Waits for any of them; false when nobody says anything any more. */
static bool read_ready(struct worker *workers, size_t count, int *ret_code)
{
	struct pollfd waits[WORKERS_MAX];
	bool any = false;
	for (size_t i = 0; i < count; i++) {
		waits[i] = (struct pollfd){.fd = workers[i].fd, .events = POLLIN};
		any |= workers[i].fd >= 0;
	}
	int ready = any ? poll(waits, count, SILENCE_MAX_MS) : 0;
	if (ready < 0 && errno == EINTR)
		return true;
	for (size_t i = 0; ready > 0 && !*ret_code && i < count; i++)
		if (workers[i].fd >= 0 && waits[i].revents)
			*ret_code = read_some(&workers[i]);
	return ready > 0 && !*ret_code;
}

/* Until all is told, or one ends before its time. *ret_turn: whose answers come next. */
static int receive(struct worker *workers, size_t count, size_t *ret_turn)
{
	size_t turn = 0;
	int code = 0;
	for (bool more = true; turn < count && !code;) {
		struct receiver *receiver = &workers[turn].receiver;
		code = receiver_tell(receiver);
		if (receiver->done == receiver->end)
			turn++;
		else if (!more || workers[turn].fd < 0)
			break;
		else if (!code)
			more = read_ready(workers, count, &code);
	}
	*ret_turn = turn;
	return code;
}

static size_t count_workers(const struct resolve_batch *batch, size_t from)
{
	size_t useful = (batch->request_count - from) / REQUESTS_EACH + 1;
	size_t allowed = set_workers(batch->symbols);
	size_t count = useful < allowed ? useful : allowed;
	return count < WORKERS_MAX ? count : WORKERS_MAX;
}

int worker_resolve(const struct resolve_batch *batch, size_t from, resolve_frames_fn on_frames,
		   void *ctx, size_t *ret_done)
{
	size_t count = count_workers(batch, from), started = 0, turn = 0;
	struct worker *workers = tm_alloc_array(count, sizeof *workers);
	if (!workers)
		return -ENOMEM;
	size_t left = batch->request_count - from;
	for (size_t i = 0; i < count; i++) {
		struct receiver *receiver = &workers[i].receiver;
		receiver_init(receiver, batch, from + left * i / count,
			      from + left * (i + 1) / count);
		receiver->on_frames = on_frames;
		receiver->ctx = ctx;
		workers[i].fd = -1;
	}
	while (started < count && start(batch, workers, started))
		started++;
	/* Without any nothing is done: the caller goes on without debug information. */
	int code = receive(workers, started, &turn);
	*ret_done = turn < count ? workers[turn].receiver.done : batch->request_count;
	for (size_t i = 0; i < count; i++)
		stop(&workers[i]);
	tm_free(workers);
	return code == -EBADMSG ? 0 : code;
}
