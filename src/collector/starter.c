/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/starter.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"

static const char *const starters[] = {
	"ash",       "bash",
	"busybox",   "bwrap",
	"bundle",    "cargo",
	"catchsegv", "chpst",
	"chroot",    "chrt",
	"cmake",     "corepack",
	"ctest",     "dash",
	"dumb-init", "env",
	"fish",      "flock",
	"gmake",     "gosu",
	"ionice",    "just",
	"ksh",       "ksh93",
	"lksh",      "make",
	"meson",     "mksh",
	"nice",      "ninja",
	"nohup",     "npm",
	"npx",       "nsenter",
	"numactl",   "pnpm",
	"prlimit",   "rustup",
	"runuser",   "samu",
	"script",    "setarch",
	"setpriv",   "setsid",
	"sh",        "start-stop-daemon",
	"stdbuf",    "su-exec",
	"taskset",   "tcsh",
	"csh",       "time",
	"timeout",   "tini",
	"unshare",   "uv",
	"watch",     "xargs",
	"yarn",      "zsh",
};

/* Scripts of node, python or ruby that start programs. */
static const char *const starter_scripts[] = {
	"bundle", "corepack", "corepack.js", "meson",  "npm", "npm-cli.js", "npx",     "npx-cli.js",
	"pipenv", "pnpm",     "pnpm.cjs",    "poetry", "tox", "yarn",       "yarn.js", "yarnpkg",
};

static const char *const script_hosts[] = {"node", "nodejs", "bun", "python", "python3", "ruby"};

static const char *const build_tools[] = {
	"ar",
	"as",
	"c++",
	"cc",
	"cc1",
	"cc1plus",
	"clang",
	"clang++",
	"collect2",
	"cpp",
	"f951",
	"g++",
	"gcc",
	"gfortran",
	"gold",
	"ld",
	"ld.bfd",
	"ld.gold",
	"ld.lld",
	"lld",
	"lto-wrapper",
	"lto1",
	"mold",
	"nim",
	"nm",
	"objcopy",
	"objdump",
	"pkg-config",
	"pkgconf",
	"ranlib",
	"rustc",
	"rustdoc",
	"sccache",
	"ccache",
	"strip",
	"build-script-build",
	"clippy-driver",
};

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* "x86_64-linux-gnu-gcc-12" is "gcc", "python3.11" is "python3". */
static bool same_name(const char *name, const char *known)
{
	size_t bytes = strlen(known);
	for (const char *at = name; at; at = strchr(at, '-')) {
		at += *at == '-';
		if (strncmp(at, known, bytes) == 0 &&
		    (!at[bytes] ||
		     (strchr("-.", at[bytes]) && at[bytes + 1] >= '0' && at[bytes + 1] <= '9')))
			return at == name || strncmp(name, "x86_64-", 7) == 0;
	}
	return false;
}

static bool listed(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (same_name(name, list[i]))
			return true;
	return false;
}

#define LISTED(name, list) listed(name, list, sizeof(list) / sizeof(list)[0])

enum starter_role starter_role(const char *program, const char *first_argument)
{
	const char *name = last_part(program);
	if (LISTED(name, starters))
		return STARTER_STARTER;
	if (LISTED(name, script_hosts) && LISTED(last_part(first_argument), starter_scripts))
		return STARTER_STARTER;
	/* cargo names the scripts it builds build-script-build or build-script-main. */
	if (LISTED(name, build_tools) || strncmp(name, "build-script-", 13) == 0)
		return STARTER_BUILD_TOOL;
	return STARTER_PROGRAM;
}

enum starter_role starter_role_of(pid_t pid)
{
	char link[64], program[4096];
	struct text command = {0};
	snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
	ssize_t bytes = readlink(link, program, sizeof program - 1);
	program[bytes > 0 ? bytes : 0] = '\0';
	snprintf(link, sizeof link, "/proc/%d/cmdline", (int)pid);
	const char *second = "";
	if (!io_read_file(link, 4 * 1024 * 1024, &command)) {
		size_t first = strlen(text_string(&command));
		if (first + 1 < command.length)
			second = text_string(&command) + first + 1;
	}
	enum starter_role role = starter_role(program, second);
	text_done(&command);
	return role;
}
