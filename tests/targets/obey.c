/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does what it is told, line by line, and answers each with "ok": so a test knows
 * what happened before a switch was turned and what after. No stdio, which would
 * allocate.
 *
 *   early N SIZE   N blocks of SIZE, kept; likewise `pause` and `late`
 *   free WHICH N   frees the N oldest of early, pause or late
 *   grow WHICH N SIZE   reallocs the N oldest to SIZE
 *   churn T N      T threads, each N times a block of 48 bytes and one of 80, the latter kept for
 *                  8 rounds; all are freed at the end
 *   storm T        T threads do so for ever
 *   catch          its own handler for SIGUSR1, which counts; `caught` answers "caught N"
 *   usr1           answers "default", "ignored" or "handler": what SIGUSR1 does now
 *   children       answers "children N": how many wait() gives, and "none" is ECHILD
 *   fork           forks a child that allocates, and waits for it
 *   no_tsc         forbids reading the time-stamp counter
 *   vfork          a child that borrows the memory executes a program
 *   exec ARGUMENT  executes itself again
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE __attribute__((noipa, used))

enum { BLOCKS = 100000, KEPT = 8 };

struct pile {
	const char *name;
	void *(*make)(size_t bytes);
	void *blocks[BLOCKS];
	size_t first, end;
};

/* Not a tail call: the frame must be there. */
#define MAKER(name)                          \
	SITE static void *name(size_t bytes) \
	{                                    \
		char *block = malloc(bytes); \
		if (block)                   \
			block[0] = 1;        \
		return block;                \
	}
MAKER(make_early)
MAKER(make_pause)
MAKER(make_late)

static struct pile piles[] = {
	{.name = "early", .make = make_early},
	{.name = "pause", .make = make_pause},
	{.name = "late", .make = make_late},
};
static volatile sig_atomic_t caught;

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(1);
}

static void say_number(const char *before, unsigned long number)
{
	char digits[24], *at = digits + sizeof digits;
	*--at = '\0';
	*--at = '\n';
	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	say(before);
	say(at);
}

static struct pile *find(const char *name)
{
	for (size_t i = 0; i < sizeof piles / sizeof piles[0]; i++)
		if (!strcmp(piles[i].name, name))
			return &piles[i];
	_exit(2);
}

static void make(struct pile *pile, size_t count, size_t bytes)
{
	for (size_t i = 0; i < count && pile->end < BLOCKS; i++)
		pile->blocks[pile->end++] = pile->make(bytes);
}

static void release(struct pile *pile, size_t count)
{
	for (size_t i = 0; i < count && pile->first < pile->end; i++)
		free(pile->blocks[pile->first++]);
}

SITE static void grow(struct pile *pile, size_t count, size_t bytes)
{
	for (size_t i = 0; i < count && pile->first + i < pile->end; i++) {
		void *bigger = realloc(pile->blocks[pile->first + i], bytes);
		if (bigger)
			pile->blocks[pile->first + i] = bigger;
	}
}

SITE static void *churn_one(void *argument)
{
	size_t count = (size_t)argument;
	char *kept[KEPT] = {0};
	for (size_t i = 0; i < count; i++) {
		char *block = malloc(48);
		free(kept[i % KEPT]);
		kept[i % KEPT] = malloc(80);
		__asm__ volatile("" : : "r"(block) : "memory");
		free(block);
	}
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	return NULL;
}

static void churn(size_t threads, size_t count)
{
	pthread_t ids[64];
	threads = threads > 64 ? 64 : threads;
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, churn_one, (void *)count))
			_exit(3);
	for (size_t i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}

/* Never ends. */
static void *storm_one(void *argument)
{
	for (;;)
		churn_one((void *)(size_t)1000);
	return argument;
}

static void storm(size_t threads)
{
	pthread_t id;
	while (threads--)
		if (pthread_create(&id, NULL, storm_one, NULL))
			_exit(3);
}

static void count_signal(int number)
{
	(void)number;
	caught++;
}

static void install(void)
{
	struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
}

static const char *disposition(void)
{
	struct sigaction now;
	sigaction(SIGUSR1, NULL, &now);
	if (now.sa_handler == SIG_DFL)
		return "default\n";
	return now.sa_handler == SIG_IGN ? "ignored\n" : "handler\n";
}

static void wait_for_all(void)
{
	unsigned long count = 0;
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		count++;
	if (pid == 0)
		say("children running\n");
	else if (!count)
		say(errno == ECHILD ? "children none\n" : "children failed\n");
	else
		say_number("children ", count);
}

static void fork_one(void)
{
	int status = 0;
	pid_t pid = fork();
	if (!pid) {
		void *block = malloc(10);
		free(block);
		_exit(7);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 7)
		_exit(4);
}

static void vfork_one(void)
{
	int status = -1;
	char *arguments[] = {"true", NULL};
	pid_t pid = vfork();
	if (!pid) {
		execve("/bin/true", arguments, environ);
		_exit(8);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(4);
}

static int words_of(char *line, char *words[4])
{
	int count = 0;
	for (char *at = strtok(line, " "); at && count < 4; at = strtok(NULL, " "))
		words[count++] = at;
	return count;
}

static void obey(char *line, char **argv)
{
	char *words[4] = {"", "", "", ""};
	if (!words_of(line, words))
		return;
	unsigned long a = strtoul(words[1], NULL, 10), b = strtoul(words[2], NULL, 10);
	const char *verb = words[0];
	if (!strcmp(verb, "free"))
		release(find(words[1]), b);
	else if (!strcmp(verb, "grow"))
		grow(find(words[1]), b, strtoul(words[3], NULL, 10));
	else if (!strcmp(verb, "churn"))
		churn(a, b);
	else if (!strcmp(verb, "storm"))
		storm(a);
	else if (!strcmp(verb, "catch"))
		install();
	else if (!strcmp(verb, "caught"))
		say_number("caught ", (unsigned long)caught);
	else if (!strcmp(verb, "usr1"))
		say(disposition());
	else if (!strcmp(verb, "children"))
		wait_for_all();
	else if (!strcmp(verb, "fork"))
		fork_one();
	else if (!strcmp(verb, "vfork"))
		vfork_one();
	else if (!strcmp(verb, "no_tsc"))
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	else if (!strcmp(verb, "exec"))
		execv("/proc/self/exe", argv);
	else
		make(find(verb), a, b);
	say("ok\n");
}

int main(int argc, char **argv)
{
	char line[200];
	size_t used = 0;
	(void)argc;
	say("ready\n");
	for (;;) {
		ssize_t got = read(0, line + used, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		if (line[used] == '\n') {
			line[used] = '\0';
			used = 0;
			obey(line, argv);
		} else if (used < sizeof line - 1) {
			used++;
		}
	}
}
