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

enum { NUMBERS_MAX = 100000 };

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

/* What is there already stays: special files are written to, others are replaced only by force. */
static int open_flags(const char *path, bool force)
{
	struct stat facts;
	bool special = stat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
	return O_RDWR | O_CLOEXEC | O_CREAT | O_NOCTTY | (special ? 0 : force ? O_TRUNC : O_EXCL);
}

/* A file that is overwritten keeps its mode otherwise. */
static void close_to_others(int fd)
{
	struct stat facts;
	if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && (facts.st_mode & 0777) != 0600 &&
	    fchmod(fd, 0600))
		return; /* somebody else's file that we may write: its mode is theirs */
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

int output_open(const char *path, bool force, int *ret_fd, char **ret_path, struct tm_error *err)
{
	int error = make_parents(path);
	if (error)
		return cannot(err, path, error);
	char *name = tm_strdup(path);
	for (unsigned number = 2; name; number++) {
		int fd = open(name, open_flags(name, force), 0600);
		error = -errno;
		if (fd >= 0) {
			close_to_others(fd);
			*ret_fd = fd;
			*ret_path = name;
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
