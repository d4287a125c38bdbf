/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"

enum { NUMBERS_MAX = 100000, NEW_FILE = O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL | O_NOCTTY };

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

/* A program's name inside a file name: no slash, no control characters. */
static void put_program(struct text *text, const char *program)
{
	const char *name = last_part(program);
	size_t bytes = strlen(name);
	/* File names end at 255 bytes; pid, prefix, suffix and a number need room. */
	for (size_t i = 0; i < bytes && i < 180; i++) {
		unsigned char c = (unsigned char)name[i];
		text_put_char(text, c < ' ' || c == '/' || c == 0x7f ? '_' : (char)c);
	}
}

static void put_time(struct text *text, uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm parts;
	char stamp[32] = "";
	if (localtime_r(&seconds, &parts))
		strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts);
	text_put(text, stamp);
}

static void put_host(struct text *text)
{
	char host[256] = "";
	gethostname(host, sizeof host - 1);
	for (char *c = host; *c; c++)
		*c = *c == '/' ? '_' : *c;
	text_put(text, *host ? host : "localhost");
}

static void put_default(struct text *text, const struct output_facts *facts)
{
	text_put(text, "tidemark.");
	put_program(text, facts->program);
	text_print(text, ".%d.tide", (int)facts->pid);
}

static void expand(struct text *text, const char *pattern, const struct output_facts *facts)
{
	for (const char *at = pattern; *at; at++) {
		if (*at != '%' || !at[1]) {
			text_put_char(text, *at);
			continue;
		}
		switch (*++at) {
		case 'p':
			text_print(text, "%d", (int)facts->pid);
			break;
		case 'i':
			text_print(text, "%u", facts->piece ? facts->piece : 1);
			break;
		case 'h':
			put_host(text);
			break;
		case 'n':
			put_program(text, facts->program);
			break;
		case 't':
			put_time(text, facts->start_unix_ns);
			break;
		case '%':
			text_put_char(text, '%');
			break;
		default:
			text_put_char(text, '%');
			text_put_char(text, *at);
		}
	}
}

static bool is_folder(const char *path)
{
	struct stat facts;
	return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* "dir/a.tide", 2 -> "dir/a.2.tide"; without a suffix the number comes last. */
static int numbered(const char *path, unsigned number, char **ret_path)
{
	struct text text = {0};
	const char *name = last_part(path);
	const char *dot = strrchr(name, '.');
	if (!dot || dot == name)
		dot = name + strlen(name);
	text_put_bytes(&text, path, (size_t)(dot - path));
	text_print(&text, ".%u%s", number, dot);
	int error = text_take(&text, ret_path);
	text_done(&text);
	return error;
}

static bool has_piece(const char *pattern)
{
	for (; *pattern; pattern++)
		if (*pattern == '%' && *++pattern == 'i')
			return true;
		else if (!*pattern)
			break;
	return false;
}

int output_path(const char *pattern, const struct output_facts *facts, char **ret_path,
		struct tm_error *err)
{
	struct text text = {0};
	if (!pattern || !*pattern) {
		put_default(&text, facts);
	} else {
		expand(&text, pattern, facts);
		bool slash = text.length && text.data[text.length - 1] == '/';
		if (slash || is_folder(text_string(&text))) {
			text_put(&text, slash ? "" : "/");
			put_default(&text, facts);
		}
	}
	char *path = NULL;
	int error;
	if (facts->rotates && !has_piece(pattern ? pattern : ""))
		error = numbered(text_string(&text), facts->piece ? facts->piece : 1, &path);
	else
		error = text_take(&text, &path);
	text_done(&text);
	if (error)
		return tm_fail(err, error, "out of memory for a file name");
	*ret_path = path;
	return 0;
}

static int make_parents(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return 0;
	char *folder = tm_strdup(path);
	if (!folder)
		return -ENOMEM;
	folder[slash - path] = '\0';
	int error = io_make_folders(folder);
	tm_free(folder);
	return error;
}

static int cannot(struct tm_error *err, const char *path, int error)
{
	return tm_fail(err, error, "cannot write the trace to '%s': %s", path, strerror(-error));
}

/* A trace is written at many places of its file, and read meanwhile. */
static int refuse_special(const char *path, struct tm_error *err)
{
	struct stat facts;
	if (stat(path, &facts) || S_ISREG(facts.st_mode))
		return 0;
	const char *what = S_ISDIR(facts.st_mode)    ? "a folder"
			   : S_ISFIFO(facts.st_mode) ? "a pipe"
			   : S_ISSOCK(facts.st_mode) ? "a socket"
						     : "a device";
	return tm_fail(err, -EINVAL,
		       "'%s' is %s, and a trace needs a file: name one with -o, or leave -o out",
		       path, what);
}

void output_give(int fd)
{
	const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID");
	struct stat facts;
	if (geteuid() != 0 || !uid || !gid || fstat(fd, &facts) || !S_ISREG(facts.st_mode))
		return;
	if (fchown(fd, (uid_t)strtoul(uid, NULL, 10), (gid_t)strtoul(gid, NULL, 10)))
		return; /* a file system without owners */
}

/* Under the name that is asked for, in the place of what has it. */
static int open_replacing(const char *path, const char *const *programs,
			  struct output_file *ret_file, struct tm_error *err)
{
	struct output_file made = {.path = tm_strdup(path)};
	if (!made.path)
		return tm_fail(err, -ENOMEM, "out of memory for a file name");
	int error = replaced_begin(path, programs, &made.replaced, err);
	if (error) {
		tm_free(made.path);
		return error;
	}
	made.fd = open(made.replaced.path ? made.replaced.path : path, NEW_FILE, 0600);
	if (made.fd < 0) {
		error = cannot(err, path, -errno);
		replaced_undo(&made.replaced);
		tm_free(made.path);
		return error;
	}
	*ret_file = made;
	return 0;
}

static int open_numbered(const char *path, struct output_file *ret_file, struct tm_error *err)
{
	char *name = tm_strdup(path);
	for (unsigned number = 2; name; number++) {
		int fd = open(name, NEW_FILE, 0600);
		int error = -errno;
		if (fd >= 0) {
			*ret_file = (struct output_file){.fd = fd, .path = name};
			return 0;
		}
		if (error != -EEXIST || number > NUMBERS_MAX) {
			cannot(err, name, error);
			tm_free(name);
			return error;
		}
		name = tm_free(name);
		if (numbered(path, number, &name))
			break;
	}
	return tm_fail(err, -ENOMEM, "out of memory for a file name");
}

int output_open(const struct output_options *options, struct output_file *ret_file,
		struct tm_error *err)
{
	int error = make_parents(options->path);
	if (error)
		return cannot(err, options->path, error);
	error = refuse_special(options->path, err);
	if (error)
		return error;
	return options->force ? open_replacing(options->path, options->programs, ret_file, err)
			      : open_numbered(options->path, ret_file, err);
}

bool output_remove(const char *path, uint64_t device, uint64_t inode)
{
	struct stat facts;
	return lstat(path, &facts) == 0 && S_ISREG(facts.st_mode) &&
	       (uint64_t)facts.st_dev == device && (uint64_t)facts.st_ino == inode && !unlink(path);
}
