/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "server/post.h"

/* Out of the terminal's group: Ctrl-C is for the program, and for us. */
static void become_server(const struct run_serve *serve, const char *path, int out_fd)
{
	const char *argv[16];
	char recorder[16];
	size_t count = 0;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	snprintf(recorder, sizeof recorder, "%d", (int)getppid());
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(out_fd, STDOUT_FILENO);
	argv[count++] = "tidemark";
	argv[count++] = "serve";
	if (serve->listen) {
		argv[count++] = "--listen";
		argv[count++] = serve->listen;
	}
	if (serve->metrics_only)
		argv[count++] = serve->listen ? "--metrics-only" : "--push-only";
	if (serve->push) {
		argv[count++] = "--push";
		argv[count++] = serve->push;
	}
	if (serve->push_interval) {
		argv[count++] = "--push-interval";
		argv[count++] = serve->push_interval;
	}
	argv[count++] = "--recorder";
	argv[count++] = recorder;
	argv[count++] = "--";
	argv[count++] = path;
	argv[count] = NULL;
	execv("/proc/self/exe", (char *const *)(void *)argv);
	_exit(127);
}

/* Its lines up to the last, which begins with "tidemark: Ctrl-C". */
static void pass_lines(const struct run_serve *serve, int fd, FILE *front)
{
	FILE *lines = fdopen(fd, "r");
	char line[512];
	bool more = lines != NULL;
	while (more && fgets(line, sizeof line, lines)) {
		more = strncmp(line, "tidemark: Ctrl-C", 16) != 0;
		if (more && !serve->quiet)
			fputs(line, front);
	}
	if (lines)
		fclose(lines);
	else
		close(fd);
}

static void start(struct run_serve *serve, const char *path, FILE *front)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC)) {
		perror("tidemark run: no page");
		return;
	}
	pid_t pid = fork();
	if (!pid)
		become_server(serve, path, ends[1]);
	close(ends[1]);
	if (pid < 0) {
		perror("tidemark run: no page");
		close(ends[0]);
		return;
	}
	serve->pid = pid;
	pass_lines(serve, ends[0], front);
	/* It could not listen: it has said why. */
	if (waitpid(pid, NULL, WNOHANG) == pid)
		serve->pid = 0;
}

static void wait_for(struct run_serve *serve)
{
	sigset_t ends;
	int got;
	if (!serve->pid)
		return;
	if (serve->metrics_only) {
		/* It may push a last profile. */
		kill(serve->pid, SIGTERM);
		waitpid(serve->pid, NULL, 0);
		serve->pid = 0;
		return;
	}
	if (!serve->quiet)
		fputs("tidemark: the page stays until Ctrl-C\n", stderr);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	while (waitpid(serve->pid, NULL, WNOHANG) == 0) {
		if (!sigwait(&ends, &got) && got != SIGCHLD)
			kill(serve->pid, SIGTERM);
	}
	serve->pid = 0;
}

void run_servers_metrics(struct run_servers *servers, const char *listen)
{
	servers->metrics.listen = listen;
	servers->metrics.wanted = servers->metrics.metrics_only = true;
}

void run_servers_push(struct run_servers *servers, const char *url)
{
	servers->metrics.push = url;
	servers->metrics.wanted = servers->metrics.metrics_only = true;
}

bool run_servers_check(const struct run_servers *servers, const char *command)
{
	const struct run_serve *metrics = &servers->metrics;
	struct post_url url;
	struct tm_error err = {0};
	uint64_t interval_ns;
	if (metrics->push_interval && !metrics->push)
		tm_fail(&err, -EINVAL, "nothing says where profiles go: add --push URL.");
	int code = err.code;
	if (!code && metrics->push)
		code = post_url_parse(metrics->push, &url, &err);
	if (!code && metrics->push_interval)
		code = units_parse_duration(metrics->push_interval, &interval_ns, &err);
	if (code)
		fprintf(stderr, "tidemark %s: %s\n", command, err.text);
	return !code;
}

void run_servers_start(struct run_servers *servers, const char *path, bool quiet, FILE *front)
{
	servers->page.quiet = quiet;
	servers->metrics.quiet = quiet;
	if (servers->page.wanted)
		start(&servers->page, path, front);
	if (servers->metrics.wanted)
		start(&servers->metrics, path, front);
}

void run_servers_wait(struct run_servers *servers)
{
	wait_for(&servers->metrics);
	wait_for(&servers->page);
}
