/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/agent_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/image.h"

static bool is_file(char *path, const char *folder, const char *rest)
{
	return snprintf(path, PATH_MAX, "%s/%s", folder, rest) < PATH_MAX &&
	       access(path, R_OK) == 0;
}

static bool find(char path[PATH_MAX], struct tm_error *err)
{
	static const char *const places[] = {
		"libtidemark.so",
		"../lib/tidemark/libtidemark.so",
		"../lib64/tidemark/libtidemark.so",
		"../lib/x86_64-linux-gnu/tidemark/libtidemark.so",
	};
	char folder[PATH_MAX], found[PATH_MAX];
	const char *chosen = getenv("TIDEMARK_AGENT");
	if (chosen && *chosen) {
		if (access(chosen, R_OK) == 0 && realpath(chosen, path))
			return true;
		tm_fail(err, -errno, "TIDEMARK_AGENT names '%s', which cannot be read: %s", chosen,
			strerror(errno));
		return false;
	}
	ssize_t bytes = readlink("/proc/self/exe", folder, sizeof folder - 1);
	folder[bytes > 0 ? bytes : 0] = '\0';
	char *slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		if (is_file(found, folder, places[i]) && realpath(found, path))
			return true;
	tm_fail(err, -ENOENT,
		"the agent (libtidemark.so) is neither beside the tool in '%s' nor in "
		"../lib/tidemark: install both, or set TIDEMARK_AGENT",
		folder);
	return false;
}

bool agent_path_find(char path[PATH_MAX], struct tm_error *err)
{
	return find(path, err) && image_check_version(path, err) == 0;
}
