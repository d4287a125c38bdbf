/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

enum { FILE_BYTES_MAX = 64 * 1024 };

bool settings_is_map(const char *text)
{
	const char *equals = strchr(text, '=');
	return equals && equals != text;
}

int settings_path(struct text *ret_path, struct tm_error *err)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (config && config[0] == '/')
		text_print(ret_path, "%s/tidemark/settings", config);
	else if (home && home[0] == '/')
		text_print(ret_path, "%s/.config/tidemark/settings", home);
	else
		return tm_fail(err, -ENOENT, "there is no place for settings: set HOME");
	return text_error(ret_path) ? tm_fail(err, -ENOMEM, "out of memory") : 0;
}

static int read_all(const char *path, struct text *ret_text, struct tm_error *err)
{
	char piece[4096];
	ssize_t got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : tm_fail(err, -errno, "'%s' cannot be read: %s", path,
					 strerror(errno));
	while ((got = read(fd, piece, sizeof piece)) > 0 && ret_text->length < FILE_BYTES_MAX)
		text_put_bytes(ret_text, piece, (size_t)got);
	int code = got < 0 ? -errno : text_error(ret_text);
	close(fd);
	if (code)
		return tm_fail(err, code, "'%s' cannot be read: %s", path, strerror(-code));
	if (got > 0)
		return tm_fail(err, -EFBIG, "'%s' is too long for settings", path);
	return 0;
}

/* One line without its end; "" and "# ..." say nothing. */
static const char *take_line(struct settings *settings, char *line)
{
	line += strspn(line, " \t");
	char *end = line + strlen(line);
	while (end > line && strchr(" \t\r", end[-1]))
		*--end = '\0';
	if (!*line || *line == '#')
		return NULL;
	char *value = line + strcspn(line, " \t");
	if (*value)
		*value++ = '\0';
	value += strspn(value, " \t");
	bool is_map = !strcmp(line, "source-map");
	if (!*value)
		return "has no value";
	if (!strcmp(line, "editor")) {
		settings->editor = value;
		return NULL;
	}
	if (!is_map && strcmp(line, "source-dir") != 0)
		return "is not one of source-map, source-dir and editor";
	if (is_map && !settings_is_map(value))
		return "is not of the form FROM=TO";
	size_t *count = is_map ? &settings->map_count : &settings->folder_count;
	if (*count == SETTINGS_SOURCES_MAX)
		return "is one too many of its kind";
	(is_map ? settings->maps : settings->folders)[(*count)++] = value;
	return NULL;
}

int settings_read(const char *path, struct settings *ret, struct tm_error *err)
{
	*ret = (struct settings){0};
	int code = read_all(path, &ret->kept, err);
	unsigned number = 1;
	char *line = ret->kept.data, *end = line ? line + ret->kept.length : NULL;
	for (; !code && line && line < end; number++) {
		char *stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			stop = end; /* a text ends with a zero */
		*stop = '\0';
		const char *problem = take_line(ret, line);
		if (problem)
			code = tm_fail(err, -EINVAL, "'%s', line %u: '%.60s' %s", path, number,
				       line + strspn(line, " \t"), problem);
		line = stop + 1;
	}
	if (code)
		settings_done(ret);
	return code;
}

static int make_folders(const char *path)
{
	char folder[4096];
	size_t bytes = strlen(path);
	if (bytes >= sizeof folder)
		return -ENAMETOOLONG;
	for (size_t i = 1; i < bytes; i++) {
		if (path[i] != '/')
			continue;
		memcpy(folder, path, i);
		folder[i] = '\0';
		if (mkdir(folder, 0777) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

int settings_write(const char *path, const struct settings *settings, struct tm_error *err)
{
	struct text out = {0};
	text_put(&out, "# Written by 'tidemark serve --save'.\n");
	for (size_t i = 0; i < settings->map_count; i++)
		text_print(&out, "source-map %s\n", settings->maps[i]);
	for (size_t i = 0; i < settings->folder_count; i++)
		text_print(&out, "source-dir %s\n", settings->folders[i]);
	if (settings->editor)
		text_print(&out, "editor %s\n", settings->editor);
	int code = text_error(&out) ? -ENOMEM : make_folders(path);
	int fd = code ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (!code && fd < 0)
		code = -errno;
	if (!code)
		code = io_write(fd, out.data, out.length);
	if (fd >= 0 && close(fd) && !code)
		code = -errno;
	text_done(&out);
	return code ? tm_fail(err, code, "'%s' cannot be written: %s", path, strerror(-code)) : 0;
}

void settings_done(struct settings *settings)
{
	text_done(&settings->kept);
	*settings = (struct settings){0};
}
