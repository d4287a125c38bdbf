/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program at a terminal. It says what it sees and obeys single characters on
 * standard input, so that a test needs no clock:
 *   start     "ready foreground=F group=G"
 *   SIGINT    "int", and with argv[1] "stubborn" it goes on, else it ends by the signal
 *   SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT  "term", "hup", ...
 *   'q'       ends with status 5
 */
#include "ledger.h"

#include <signal.h>

LEDGER_SITE(tty_malloc);

SITE void *tty_malloc(size_t n)
{
	return ledger_alloc(&tty_malloc_site, malloc(n), n);
}

static int stubborn;

static const struct {
	int number;
	const char *word;
} words[] = {
	{SIGINT, "int\n"},   {SIGTERM, "term\n"}, {SIGHUP, "hup\n"},   {SIGQUIT, "quit\n"},
	{SIGUSR1, "usr1\n"}, {SIGUSR2, "usr2\n"}, {SIGCONT, "cont\n"}, {SIGWINCH, "winch\n"},
	{SIGALRM, "alrm\n"}, {SIGIO, "io\n"},     {SIGPIPE, "pipe\n"}, {SIGVTALRM, "vtalrm\n"},
};

static void on_signal(int number)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (words[i].number == number)
			say(words[i].word);
	if (number == SIGINT && !stubborn) {
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
	}
}

int main(int argc, char **argv)
{
	char letter = 0;
	stubborn = argc > 1 && !strcmp(argv[1], "stubborn");
	ledger_open("");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		struct sigaction action;
		memset(&action, 0, sizeof action);
		action.sa_handler = on_signal;
		action.sa_flags = SA_RESTART | SA_NODEFER;
		sigaction(words[i].number, &action, NULL);
	}
	for (size_t i = 1; i <= 100; i++)
		KEEP(tty_malloc(i));
	ledger_print("tty", LEDGER_EXACT | LEDGER_PEAK);
	say(tcgetpgrp(0) == getpgrp() ? "ready foreground\n" : "ready background\n");
	while (read(0, &letter, 1) == 1)
		if (letter == 'q')
			return 5;
	return 6;
}
