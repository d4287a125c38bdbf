/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKUPS_MAX = 1000 };

int newfile_open(struct newfile *file, const char *path, int *ret_fd, struct tm_error *err)
{
	file->temporary[0] = '\0';
	int used = snprintf(file->path, sizeof file->path, "%s", path);
	int more = snprintf(file->temporary, sizeof file->temporary, "%s.XXXXXX", path);
	if (used >= (int)sizeof file->path || more >= (int)sizeof file->temporary) {
		file->temporary[0] = '\0';
		return tm_fail(err, -ENAMETOOLONG, "the name '%.100s...' is too long", path);
	}
	int fd = mkstemp(file->temporary); /* mode 0600 */
	if (fd < 0) {
		int code = -errno;
		file->temporary[0] = '\0';
		return tm_fail(err, code, "'%s' cannot be written: %s", path, strerror(-code));
	}
	*ret_fd = fd;
	return 0;
}

static int sync_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int code = fsync(fd) ? -errno : 0;
	close(fd);
	return code;
}

/* A second name for the file that is there, so that it is never missing. */
static int keep_backup(const char *path, char *backup_path, struct tm_error *err)
{
	for (unsigned i = 0; i < BACKUPS_MAX; i++) {
		int used = i ? snprintf(backup_path, PATH_MAX, "%s.bak%u", path, i)
			     : snprintf(backup_path, PATH_MAX, "%s.bak", path);
		if (used >= PATH_MAX)
			return tm_fail(err, -ENAMETOOLONG, "the name of the backup is too long");
		if (!link(path, backup_path))
			return 0;
		if (errno == ENOENT) { /* nothing is there */
			backup_path[0] = '\0';
			return 0;
		}
		if (errno != EEXIST)
			break;
	}
	return tm_fail(err, -errno,
		       "no backup of '%s' can be made (%s): write elsewhere with --output", path,
		       strerror(errno));
}

int newfile_commit(struct newfile *file, bool force, char *backup_path, struct tm_error *err)
{
	int code = sync_file(file->temporary);
	if (code)
		return tm_fail(err, code, "'%s' cannot be written to disk: %s", file->temporary,
			       strerror(-code));
	if (backup_path) {
		code = keep_backup(file->path, backup_path, err);
		if (code)
			return code;
	}
	/* link() refuses to replace, rename() does not. */
	bool replace = force || backup_path;
	int failed =
		replace ? rename(file->temporary, file->path) : link(file->temporary, file->path);
	if (failed)
		return tm_fail(err, -errno,
			       errno == EEXIST ? "'%s' exists already: %s"
					       : "'%s' cannot be written: %s",
			       file->path,
			       errno == EEXIST ? "use --force to replace it" : strerror(errno));
	if (!replace)
		unlink(file->temporary);
	file->temporary[0] = '\0';
	return 0;
}

void newfile_drop(struct newfile *file)
{
	if (file->temporary[0])
		unlink(file->temporary);
	file->temporary[0] = '\0';
}
