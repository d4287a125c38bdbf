/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark serve: traces as a page in the browser, and as HTTP for scripts. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/commands.h"
#include "server/server.h"

enum { PATHS_MAX = 1024, SOURCES_MAX = 32 };

enum {
	OPT_LISTEN = 1,
	OPT_OPEN,
	OPT_TOKEN,
	OPT_ALLOW_HOST,
	OPT_SOURCE_MAP,
	OPT_SOURCE_DIR,
	OPT_EDITOR,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_LISTEN, 'l', "listen", "ADDRESS:PORT",
	 "where to listen; 127.0.0.1:8080 if not given, or the next free port"},
	{OPT_OPEN, 'o', "open", NULL, "open the page in the browser"},
	{OPT_TOKEN, 0, "token", "WORD",
	 "what every request must show; made up when listening beyond this machine"},
	{OPT_ALLOW_HOST, 0, "allow-host", "NAME", "one more name by which browsers may call it"},
	{OPT_SOURCE_MAP, 0, "source-map", "FROM=TO",
	 "source files whose names begin with FROM are at TO"},
	{OPT_SOURCE_DIR, 0, "source-dir", "FOLDER", "look for source files in FOLDER, too"},
	{OPT_EDITOR, 0, "editor", "ADDRESS",
	 "where a line opens in your editor; vscode://file/{file}:{line} if not given"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

struct request {
	const char *paths[PATHS_MAX];
	size_t path_count;
	const char *maps[SOURCES_MAX], *folders[SOURCES_MAX];
	size_t map_count, folder_count;
	const char *listen, *token, *allow_host, *editor;
	bool open, help;
};

static void print_help(void)
{
	puts("Usage: tidemark serve [OPTIONS] [FILE|FOLDER]...\n"
	     "\n"
	     "Shows traces in the browser: overview, timeline, flame graph, trees, tables. A\n"
	     "folder shows the traces in it, those of the present folder if none is named. A\n"
	     "trace that is still being written can be watched. Ends with Ctrl-C.\n"
	     "\n"
	     "Only this machine can reach it, unless --listen names another address; then\n"
	     "every request must show a token, which is part of the address that is printed.\n"
	     "\n"
	     "Options:");
	args_print_options(options, sizeof options / sizeof options[0]);
}

/* One more for a list, if it is well-formed and there is room. */
static bool take_source(const char *const option, const char *value, const char **list,
			size_t *count)
{
	bool is_map = !strcmp(option, "--source-map");
	if (is_map && (!strchr(value, '=') || value[0] == '=')) {
		fprintf(stderr, "tidemark serve: '--source-map' takes FROM=TO, not '%s'.\n", value);
		return false;
	}
	if (*count == SOURCES_MAX) {
		fprintf(stderr, "tidemark serve: '%s' may be given %d times.\n", option,
			SOURCES_MAX);
		return false;
	}
	list[(*count)++] = value;
	return true;
}

static bool take_path(struct request *request, const char *path)
{
	if (request->path_count == PATHS_MAX) {
		fprintf(stderr, "tidemark serve: more than %d names: name the folder instead.\n",
			PATHS_MAX);
		return false;
	}
	request->paths[request->path_count++] = path;
	return true;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END) {
		switch (id) {
		case ARGS_ERROR:
			return false;
		case ARGS_WORD:
			if (!take_path(request, value))
				return false;
			break;
		case OPT_SOURCE_MAP:
			if (!take_source("--source-map", value, request->maps, &request->map_count))
				return false;
			break;
		case OPT_SOURCE_DIR:
			if (!take_source("--source-dir", value, request->folders,
					 &request->folder_count))
				return false;
			break;
		case OPT_EDITOR:
			request->editor = value;
			break;
		case OPT_LISTEN:
			request->listen = value;
			break;
		case OPT_OPEN:
			request->open = true;
			break;
		case OPT_TOKEN:
			request->token = value;
			break;
		case OPT_ALLOW_HOST:
			request->allow_host = value;
			break;
		case OPT_HELP:
			request->help = true;
			return true;
		}
	}
	if (!request->path_count)
		request->paths[request->path_count++] = ".";
	return true;
}

static bool has_display(void)
{
	return getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
}

/* Two forks: the browser is nobody's child that we would have to wait for. */
static void open_browser(const char *address)
{
	pid_t child = fork();
	if (!child) {
		if (fork() == 0) {
			execlp("xdg-open", "xdg-open", address, (char *)NULL);
			_exit(127);
		}
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

static void print_address(const struct server *server, bool open)
{
	const char *address = server_address(server);
	size_t count = server_trace_count(server);
	printf("tidemark: %zu %s at %s\n", count, count == 1 ? "trace" : "traces", address);
	if (getenv("SSH_CONNECTION")) {
		char host[256] = "HOST";
		gethostname(host, sizeof host - 1);
		printf("tidemark: from your own machine: ssh -L %u:127.0.0.1:%u %s, then open it "
		       "there\n",
		       server_port(server), server_port(server), host);
	}
	if (open && has_display())
		open_browser(address);
	else if (open)
		puts("tidemark: there is no display here: open the address in a browser");
	puts("tidemark: Ctrl-C ends it");
	fflush(stdout);
}

static void log_line(void *ctx, const char *line)
{
	(void)ctx;
	fprintf(stderr, "tidemark serve: %s\n", line);
}

static int serve(const struct request *request)
{
	const struct server_options server_options = {
		.paths = request->paths,
		.path_count = request->path_count,
		.listen = request->listen,
		.token = request->token,
		.allow_host = request->allow_host,
		.source_maps = request->maps,
		.source_map_count = request->map_count,
		.source_folders = request->folders,
		.source_folder_count = request->folder_count,
		.editor = request->editor ? request->editor : "vscode://file/{file}:{line}",
		.log = log_line,
	};
	struct server *server = NULL;
	struct tm_error err = {0};
	sigset_t ends;
	int got;
	/* Blocked before there are threads: the signals then come to sigwait() only. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (server_start(&server_options, &server, &err)) {
		fprintf(stderr, "tidemark serve: %s.\n", err.text);
		return err.code == -EINVAL ? 2 : 1;
	}
	print_address(server, request->open);
	sigwait(&ends, &got);
	server_stop(server);
	return 0;
}

int cmd_serve(int argc, char **argv)
{
	struct args args = {
		.command = "serve",
		.argc = argc,
		.argv = argv,
		.at = 1,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	static struct request request;
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	return serve(&request);
}
