/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be attached to whose threads wait in system calls, one in each. A
 * stop by a tracer must end none of them.
 *
 *	attachee_wait           waits of a minute: "rounds" and "interrupted" stay 0
 *	attachee_wait brief     waits of 0.3 s that the kernel can go on with: none of
 *	                        them may begin anew at each stop, for then it never ends
 *	attachee_wait alone     one thread, which waits for a moment again and again, in calls
 *	                        that the kernel goes on with after a stop: none may fail
 *
 * Says "ready" when all wait; ends after a byte of input and prints what it found.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG_S = 60, BRIEF_MS = 300, THREADS_MAX = 64 };

static const struct timespec minute = {.tv_sec = LONG_S};
static const struct timespec brief = {.tv_nsec = BRIEF_MS * 1000 * 1000};
static const struct timeval minute_us = {.tv_sec = LONG_S};

static sigset_t one_signal(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return set;
}

/* ---- that would end with EINTR ---- */

static int call_epoll_wait(void)
{
	struct epoll_event event;
	return epoll_wait(epoll_create1(0), &event, 1, LONG_S * 1000);
}

static int call_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t set = one_signal();
	return epoll_pwait(epoll_create1(0), &event, 1, -1, &set);
}

static int call_sigtimedwait(void)
{
	sigset_t set = one_signal();
	return sigtimedwait(&set, NULL, &minute);
}

static int call_sigwaitinfo(void)
{
	sigset_t set = one_signal();
	return sigwaitinfo(&set, NULL);
}

/* They outlive the process unless it removes them. */
static int semaphores[2] = {-1, -1}, messages = -1;

static int semaphore(int which)
{
	if (semaphores[which] < 0)
		semaphores[which] = semget(IPC_PRIVATE, 1, 0600);
	return semaphores[which];
}

static void remove_all(void)
{
	for (int i = 0; i < 2; i++)
		semctl(semaphores[i], 0, IPC_RMID);
	msgctl(messages, IPC_RMID, NULL);
}

static int call_semtimedop(void)
{
	struct sembuf op = {.sem_op = -1};
	return semtimedop(semaphore(0), &op, 1, &minute);
}

static int call_semop(void)
{
	struct sembuf op = {.sem_op = -1};
	return semop(semaphore(1), &op, 1);
}

static int timed_socket(int type)
{
	int fd = socket(AF_UNIX, type, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &minute_us, sizeof minute_us);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &minute_us, sizeof minute_us);
	return fd;
}

static int call_recv(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = timed_socket(SOCK_DGRAM);
	char byte;
	if (bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)))
		abort();
	return (int)recv(fd, &byte, 1, 0);
}

static int call_send(void)
{
	int ends[2];
	static char bytes[1 << 20];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		abort();
	setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &minute_us, sizeof minute_us);
	while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		;
	return (int)send(ends[0], bytes, sizeof bytes, 0);
}

static int call_accept(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = timed_socket(SOCK_STREAM);
	if (bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)) || listen(fd, 1))
		abort();
	return accept(fd, NULL, NULL);
}

static int call_io_getevents(void)
{
	unsigned long context = 0;
	char event[32];
	if (syscall(SYS_io_setup, 1, &context)) /* a kernel without it */
		return call_semop();
	return (int)syscall(SYS_io_getevents, context, 1, 1, event, NULL);
}

/* ---- that the kernel begins again, or goes on with ---- */

static int call_nanosleep(void)
{
	return nanosleep(&minute, NULL);
}

static int call_clock_nanosleep(void)
{
	int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, NULL);
	errno = error;
	return error ? -1 : 0;
}

static int call_poll(void)
{
	return poll(NULL, 0, LONG_S * 1000);
}

static int call_ppoll(void)
{
	sigset_t set = one_signal();
	return ppoll(NULL, 0, &minute, &set);
}

static int call_select(void)
{
	struct timeval length = minute_us;
	return select(0, NULL, NULL, NULL, &length);
}

static int call_pselect(void)
{
	sigset_t set = one_signal();
	return pselect(0, NULL, NULL, NULL, &minute, &set);
}

static int empty_pipe(void)
{
	int ends[2];
	if (pipe(ends))
		abort();
	return ends[0];
}

static int call_read(void)
{
	char byte;
	return (int)read(empty_pipe(), &byte, 1);
}

static int call_inotify(void)
{
	char event[512];
	return (int)read(inotify_init1(0), event, sizeof event);
}

static int call_msgrcv(void)
{
	struct {
		long type;
		char text[8];
	} message;
	if (messages < 0)
		messages = msgget(IPC_PRIVATE, 0600);
	return (int)msgrcv(messages, &message, sizeof message.text, 0, 0);
}

static int call_pause(void)
{
	return pause();
}

static int call_sigsuspend(void)
{
	sigset_t set = one_signal();
	return sigsuspend(&set);
}

static int call_futex(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LONG_S;
	pthread_mutex_lock(&mutex);
	errno = pthread_cond_timedwait(&changed, &mutex, &end);
	return -1;
}

static int call_waitpid(void)
{
	static int ends[2];
	if (pipe(ends))
		abort();
	pid_t child = fork();
	if (!child) {
		char byte;
		close(ends[1]);
		_exit((int)read(ends[0], &byte, 1)); /* until the program ends */
	}
	return waitpid(child, NULL, 0);
}

static int brief_nanosleep(void)
{
	return nanosleep(&brief, NULL);
}

static int brief_poll(void)
{
	return poll(NULL, 0, BRIEF_MS);
}

static int brief_select(void)
{
	struct timeval length = {.tv_usec = BRIEF_MS * 1000};
	return select(0, NULL, NULL, NULL, &length);
}

typedef int (*call_fn)(void);
static const call_fn long_calls[] = {
	call_epoll_wait, call_epoll_pwait,  call_sigtimedwait, call_sigwaitinfo,
	call_semtimedop, call_semop,        call_recv,         call_send,
	call_accept,     call_io_getevents, call_nanosleep,    call_clock_nanosleep,
	call_poll,       call_ppoll,        call_select,       call_pselect,
	call_read,       call_inotify,      call_msgrcv,       call_pause,
	call_sigsuspend, call_futex,        call_waitpid,
};
static const call_fn brief_calls[] = {brief_nanosleep, brief_poll, brief_select};

static _Atomic long rounds[THREADS_MAX], interrupted;

struct waiter {
	call_fn call;
	_Atomic long *rounds;
};

static void *wait_thread(void *given)
{
	struct waiter *waiter = given;
	for (;;) {
		if (waiter->call() < 0 && errno != ETIMEDOUT)
			atomic_fetch_add(&interrupted, 1);
		atomic_fetch_add(waiter->rounds, 1);
	}
	return NULL;
}

/* All threads but this one sleep in the kernel. */
static int all_wait(long count)
{
	long asleep = 0;
	DIR *threads = opendir("/proc/self/task");
	for (struct dirent *each; threads && (each = readdir(threads));) {
		char path[300], text[256] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/stat", each->d_name);
		int fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		asleep += read(fd, text, sizeof text - 1) > 0 && strstr(text, ") S ");
		close(fd);
	}
	if (threads)
		closedir(threads);
	return asleep >= count;
}

static void start(const call_fn *calls, int count)
{
	static struct waiter waiters[THREADS_MAX];
	sigset_t set = one_signal();
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < count; i++) {
		pthread_t thread;
		waiters[i] = (struct waiter){calls[i], &rounds[i]};
		if (pthread_create(&thread, NULL, wait_thread, &waiters[i]))
			abort();
	}
}

/* Until there is input. It is this thread that is borrowed, wherever it stands. */
static int wait_alone(void)
{
	static const struct timespec moment = {.tv_nsec = 200 * 1000};
	struct pollfd input = {.fd = 0, .events = POLLIN};
	long failed = 0, passed = 0;
	dprintf(1, "ready\n");
	for (int got = 0; got <= 0; passed++) {
		failed += nanosleep(&moment, NULL) != 0;
		failed += clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL) != 0;
		failed += poll(NULL, 0, 1) != 0;
		for (int i = 0; i < 1000 && got == 0; i++)
			got = poll(&input, 1, 0);
		failed += got < 0;
		got = got < 0 ? 0 : got;
	}
	dprintf(1, "bad=0 interrupted=%ld least=%ld most=%ld\n", failed, passed, passed);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "alone"))
		return wait_alone();
	int is_brief = argc > 1 && !strcmp(argv[1], "brief");
	int count = (int)(is_brief ? sizeof brief_calls : sizeof long_calls) / (int)sizeof(call_fn);
	long least = -1, most = 0;
	char byte;
	start(is_brief ? brief_calls : long_calls, count);
	while (!is_brief && !all_wait(count))
		usleep(1000);
	dprintf(1, "ready\n");
	if (read(0, &byte, 1) < 0)
		abort();
	for (int i = 0; i < count; i++) {
		long each = atomic_load(&rounds[i]);
		least = least < 0 || each < least ? each : least;
		most = each > most ? each : most;
	}
	dprintf(1, "bad=0 interrupted=%ld least=%ld most=%ld\n", atomic_load(&interrupted), least,
		most);
	remove_all();
	_exit(0);
}
