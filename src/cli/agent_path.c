/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/agent_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/image.h"

static const char *const places[] = {
	"libtidemark.so",
	"../lib/tidemark/libtidemark.so",
	"../lib64/tidemark/libtidemark.so",
	"../lib/x86_64-linux-gnu/tidemark/libtidemark.so",
};

/* Where the tool is. -errno: /proc does not say, and nothing could be recorded without it. */
static int own_folder(char folder[PATH_MAX])
{
	ssize_t bytes = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	if (bytes < 0)
		return -errno;
	folder[bytes] = '\0';
	char *slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	return 0;
}

/* Of the first place that has one: 0, or why it cannot be used. -ENOENT: none has. */
static int find_beside(const char *folder, char path[PATH_MAX], char found[PATH_MAX])
{
	int error = -ENOENT;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		char candidate[PATH_MAX];
		if (snprintf(candidate, PATH_MAX, "%s/%s", folder, places[i]) >= PATH_MAX)
			continue;
		if (access(candidate, R_OK) == 0 && realpath(candidate, path))
			return 0;
		if (error == -ENOENT && errno != ENOENT && errno != ENOTDIR) {
			error = -errno;
			memcpy(found, candidate, PATH_MAX);
		}
	}
	return error;
}

static bool find(char path[PATH_MAX], struct tm_error *err)
{
	char folder[PATH_MAX], found[PATH_MAX];
	const char *chosen = getenv("TIDEMARK_AGENT");
	int error = own_folder(folder);
	if (error) {
		tm_fail(err, error,
			"/proc/self/exe cannot be read (%s): is /proc mounted? Where the agent is "
			"and what the program does is read there",
			strerror(-error));
		return false;
	}
	if (chosen && *chosen) {
		if (access(chosen, R_OK) == 0 && realpath(chosen, path))
			return true;
		tm_fail(err, -errno, "TIDEMARK_AGENT names '%s', which cannot be read: %s", chosen,
			strerror(errno));
		return false;
	}
	error = find_beside(folder, path, found);
	if (error == -ENOENT)
		tm_fail(err, error,
			"the agent (libtidemark.so) is neither beside the tool in '%s' nor in "
			"../lib/tidemark: install both, or set TIDEMARK_AGENT",
			folder);
	else if (error)
		tm_fail(err, error, "the agent '%s' cannot be read: %s", found, strerror(-error));
	return error == 0;
}

bool agent_path_find(char path[PATH_MAX], struct tm_error *err)
{
	return find(path, err) && image_check_version(path, err) == 0;
}
