/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark serve: traces as a page in the browser, and as HTTP for scripts. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/progress.h"
#include "cli/recorder.h"
#include "cli/settings.h"
#include "cli/traces.h"
#include "server/server.h"

enum { PATHS_MAX = 1024 };

enum {
	OPT_LISTEN = 1,
	OPT_OPEN,
	OPT_TOKEN,
	OPT_ALLOW_HOST,
	OPT_SOURCE_MAP,
	OPT_SOURCE_DIR,
	OPT_EDITOR,
	OPT_SAVE,
	OPT_METRICS_ONLY,
	OPT_PUSH,
	OPT_PUSH_INTERVAL,
	OPT_PUSH_ONLY,
	OPT_RECORDER,
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
	{OPT_SAVE, 0, "save", NULL,
	 "keep --source-map, --source-dir and --editor for the next times"},
	{OPT_METRICS_ONLY, 0, "metrics-only", NULL,
	 "answer nothing but /metrics, which Prometheus reads"},
	{OPT_PUSH, 0, "push", "URL",
	 "send a profile (pprof) of what is being recorded to URL, again and again"},
	{OPT_PUSH_INTERVAL, 0, "push-interval", "TIME", "how often; 60s if not given"},
	{OPT_PUSH_ONLY, 0, "push-only", NULL, "listen nowhere"},
	{OPT_RECORDER, 0, "recorder", "PID",
	 "the process that records: its CPU time, memory and further files are told, too"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

struct request {
	const char *paths[PATHS_MAX];
	const char *names[PATHS_MAX]; /* of imported ones; else NULL */
	char opened[PATHS_MAX][TRACES_NAME_BYTES];
	size_t path_count;
	struct settings given; /* on the command line */
	struct settings kept;  /* in the settings file */
	const char *listen, *token, *allow_host;
	const char *push;
	uint64_t push_interval_ns;
	bool open, save, metrics_only, push_only, help;
	uint64_t recorder; /* pid; 0 = none */
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
	     "What --save keeps stands in ~/.config/tidemark/settings, a line per option without\n"
	     "its dashes; options on the command line come first.\n"
	     "\n"
	     "Options:");
	args_print_options(options, sizeof options / sizeof options[0]);
	foreign_print_options();
}

/* One more for a list, if it is well-formed and there is room. */
static bool take_source(const char *const option, const char *value, const char **list,
			size_t *count)
{
	bool is_map = !strcmp(option, "--source-map");
	if (is_map && !settings_is_map(value)) {
		fprintf(stderr, "tidemark serve: '--source-map' takes FROM=TO, not '%s'.\n", value);
		return false;
	}
	if (*count == SETTINGS_SOURCES_MAX) {
		fprintf(stderr, "tidemark serve: '%s' may be given %d times.\n", option,
			SETTINGS_SOURCES_MAX);
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

static bool take_interval(struct request *request, const char *value)
{
	struct tm_error err = {0};
	if (!units_parse_duration(value, &request->push_interval_ns, &err))
		return true;
	fprintf(stderr, "tidemark serve: %s\n", err.text);
	return false;
}

/* What makes sense only together. */
static bool is_consistent(const struct request *request)
{
	if ((request->push_only || request->push_interval_ns) && !request->push)
		fputs("tidemark serve: nothing says where profiles go: add --push URL.\n", stderr);
	else if (request->push_only && request->metrics_only)
		fputs("tidemark serve: '--push-only' listens nowhere, '--metrics-only' does: "
		      "which?\n",
		      stderr);
	else
		return true;
	return false;
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
			if (!take_source("--source-map", value, request->given.maps,
					 &request->given.map_count))
				return false;
			break;
		case OPT_SOURCE_DIR:
			if (!take_source("--source-dir", value, request->given.folders,
					 &request->given.folder_count))
				return false;
			break;
		case OPT_EDITOR:
			request->given.editor = value;
			break;
		case OPT_SAVE:
			request->save = true;
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
		case OPT_METRICS_ONLY:
			request->metrics_only = true;
			break;
		case OPT_PUSH:
			request->push = value;
			break;
		case OPT_PUSH_INTERVAL:
			if (!take_interval(request, value))
				return false;
			break;
		case OPT_PUSH_ONLY:
			request->push_only = true;
			break;
		case OPT_RECORDER:
			if (!args_number(args, "--recorder", value, INT32_MAX, &request->recorder))
				return false;
			break;
		case OPT_HELP:
			request->help = true;
			return true;
		}
	}
	if (!request->path_count)
		request->paths[request->path_count++] = ".";
	return is_consistent(request);
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

static void print_address(const struct server *server, const struct request *request)
{
	const char *address = server_address(server);
	size_t count = server_trace_count(server);
	bool open = request->open && !request->push_only;
	if (request->push)
		printf("tidemark: pushing profiles to %s\n", request->push);
	if (request->metrics_only)
		printf("tidemark: figures for Prometheus at %.*smetrics%s\n",
		       (int)strcspn(address, "?"), address, address + strcspn(address, "?"));
	else if (!request->push_only)
		printf("tidemark: %zu %s at %s\n", count, count == 1 ? "trace" : "traces", address);
	if (getenv("SSH_CONNECTION") && !request->push_only) {
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

static bool find_usage(void *ctx, uint64_t *ret_cpu_ns, uint64_t *ret_bytes)
{
	const uint64_t *pid = ctx;
	return recorder_usage(*pid, ret_cpu_ns, ret_bytes);
}

static void find_recordings(void *ctx, server_recording_fn fn, void *fn_ctx)
{
	const uint64_t *pid = ctx;
	recorder_recordings(*pid, fn, fn_ctx);
}

/* The line on the terminal; files may be read by several threads. */
struct reading {
	pthread_mutex_t lock;
	struct progress progress;
};

/* While a file without an index is read. Ctrl-C ends the server, and with it the reading. */
static void tell_progress(void *ctx, const char *path, uint64_t done, uint64_t total)
{
	struct reading *reading = ctx;
	struct progress *progress = &reading->progress;
	(void)path;
	pthread_mutex_lock(&reading->lock);
	if (done >= total) {
		if (progress->shown)
			fputs("\r\033[K", stderr);
		*progress = (struct progress){0};
	} else {
		if (!progress->start_ns)
			progress_watch(progress, "reading the trace", "events");
		(void)progress_tell(progress, done, total);
	}
	pthread_mutex_unlock(&reading->lock);
}

/* The names of the one after those of the other, as many as there is room for. */
static void join_names(const char **list, size_t *count, const char *const *more, size_t more_count)
{
	for (size_t i = 0; i < more_count && *count < SETTINGS_SOURCES_MAX; i++)
		list[(*count)++] = more[i];
}

/* The settings file behind what was given; and, if that is wanted, what was given into it. */
static int join_settings(struct request *request, struct tm_error *err)
{
	struct settings *given = &request->given, *kept = &request->kept;
	struct text path = {0};
	int code = settings_path(&path, err);
	if (code && !request->save)
		code = 0; /* nobody has settings here */
	else if (!code)
		code = settings_read(text_string(&path), kept, err);
	if (!code) {
		join_names(given->maps, &given->map_count, kept->maps, kept->map_count);
		join_names(given->folders, &given->folder_count, kept->folders, kept->folder_count);
		if (!given->editor)
			given->editor = kept->editor;
	}
	if (!code && request->save)
		code = settings_write(text_string(&path), given, err);
	text_done(&path);
	return code;
}

/* Files of other tools, and standard input, become temporary traces that keep their names. */
static int import_files(struct request *request, struct tm_error *err)
{
	int code = 0;
	for (size_t i = 0; i < request->path_count && !code; i++) {
		const char *path = request->paths[i];
		struct stat status;
		/* A folder, a trace that is only beginning, or what cannot be opened. */
		if (strcmp(path, "-") != 0 &&
		    (stat(path, &status) || !S_ISREG(status.st_mode) || !status.st_size))
			continue;
		code = traces_resolve(path, request->opened[i], &request->paths[i], err);
		if (request->paths[i] != path)
			request->names[i] = path;
	}
	return code;
}

static int serve(struct request *request)
{
	struct reading reading = {.lock = PTHREAD_MUTEX_INITIALIZER};
	const struct server_options server_options = {
		.paths = request->paths,
		.names = request->names,
		.path_count = request->path_count,
		.listen = request->listen,
		.token = request->token,
		.allow_host = request->allow_host,
		.source_maps = request->given.maps,
		.source_map_count = request->given.map_count,
		.source_folders = request->given.folders,
		.source_folder_count = request->given.folder_count,
		.editor = request->given.editor ? request->given.editor
						: "vscode://file/{file}:{line}",
		.progress = tell_progress,
		.progress_ctx = &reading,
		.metrics_only = request->metrics_only,
		.push_only = request->push_only,
		.push_url = request->push,
		.push_interval_ns = request->push_interval_ns,
		.recorder = request->recorder ? find_usage : NULL,
		.recordings = request->recorder ? find_recordings : NULL,
		.recorder_ctx = (void *)(uintptr_t)&request->recorder,
		.log = log_line,
	};
	struct server *server = NULL;
	struct tm_error err = {0};
	sigset_t ends;
	int got;
	if (import_files(request, &err)) {
		fprintf(stderr, "tidemark serve: %s.\n", err.text);
		return 1;
	}
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
	print_address(server, request);
	sigwait(&ends, &got);
	server_stop(server);
	return 0;
}

int cmd_serve(int argc, char **argv)
{
	struct args args = ARGS_OF("serve", argc, argv, options);
	args.shared = &foreign_args;
	static struct request request;
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	struct tm_error err = {0};
	if (join_settings(&request, &err)) {
		fprintf(stderr, "tidemark serve: %s.\n", err.text);
		return 2;
	}
	int status = serve(&request);
	settings_done(&request.kept);
	return status;
}
