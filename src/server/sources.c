/* SPDX-License-Identifier: Apache-2.0 */
#include "server/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 4 * 1024 * 1024 };

static bool is_source_name(const char *file)
{
	static const char *const suffixes[] = {
		"c",   "cc", "cpp", "cxx", "h",   "hh",  "hpp", "hxx",   "inc",  "inl", "rs",
		"nim", "d",  "di",  "go",  "zig", "js",  "mjs", "cjs",   "ts",   "py",  "pyx",
		"S",   "s",  "m",   "mm",  "f90", "adb", "ads", "swift", "java", "kt",  "cs",
	};
	const char *dot = strrchr(file, '.');
	for (size_t i = 0; dot && i < sizeof suffixes / sizeof suffixes[0]; i++)
		if (!strcmp(dot + 1, suffixes[i]))
			return true;
	return false;
}

/* 0, or -errno. A device or a pipe with the name of a source file is none. */
static int read_regular(const char *path, struct text *ret_text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	struct stat status;
	int code = fstat(fd, &status) ? -errno : 0;
	if (!code && (!S_ISREG(status.st_mode) || status.st_size > FILE_BYTES_MAX))
		code = -EFBIG;
	char piece[16384];
	ssize_t got = 0;
	while (!code && (got = read(fd, piece, sizeof piece)) > 0) {
		text_put_bytes(ret_text, piece, (size_t)got);
		if (ret_text->length > FILE_BYTES_MAX)
			code = -EFBIG;
	}
	if (got < 0)
		code = -errno;
	close(fd);
	return code ? code : text_error(ret_text);
}

static bool try_path(const struct text *path, struct text *ret_text, struct text *ret_path)
{
	if (text_error(path) || !path->length)
		return false;
	text_clear(ret_text);
	if (read_regular(text_string(path), ret_text))
		return false;
	text_clear(ret_path);
	text_put_bytes(ret_path, path->data, path->length);
	return true;
}

static bool try_maps(const struct sources *sources, const char *file, struct text *ret_text,
		     struct text *ret_path)
{
	bool found = false;
	for (size_t i = 0; i < sources->map_count && !found; i++) {
		const char *equals = strchr(sources->maps[i], '=');
		size_t bytes = equals ? (size_t)(equals - sources->maps[i]) : 0;
		struct text path = {0};
		if (!equals || strncmp(file, sources->maps[i], bytes) != 0)
			continue;
		text_put(&path, equals + 1);
		text_put(&path, file + bytes);
		found = try_path(&path, ret_text, ret_path);
		text_done(&path);
	}
	return found;
}

/* "/build/x/src/a.c" is at FOLDER/build/x/src/a.c, or FOLDER/x/src/a.c, ... or FOLDER/a.c. */
static bool try_folders(const struct sources *sources, const char *file, struct text *ret_text,
			struct text *ret_path)
{
	bool found = false;
	for (size_t i = 0; i < sources->folder_count && !found; i++) {
		for (const char *at = file; at && !found;) {
			struct text path = {0};
			at += strspn(at, "/");
			text_put(&path, sources->folders[i]);
			text_put_char(&path, '/');
			text_put(&path, at);
			found = try_path(&path, ret_text, ret_path);
			text_done(&path);
			at = strchr(at, '/');
		}
	}
	return found;
}

int sources_read(const struct sources *sources, const char *file, struct text *ret_text,
		 struct text *ret_path, struct tm_error *err)
{
	struct text plain = {0};
	if (!is_source_name(file))
		return tm_fail(err, -EPERM, "'%.120s' does not look like a source file", file);
	bool found = try_maps(sources, file, ret_text, ret_path) ||
		     try_folders(sources, file, ret_text, ret_path);
	if (!found && file[0] == '/') {
		text_put(&plain, file);
		found = try_path(&plain, ret_text, ret_path);
		text_done(&plain);
	}
	if (found)
		return 0;
	return tm_fail(err, -ENOENT,
		       "the text of '%.120s' is not at hand: start 'tidemark serve' with "
		       "--source-map FROM=TO or --source-dir FOLDER",
		       file);
}
