/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/dormant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "base/version.h"

enum { STAT_BYTES_MAX = 4096, MAPS_BYTES_MAX = 64 << 20, START_FIELD = 22 };

static const char *const folders[] = {WIRE_PAGE_SHM, WIRE_PAGE_TMP};

/* Field 22 of /proc/PID/stat; 0: there is no such process, or only what is left of it. */
static uint64_t start_ticks(pid_t pid)
{
	char path[64];
	struct text stat = {0};
	uint64_t ticks = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (!io_read_file(path, STAT_BYTES_MAX, &stat)) {
		const char *at = strrchr(text_string(&stat), ')');
		if (at && (!strncmp(at, ") Z", 3) || !strncmp(at, ") X", 3)))
			at = NULL;
		for (int field = 2; at && field < START_FIELD; field++) {
			at = strchr(at, ' ');
			at += at != NULL;
		}
		ticks = at ? strtoull(at, NULL, 10) : 0;
	}
	text_done(&stat);
	return ticks;
}

/* Where its memory may be read: is the page in it? A program it executed may have no agent. */
static bool is_mapped(const struct dormant *dormant)
{
	char path[64];
	struct text maps = {0};
	snprintf(path, sizeof path, "/proc/%d/maps", (int)dormant->pid);
	bool mapped = io_read_file(path, MAPS_BYTES_MAX, &maps) || !maps.length ||
		      strstr(text_string(&maps), dormant->path);
	text_done(&maps);
	return mapped;
}

bool dormant_read(struct dormant *dormant)
{
	struct wire_page page;
	if (pread(dormant->fd, &page, sizeof page, 0) != (ssize_t)sizeof page ||
	    page.magic != WIRE_PAGE_MAGIC || page.version != WIRE_PAGE_VERSION)
		return false;
	page.agent_version[sizeof page.agent_version - 1] = '\0';
	dormant->page = page;
	return true;
}

static bool is_sound(struct dormant *dormant)
{
	struct stat facts;
	return !fstat(dormant->fd, &facts) && S_ISREG(facts.st_mode) &&
	       facts.st_size == WIRE_PAGE_FILE_BYTES &&
	       (facts.st_uid == geteuid() || geteuid() == 0) && dormant_read(dormant) &&
	       facts.st_uid == dormant->page.uid;
}

static bool open_in(const char *folder, uid_t uid, pid_t pid, struct dormant *ret)
{
	*ret = (struct dormant){.fd = -1, .pid = pid};
	snprintf(ret->path, sizeof ret->path, "%s" WIRE_PAGE_NAME "%u-%d", folder, (unsigned)uid,
		 (int)pid);
	ret->fd = open(ret->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (ret->fd < 0)
		return false;
	if (is_sound(ret)) {
		uint64_t ticks = start_ticks(pid);
		if (ticks && (!ret->page.start_ticks || ticks == ret->page.start_ticks) &&
		    is_mapped(ret))
			return true;
		unlink(ret->path); /* of a process that is gone */
	}
	dormant_close(ret);
	return false;
}

bool dormant_open(pid_t pid, struct dormant *ret)
{
	char path[64];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	uid_t uid = stat(path, &facts) ? geteuid() : facts.st_uid;
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
		if (open_in(folders[i], uid, pid, ret) ||
		    (uid != geteuid() && open_in(folders[i], geteuid(), pid, ret)))
			return true;
	return false;
}

void dormant_close(struct dormant *dormant)
{
	if (dormant->fd >= 0)
		close(dormant->fd);
	dormant->fd = -1;
}

static bool put_word(const struct dormant *dormant, size_t offset, uint32_t word)
{
	return pwrite(dormant->fd, &word, sizeof word, (off_t)offset) == (ssize_t)sizeof word;
}

static int ask(struct dormant *dormant, const char *session, struct tm_error *err)
{
	char name[WIRE_PAGE_SESSION_BYTES] = "";
	if (!dormant_read(dormant))
		return tm_fail(err, -ESRCH, "process %d has ended", (int)dormant->pid);
	if (strcmp(dormant->page.agent_version, TIDEMARK_VERSION) != 0)
		return tm_fail(err, -EPROTONOSUPPORT,
			       "the agent in process %d is version %s, this tool is version %s: "
			       "use the tool that it came with",
			       (int)dormant->pid, dormant->page.agent_version, TIDEMARK_VERSION);
	if (atomic_load(&dormant->page.wake))
		return tm_fail(err, -EBUSY,
			       "somebody else is waking process %d, which has not allocated since",
			       (int)dormant->pid);
	snprintf(name, sizeof name, "%s", session);
	if (!put_word(dormant, offsetof(struct wire_page, refused), WIRE_REFUSED_NO) ||
	    pwrite(dormant->fd, name, sizeof name, offsetof(struct wire_page, session)) !=
		    (ssize_t)sizeof name ||
	    !put_word(dormant, offsetof(struct wire_page, wake), WIRE_WAKE_ASKED))
		return tm_fail(err, -EIO, "cannot write to '%s': %s", dormant->path,
			       strerror(errno));
	return 0;
}

int dormant_wake(struct dormant *dormant, const char *session, struct tm_error *err)
{
	/* Two tools at once: one after the other, and the second finds it asked. */
	if (flock(dormant->fd, LOCK_EX))
		return tm_fail(err, -errno, "cannot lock '%s': %s", dormant->path, strerror(errno));
	int error = ask(dormant, session, err);
	flock(dormant->fd, LOCK_UN);
	return error;
}

void dormant_hush(struct dormant *dormant)
{
	if (dormant->fd >= 0 && dormant_read(dormant) &&
	    atomic_load(&dormant->page.wake) == WIRE_WAKE_ASKED &&
	    !put_word(dormant, offsetof(struct wire_page, wake), WIRE_WAKE_NO))
		dormant_close(dormant);
}

const char *dormant_refusal(const struct dormant *dormant)
{
	switch ((enum wire_refused)atomic_load(&dormant->page.refused)) {
	case WIRE_REFUSED_NO:
		return NULL;
	case WIRE_REFUSED_SECCOMP:
		return "its seccomp filter forbids the calls that it takes; record it from its "
		       "start with 'tidemark run'";
	case WIRE_REFUSED_BUSY:
		return "a thread of it is still inside the recording before; try again";
	case WIRE_REFUSED_UNREACHED:
		return "it did not reach this tidemark; is it in another network namespace (a "
		       "container)? Run tidemark in there";
	case WIRE_REFUSED_MEMORY:
		return "it got no memory for the recording";
	}
	return "for a reason that this version does not know";
}

/* "tidemark-agent-0-4711" */
static bool parse_name(const char *name, uid_t *ret_uid, pid_t *ret_pid)
{
	unsigned uid;
	int pid, used = 0;
	if (sscanf(name, WIRE_PAGE_NAME "%u-%d%n", &uid, &pid, &used) != 2 || name[used] ||
	    pid <= 0)
		return false;
	*ret_uid = (uid_t)uid;
	*ret_pid = (pid_t)pid;
	return true;
}

void dormant_each(dormant_fn fn, void *ctx)
{
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
		DIR *folder = opendir(folders[i]);
		struct dirent *entry;
		while (folder && (entry = readdir(folder))) {
			struct dormant dormant;
			uid_t uid;
			pid_t pid;
			if (!parse_name(entry->d_name, &uid, &pid) ||
			    (uid != geteuid() && geteuid() != 0) ||
			    !open_in(folders[i], uid, pid, &dormant))
				continue;
			fn(ctx, &dormant);
			dormant_close(&dormant);
		}
		if (folder)
			closedir(folder);
	}
}
