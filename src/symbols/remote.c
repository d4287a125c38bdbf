/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/remote.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LIBRARY       "libdebuginfod.so.1"
#define PUBLIC_SERVER "https://debuginfod.elfutils.org"

enum { TIMEOUT_DEFAULT_S = 20 };

/* As libdebuginfod.so.1 has them; its header is not needed to build. */
typedef void *(*begin_fn)(void);
typedef void (*end_fn)(void *client);
typedef int (*find_fn)(void *client, const unsigned char *build_id, int bytes, char **ret_path);
typedef int (*progress_fn)(void *client, long done, long total);
typedef void (*set_progress_fn)(void *client, progress_fn progress);
typedef void (*set_data_fn)(void *client, void *data);
typedef void *(*get_data_fn)(void *client);

struct download {
	const struct symbols_options *options;
	const char *name;
	uint64_t limit_ns;
	uint64_t moved_ns; /* when it last came further */
	long done;
	bool timed_out;
};

/* dlsym() gives object pointers; POSIX promises that they hold functions. */
static bool find_symbol(void *library, const char *name, void *ret_function)
{
	void *found = dlsym(library, name);
	memcpy(ret_function, &found, sizeof found);
	return found != NULL;
}

static uint32_t timeout_s(const struct remote *remote)
{
	return remote->options->debuginfod_timeout_s ? remote->options->debuginfod_timeout_s
						     : TIMEOUT_DEFAULT_S;
}

static void __attribute__((format(printf, 2, 3)))
give_up(struct remote *remote, const char *format, ...)
{
	char sentence[480];
	va_list list;
	va_start(list, format);
	vsnprintf(sentence, sizeof sentence, format, list);
	va_end(list);
	remote->is_useless = true;
	if (remote->options->warn)
		remote->options->warn(remote->options->warn_ctx, sentence);
}

/* Asked for, and by whom? The library reads its settings from the environment. */
static bool prepare(struct remote *remote)
{
	const struct symbols_options *options = remote->options;
	const char *set = getenv("DEBUGINFOD_URLS");
	const char *urls = options->debuginfod_urls ? options->debuginfod_urls : set;
	if (options->debuginfod == SYMBOLS_DEBUGINFOD_ON && (!urls || !urls[0]))
		urls = PUBLIC_SERVER;
	if (options->debuginfod == SYMBOLS_DEBUGINFOD_OFF || !urls || !urls[0]) {
		remote->is_useless = true;
		return false;
	}
	char seconds[16];
	snprintf(seconds, sizeof seconds, "%u", timeout_s(remote));
	setenv("DEBUGINFOD_URLS", urls, 1);
	setenv("DEBUGINFOD_TIMEOUT", seconds, 0);
	remote->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!remote->library)
		give_up(remote, "debuginfod is asked for, but its library is not installed: no "
				"debug information is fetched. Install libdebuginfod1");
	return remote->library != NULL;
}

/* The library hands over its client alone: what belongs to it must be asked for. */
static struct download *download_of(void *client)
{
	get_data_fn get_data;
	struct download *download = NULL;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (library && find_symbol(library, "debuginfod_get_user_data", &get_data))
		download = get_data(client);
	if (library)
		dlclose(library);
	return download;
}

static int note_progress(void *client, long done, long total)
{
	struct download *download = download_of(client);
	if (!download)
		return 0;
	uint64_t now = clock_steady_ns();
	if (done != download->done) {
		download->done = done;
		download->moved_ns = now;
	}
	const struct symbols_options *options = download->options;
	if (options->progress)
		options->progress(options->progress_ctx, download->name,
				  done > 0 ? (uint64_t)done : 0, total > 0 ? (uint64_t)total : 0);
	download->timed_out = now - download->moved_ns > download->limit_ns;
	return download->timed_out;
}

/* The path of the file in the library's cache in *ret_path (to be freed), or -errno. */
static int fetch(struct remote *remote, struct download *download, const uint8_t *build_id,
		 uint32_t build_id_bytes, char **ret_path)
{
	begin_fn begin;
	end_fn end;
	find_fn find;
	set_progress_fn set_progress;
	set_data_fn set_data;
	if (!find_symbol(remote->library, "debuginfod_begin", &begin) ||
	    !find_symbol(remote->library, "debuginfod_end", &end) ||
	    !find_symbol(remote->library, "debuginfod_find_debuginfo", &find) ||
	    !find_symbol(remote->library, "debuginfod_set_progressfn", &set_progress) ||
	    !find_symbol(remote->library, "debuginfod_set_user_data", &set_data))
		return -ENOSYS;
	void *client = begin();
	if (!client)
		return -ENOMEM;
	set_data(client, download);
	set_progress(client, note_progress);
	int fd = find(client, build_id, (int)build_id_bytes, ret_path);
	end(client);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void say_failure(struct remote *remote, const struct download *download, int code)
{
	if (download->timed_out || code == -ETIME || code == -ETIMEDOUT)
		give_up(remote,
			"debuginfod sent nothing for %u s: no more debug information is fetched. "
			"Names come from the files of this machine",
			timeout_s(remote));
	else
		give_up(remote,
			"debuginfod does not answer for '%s' (%s): no more debug information is "
			"fetched. Check the servers in DEBUGINFOD_URLS (%s)",
			download->name, strerror(-code), getenv("DEBUGINFOD_URLS"));
}

int remote_open(struct remote *remote, struct elffile *ret_file, const char *name,
		const uint8_t *build_id, uint32_t build_id_bytes)
{
	if (remote->is_useless || !build_id_bytes || (!remote->library && !prepare(remote)))
		return -ENOENT;
	struct download download = {
		.options = remote->options,
		.name = name,
		.limit_ns = timeout_s(remote) * 1000000000ull,
		.moved_ns = clock_steady_ns(),
		.done = -1,
	};
	char *path = NULL;
	int code = fetch(remote, &download, build_id, build_id_bytes, &path);
	/* A server that does not know the build is one that answers. */
	if (code && code != -ENOENT)
		say_failure(remote, &download, code);
	if (!code)
		code = elffile_open(ret_file, "", path, NULL);
	free(path);
	return code;
}

void remote_done(struct remote *remote)
{
	if (remote->library)
		dlclose(remote->library);
	remote->library = NULL;
}
