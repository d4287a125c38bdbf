/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_follow.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/traces.h"

enum { TRIES = 50, RETRY_NS = 100000000 };

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

/* Says whether the file has changed since the last call. */
static bool has_changed(const char *path, struct stat *last)
{
	struct stat now;
	if (stat(path, &now))
		return true;
	bool same = now.st_size == last->st_size && now.st_mtim.tv_sec == last->st_mtim.tv_sec &&
		    now.st_mtim.tv_nsec == last->st_mtim.tv_nsec && now.st_ino == last->st_ino;
	*last = now;
	return !same;
}

static void wait_for(uint64_t nanoseconds)
{
	const struct timespec time = {.tv_sec = (time_t)(nanoseconds / 1000000000u),
				      .tv_nsec = (long)(nanoseconds % 1000000000u)};
	nanosleep(&time, NULL);
}

/* What does not fit on the screen would scroll away what stands above it. */
static void cut_to_screen(struct out *out)
{
	char *at = out->text.data;
	for (unsigned line = 1; at && line < out->height; line++) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	if (at && at > out->text.data && *at) {
		out->text.length = (size_t)(at - out->text.data) - 1;
		out->text.data[out->text.length] = '\0';
	}
}

/* Prints once; *ret_complete says whether that was the last time. -EIO: the output failed. */
static int show(const struct report_options *options, bool first, bool *ret_complete,
		struct tm_error *err)
{
	struct out out;
	out_init(&out, options->color);
	out.exact = options->exact;
	out.full_names = options->full_names;
	bool terminal = out.height > 0;
	if (terminal)
		text_put(&out.text, "\033[H\033[J");
	else if (!first && !options->json && !options->csv)
		text_put(&out.text, "\n----\n\n");
	int code = report_print(options, &out, ret_complete, err);
	if (code) {
		text_done(&out.text);
		return code;
	}
	if (terminal && !*ret_complete)
		cut_to_screen(&out);
	return out_finish(&out) ? -EIO : 0;
}

/* A file that is just being made or written may be met in an odd state. */
static bool may_pass(int code)
{
	return code == -ENODATA || code == -EBADMSG || code == -ENOENT;
}

int report_follow(const struct report_options *options)
{
	const struct sigaction action = {.sa_handler = stop};
	struct stat last = {0};
	bool complete = false, first = true;
	int tries = 0;
	stopped = 0;
	while (!complete && !stopped) {
		struct tm_error err = {0};
		/* Again each time: long work in between has its own way of being stopped. */
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
		if (!has_changed(options->path, &last) && !tries) {
			wait_for(options->interval_ns);
			continue;
		}
		int code = show(options, first, &complete, &err);
		if (code && may_pass(code) && ++tries < TRIES) {
			complete = false;
			wait_for(RETRY_NS);
			continue;
		}
		if (code) {
			if (code != -EIO)
				traces_complain("report", &err);
			return code == -EINVAL ? 2 : 1;
		}
		first = false;
		tries = 0;
		if (!complete && !stopped)
			wait_for(options->interval_ns);
	}
	return 0;
}
