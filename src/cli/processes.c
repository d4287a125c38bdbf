/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "collector/dormant.h"
#include "inject/target.h"

static uint64_t boot_ns(void)
{
	struct timespec now = {0};
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t age_ns(pid_t pid)
{
	uint64_t ticks = proc_start_ticks(pid), second = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t began_ns = second ? ticks * (1000000000u / second) : 0, now_ns = boot_ns();
	return ticks && now_ns > began_ns ? now_ns - began_ns : 0;
}

static void read_program(struct process_row *row, const char *name)
{
	char link[64];
	snprintf(link, sizeof link, "/proc/%d/exe", (int)row->pid);
	ssize_t bytes = readlink(link, row->program, sizeof row->program - 1);
	if (bytes > 0)
		row->program[bytes] = '\0';
	else
		snprintf(row->program, sizeof row->program, "%s", name);
}

static bool is_tidemark(const char *program)
{
	const char *slash = strrchr(program, '/');
	return !strcmp(slash ? slash + 1 : program, "tidemark");
}

/* False: not worth a line. */
static bool look(pid_t pid, struct process_row *row)
{
	struct target_facts facts;
	struct dormant dormant;
	struct tm_error err = {0};
	target_look(pid, &facts);
	if (!facts.exists || facts.has_ended || facts.status.kernel_thread || pid == getpid() ||
	    (facts.status.uid[0] != geteuid() && geteuid() != 0))
		return false;
	*row = (struct process_row){.pid = pid, .age_ns = age_ns(pid)};
	read_program(row, facts.status.name);
	if (is_tidemark(row->program))
		return false;
	row->dormant = dormant_open(pid, &dormant);
	if (row->dormant)
		dormant_close(&dormant);
	else if (target_judge(&facts, &err))
		snprintf(row->why, sizeof row->why, "%s", err.text);
	else
		row->attachable = true;
	return true;
}

static bool is_among(pid_t pid, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static int by_pid(const void *a, const void *b)
{
	return ((const struct process_row *)a)->pid - ((const struct process_row *)b)->pid;
}

static void ignore(void *ctx, const struct dormant *dormant)
{
	(void)ctx;
	(void)dormant;
}

int processes_find(const pid_t *skip, size_t skip_count, struct processes *ret,
		   struct tm_error *err)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	int error = 0;
	*ret = (struct processes){0};
	dormant_each(ignore, NULL); /* removes pages of processes that are gone */
	if (!folder)
		return tm_fail(err, -errno, "cannot read /proc: %s", strerror(errno));
	while (!error && (entry = readdir(folder))) {
		struct process_row row;
		pid_t pid = (pid_t)atoi(entry->d_name);
		if (!isdigit((unsigned char)entry->d_name[0]) || is_among(pid, skip, skip_count) ||
		    !look(pid, &row))
			continue;
		struct process_row *grown = tm_grow_array(ret->rows, ret->count + 1, sizeof *grown);
		if (!grown) {
			error = tm_fail(err, -ENOMEM, "out of memory");
			continue;
		}
		ret->rows = grown;
		grown[ret->count++] = row;
	}
	closedir(folder);
	if (error)
		processes_done(ret);
	else if (ret->count)
		qsort(ret->rows, ret->count, sizeof *ret->rows, by_pid);
	return error;
}

void processes_done(struct processes *processes)
{
	tm_free(processes->rows);
	*processes = (struct processes){0};
}
