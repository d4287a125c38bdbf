/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/replaced.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

static bool is_one_of(const struct stat *facts, const char *const *programs)
{
	struct stat other;
	for (; programs && *programs; programs++)
		if (stat(*programs, &other) == 0 && other.st_dev == facts->st_dev &&
		    other.st_ino == facts->st_ino)
			return true;
	return false;
}

/* Who holds the lock of sink.c; 0: nobody. -1: somebody whose id is not to be had. */
static pid_t writer_of(const char *path)
{
	struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return 0;
	bool held = fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
	close(fd);
	return !held ? 0 : whole.l_pid > 0 ? whole.l_pid : -1;
}

static int check(const char *path, const char *real, const char *const *programs,
		 struct tm_error *err)
{
	struct stat facts;
	char who[48] = "";
	if (stat(real, &facts))
		return 0; /* a link that leads nowhere */
	if (is_one_of(&facts, programs))
		return tm_fail(err, -EBUSY,
			       "'%s' is the program itself, which a trace must not replace: name "
			       "another file (-o)",
			       path);
	pid_t writer = writer_of(real);
	if (writer > 0)
		snprintf(who, sizeof who, " (process %d)", (int)writer);
	return writer ? tm_fail(err, -EBUSY,
				"'%s' is being written by another tidemark%s: end that one first, "
				"or name another file (-o)",
				path, who)
		      : 0;
}

static int make_aside(const char *real, char **ret_aside)
{
	struct text text = {0};
	const char *slash = strrchr(real, '/');
	text_put_bytes(&text, real, slash ? (size_t)(slash - real + 1) : 0);
	text_put(&text, ".tidemark-XXXXXX");
	int error = text_take(&text, ret_aside);
	text_done(&text);
	if (error)
		return error;
	int fd = mkostemp(*ret_aside, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int step_aside(struct replaced *replaced)
{
	int error = make_aside(replaced->path, &replaced->aside);
	if (error) {
		replaced->aside = tm_free(replaced->aside);
		return error;
	}
	if (rename(replaced->path, replaced->aside) == 0)
		return 0;
	error = -errno;
	unlink(replaced->aside);
	replaced->aside = tm_free(replaced->aside);
	return error;
}

int replaced_begin(const char *path, const char *const *programs, struct replaced *ret_replaced,
		   struct tm_error *err)
{
	char real[PATH_MAX];
	struct stat facts;
	*ret_replaced = (struct replaced){0};
	if (lstat(path, &facts))
		return 0; /* nothing is there, or making it will tell what is wrong */
	if (!realpath(path, real) && snprintf(real, sizeof real, "%s", path) >= PATH_MAX)
		return tm_fail(err, -ENAMETOOLONG, "the name '%.100s...' is too long", path);
	int error = check(path, real, programs, err);
	if (error)
		return error;
	struct replaced made = {.path = tm_strdup(real)};
	error = made.path ? step_aside(&made) : -ENOMEM;
	if (error) {
		tm_free(made.path);
		return tm_fail(err, error,
			       "'%s' cannot be replaced, as --force asks: %s; name another file "
			       "(-o)",
			       path, strerror(-error));
	}
	*ret_replaced = made;
	return 0;
}

static void done(struct replaced *replaced)
{
	tm_free(replaced->path);
	tm_free(replaced->aside);
	*replaced = (struct replaced){0};
}

void replaced_commit(struct replaced *replaced)
{
	if (replaced->aside)
		unlink(replaced->aside);
	done(replaced);
}

void replaced_undo(struct replaced *replaced)
{
	if (replaced->aside && rename(replaced->aside, replaced->path))
		unlink(replaced->path); /* the old one is still to be found, aside */
	done(replaced);
}
