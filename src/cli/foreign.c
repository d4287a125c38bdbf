/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "cli/progress.h"

enum {
	COPY_BYTES = 256 << 10,
	DEBUG_DIRS_MAX = 32,
	DEBUG_DIRS_BYTES = 8 << 10,
};

/* ---- where names are looked for ---- */

enum { OPT_SYSROOT = 1, OPT_DEBUG_DIR };

static const struct args_option options[] = {
	{OPT_SYSROOT, 0, "sysroot", "DIR", "look for programs and libraries below DIR first"},
	{OPT_DEBUG_DIR, 0, "debug-dir", "DIR",
	 "look for debug files in DIR, as in /usr/lib/debug; may be repeated"},
};

static bool refuse(const struct args *args, const char *option, const char *value, const char *why)
{
	fprintf(stderr, "tidemark %s: --%s '%s': %s.\n", args->command, option, value, why);
	return false;
}

static bool add_debug_dir(const struct args *args, const char *folder)
{
	char all[DEBUG_DIRS_BYTES];
	const char *before = getenv("TIDEMARK_DEBUG_DIR");
	if (strchr(folder, ':'))
		return refuse(args, "debug-dir", folder, "a path with a colon cannot be named");
	int used = snprintf(all, sizeof all, "%s%s%s", before ? before : "",
			    before && *before ? ":" : "", folder);
	if (used >= (int)sizeof all)
		return refuse(args, "debug-dir", folder, "these are too many folders");
	return !setenv("TIDEMARK_DEBUG_DIR", all, 1);
}

static bool take_option(const struct args *args, int id, const char *value)
{
	struct stat status;
	const char *option = id == OPT_SYSROOT ? "sysroot" : "debug-dir";
	if (stat(value, &status))
		return refuse(args, option, value, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return refuse(args, option, value, "this is not a folder");
	return id == OPT_SYSROOT ? !setenv("TIDEMARK_SYSROOT", value, 1)
				 : add_debug_dir(args, value);
}

const struct args_shared foreign_args = {
	.options = options,
	.count = sizeof options / sizeof options[0],
	.take = take_option,
};

void foreign_print_options(void)
{
	puts("\nFor files of other tools that have addresses but no names:");
	args_print_options(options, sizeof options / sizeof options[0]);
}

struct places {
	const char *sysroot;
	const char *debug_dirs[DEBUG_DIRS_MAX];
	size_t debug_dir_count;
	char text[DEBUG_DIRS_BYTES];
};

static void find_places(struct places *places)
{
	const char *sysroot = getenv("TIDEMARK_SYSROOT"), *folders = getenv("TIDEMARK_DEBUG_DIR");
	places->sysroot = sysroot && *sysroot ? sysroot : NULL;
	places->debug_dir_count = 0;
	snprintf(places->text, sizeof places->text, "%s", folders ? folders : "");
	char *rest, *folder = strtok_r(places->text, ":", &rest);
	for (; folder && places->debug_dir_count < DEBUG_DIRS_MAX;
	     folder = strtok_r(NULL, ":", &rest))
		places->debug_dirs[places->debug_dir_count++] = folder;
}

/* ---- importing ---- */

/* A file without a name. */
static int open_temporary(int *ret_fd, struct tm_error *err)
{
	char path[PATH_MAX];
	const char *folder = getenv("TMPDIR");
	if (!folder || !*folder)
		folder = "/tmp";
	if (snprintf(path, sizeof path, "%s/tidemark.XXXXXX", folder) >= (int)sizeof path)
		return tm_fail(err, -ENAMETOOLONG, "TMPDIR is too long a path");
	int fd = mkstemp(path);
	if (fd < 0)
		return tm_fail(err, -errno,
			       "no temporary file in '%s': %s; set TMPDIR to a folder with room",
			       folder, strerror(errno));
	unlink(path);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	*ret_fd = fd;
	return 0;
}

/* What cannot be read twice is put into a file first. */
static int spool(int from, int to, const char *name, struct tm_error *err)
{
	static char buffer[COPY_BYTES];
	struct progress progress;
	uint64_t done = 0;
	size_t got = 0;
	progress_begin(&progress, "reading", "B");
	int code = 0;
	do {
		code = io_read(from, buffer, sizeof buffer, &got);
		if (!code)
			code = io_write(to, buffer, got);
		done += got;
		if (!code)
			code = progress_tell(&progress, done, 0);
	} while (!code && got > 0);
	progress_end(&progress);
	if (code == -ECANCELED)
		return tm_fail(err, code, "stopped");
	if (!code && !done)
		return tm_fail(err, -ENODATA, "'%s' is an empty pipe: nobody writes to it", name);
	return code ? tm_fail(err, code, "'%s' cannot be read: %s", name, strerror(-code)) : 0;
}

/* The file, or a copy of what a pipe has; *ret_copied: path does not name it. */
static int open_input(const char *path, int *ret_fd, bool *ret_copied, struct tm_error *err)
{
	bool is_standard = !strcmp(path, "-");
	struct stat status;
	/* A pipe that nobody writes to must not hold the tool up. */
	int fd = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status)) {
		int code = -errno;
		if (fd >= 0 && !is_standard)
			close(fd);
		return tm_fail(err, code, "'%s' cannot be opened: %s", path, strerror(-code));
	}
	if (S_ISREG(status.st_mode)) {
		*ret_fd = is_standard ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
		*ret_copied = is_standard;
		return *ret_fd < 0 ? tm_fail(err, -errno, "no descriptor for '%s'", path) : 0;
	}
	if (is_standard && isatty(fd))
		return tm_fail(err, -EINVAL,
			       "standard input is a terminal: name a file, or use '<'");
	int copy;
	int code = open_temporary(&copy, err);
	if (!is_standard)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	if (!code)
		code = spool(fd, copy, is_standard ? "standard input" : path, err);
	if (!is_standard)
		close(fd);
	*ret_fd = code ? -1 : copy;
	*ret_copied = true;
	return code;
}

static int convert(int fd, const char *path, int out_fd, const char *format,
		   struct import_result *ret_result, struct tm_error *err)
{
	struct progress progress;
	struct places places;
	struct tm_error why = {0};
	find_places(&places);
	const struct import_options how = {
		.name = path,
		.format = format,
		.sysroot = places.sysroot,
		.debug_dirs = places.debug_dirs,
		.debug_dir_count = places.debug_dir_count,
		.progress = progress_tell_fn,
		.ctx = &progress,
	};
	tm_map_large_blocks(TM_LARGE_BYTES);
	progress_begin(&progress, "importing", "B");
	int code = import_run(fd, out_fd, &how, ret_result, &why);
	progress_end(&progress);
	if (code == -ECANCELED)
		return tm_fail(err, code, "stopped");
	return code ? tm_fail(err, code, "'%s': %s", path, why.text) : 0;
}

int foreign_convert(const char *path, int out_fd, const char *format,
		    struct import_result *ret_result, struct tm_error *err)
{
	int fd;
	bool copied;
	int code = open_input(path, &fd, &copied, err);
	if (code) {
		close(out_fd);
		return code;
	}
	code = convert(fd, path, out_fd, format, ret_result, err);
	close(fd);
	return code;
}

bool foreign_is(const char *path)
{
	enum import_kind kind = IMPORT_UNKNOWN;
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	bool found = !fstat(fd, &status) && S_ISREG(status.st_mode) &&
		     !import_probe(fd, &kind, NULL) && kind == IMPORT_FOREIGN;
	close(fd);
	return found;
}

/* A name by which this process can open the file again. */
static void name_open_file(int fd, char ret_name[FOREIGN_PATH_BYTES])
{
	snprintf(ret_name, FOREIGN_PATH_BYTES, "/dev/fd/%d", fd);
}

static int import_temporary(int fd, const char *path, char ret_name[FOREIGN_PATH_BYTES],
			    struct tm_error *err)
{
	struct import_result result;
	int out_fd;
	int code = open_temporary(&out_fd, err);
	if (code)
		return code;
	int kept = fcntl(out_fd, F_DUPFD_CLOEXEC, 3);
	if (kept < 0) {
		close(out_fd);
		return tm_fail(err, -errno, "no descriptor for a temporary file");
	}
	code = convert(fd, path, out_fd, NULL, &result, err);
	if (code)
		close(kept);
	else
		name_open_file(kept, ret_name);
	return code;
}

/* A trace of our own that was packed. */
static int unpack_temporary(int fd, const char *path, char ret_name[FOREIGN_PATH_BYTES],
			    struct tm_error *err)
{
	struct tm_error why = {0};
	int copy;
	int code = open_temporary(&copy, err);
	if (code)
		return code;
	code = import_unpack(fd, copy, &why);
	if (code) {
		close(copy);
		return tm_fail(err, code, "'%s': %s", path, why.text);
	}
	name_open_file(copy, ret_name);
	return 0;
}

/* What is no trace and of no tool that is known. */
static int refuse_unknown(int fd, const char *path, struct tm_error *err)
{
	struct stat status;
	const char *name = !strcmp(path, "-") ? "standard input" : path;
	if (!fstat(fd, &status) && status.st_size == 0)
		return tm_fail(err, -ENODATA, "'%s' is empty", name);
	return tm_fail(err, -EBADMSG,
		       "'%s' is neither a trace (*.tide) nor a file of another tool that is "
		       "known: 'tidemark convert --list' names them",
		       name);
}

int foreign_resolve(const char *path, char ret_name[FOREIGN_PATH_BYTES], const char **ret_path,
		    struct tm_error *err)
{
	enum import_kind kind;
	bool copied;
	int fd;
	int code = open_input(path, &fd, &copied, err);
	if (code)
		return code;
	code = import_probe(fd, &kind, err);
	if (!code && kind == IMPORT_UNKNOWN) {
		code = refuse_unknown(fd, path, err);
	} else if (!code && kind == IMPORT_FOREIGN) {
		code = import_temporary(fd, path, ret_name, err);
		*ret_path = ret_name;
	} else if (!code && kind == IMPORT_PACKED) {
		code = unpack_temporary(fd, path, ret_name, err);
		*ret_path = ret_name;
	} else if (!code && copied) {
		name_open_file(fd, ret_name);
		*ret_path = ret_name;
		return 0;
	} else {
		*ret_path = path;
	}
	close(fd);
	return code;
}
