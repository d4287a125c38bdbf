/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"

enum {
	CAPABILITY_PTRACE = 19,
	CAPABILITY_ADMIN = 21,
	DEPTH_MAX = 256,
	SMALL_FILE = 64 * 1024,
};

bool target_capable(const struct proc_status *own, int capability)
{
	return own->capabilities >> capability & 1;
}

/* ---- looking ---- */

static int read_small(const char *path, struct text *ret)
{
	return io_read_file(path, SMALL_FILE, ret);
}

static int read_number(const char *path)
{
	struct text text = {0};
	int value = read_small(path, &text) ? 0 : atoi(text_string(&text));
	text_done(&text);
	return value;
}

static bool is_descendant(pid_t pid)
{
	for (int i = 0; i < DEPTH_MAX && pid > 1; i++) {
		char path[64];
		struct text text = {0};
		proc_path(path, sizeof path, pid, 0, "stat");
		if (read_small(path, &text)) {
			text_done(&text);
			return false;
		}
		const char *rest = strrchr(text_string(&text), ')');
		pid = rest && strlen(rest) > 4 ? (pid_t)atoi(rest + 4) : 0;
		text_done(&text);
		if (pid == getpid())
			return true;
	}
	return false;
}

static void look_at_program(pid_t pid, pid_t tid, struct target_facts *ret)
{
	char path[64];
	unsigned char head[20];
	size_t got = 0;
	proc_path(path, sizeof path, pid, tid, "exe");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!io_read(fd, head, sizeof head, &got) && got == sizeof head &&
	    !memcmp(head, ELFMAG, SELFMAG)) {
		ret->class_known = true;
		ret->is_64_bit = head[EI_CLASS] == ELFCLASS64 && head[18] == EM_X86_64;
	}
	close(fd);
}

static void look_at_maps(pid_t pid, pid_t tid, struct target_facts *ret)
{
	struct proc_maps maps;
	ret->can_read_maps = proc_maps_read(pid, tid, &maps);
	if (ret->can_read_maps)
		return;
	for (size_t i = 0; i < maps.count; i++) {
		const char *name = strrchr(maps.maps[i].path, '/');
		ret->own_agent |= name && !strncmp(name, "/libtidemark.so", 15);
	}
	proc_maps_done(&maps);
}

bool target_parse_shadow_stack(const char *status)
{
	const char *features = strstr(status, "x86_Thread_features:");
	return features && memmem(features, strcspn(features, "\n"), "shstk", 5) != NULL;
}

enum target_container target_parse_container(const char *cgroup)
{
	static const struct {
		const char *word; /* in the path of a control group */
		enum target_container container;
	} words[] = {
		{"kubepods", TARGET_KUBERNETES}, /* before those that it is made with */
		{"libpod", TARGET_PODMAN},
		{"docker", TARGET_DOCKER},
		{"lxc", TARGET_LXC},
	};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strstr(cgroup, words[i].word))
			return words[i].container;
	return TARGET_NO_CONTAINER;
}

bool target_parse_boolean(const char *text)
{
	return text[0] == '1';
}

static void look_at_thread(pid_t pid, pid_t tid, struct target_facts *ret)
{
	char path[64];
	struct text text = {0};
	proc_path(path, sizeof path, pid, tid, "status");
	if (!read_small(path, &text)) {
		proc_status_parse(text_string(&text), &ret->status);
		ret->shadow_stack = target_parse_shadow_stack(text_string(&text));
	}
	text_done(&text);
}

/* What may forbid it beyond users and capabilities. */
static void look_around(pid_t pid, pid_t tid, struct target_facts *ret)
{
	char path[64], its[64] = "", ours[64] = "";
	struct text text = {0};
	proc_path(path, sizeof path, pid, tid, "cgroup");
	if (!read_small(path, &text))
		ret->container = target_parse_container(text_string(&text));
	text_done(&text);
	if (!read_small("/sys/fs/selinux/booleans/deny_ptrace", &text))
		ret->deny_ptrace = target_parse_boolean(text_string(&text));
	text_done(&text);
	proc_path(path, sizeof path, pid, tid, "ns/user");
	if (readlink(path, its, sizeof its - 1) > 0 &&
	    readlink("/proc/self/ns/user", ours, sizeof ours - 1) > 0)
		ret->user_namespace = strcmp(its, ours) != 0;
}

void target_look(pid_t pid, struct target_facts *ret)
{
	struct proc_status leader, tracer;
	*ret = (struct target_facts){.pid = pid, .own_pid = getpid()};
	if (proc_status_read(getpid(), &ret->own))
		ret->own = (struct proc_status){0};
	int error = proc_status_read(pid, &leader);
	ret->exists = !error;
	if (error)
		return;
	ret->status = leader;
	pid_t group = leader.group ? leader.group : pid;
	pid_t tid = leader.kernel_thread ? 0 : proc_live_thread(group);
	ret->has_ended = !leader.kernel_thread && !tid;
	if (!tid)
		return;
	look_at_thread(group, tid, ret);
	ret->status.kernel_thread = false;
	if (ret->status.tracer && !proc_status_read(ret->status.tracer, &tracer))
		memcpy(ret->tracer_name, tracer.name, sizeof ret->tracer_name);
	ret->same_user = true;
	for (int i = 0; i < 3; i++)
		ret->same_user &= ret->status.uid[i] == ret->own.uid[1];
	ret->yama = read_number("/proc/sys/kernel/yama/ptrace_scope");
	ret->is_descendant = is_descendant(group);
	look_at_program(group, tid, ret);
	look_at_maps(group, tid, ret);
	look_around(group, tid, ret);
}

/* ---- judging ---- */

#define INSTEAD                                                                                 \
	"or start the program with 'tidemark run --dormant', which can be attached to without " \
	"that right"

static int judge_rights(const struct target_facts *facts, struct tm_error *err)
{
	bool may_trace = target_capable(&facts->own, CAPABILITY_PTRACE);
	int pid = (int)facts->pid;
	if (facts->yama == 3)
		return tm_fail(err, -EPERM,
			       "this machine allows nobody to trace a process "
			       "(kernel.yama.ptrace_scope is 3 until the next boot); start the "
			       "program with 'tidemark run' or 'tidemark run --dormant'");
	if (may_trace)
		return 0;
	if (!facts->same_user)
		return tm_fail(err, -EPERM,
			       "process %d belongs to another user (uid %u): use sudo, or give "
			       "tidemark CAP_SYS_PTRACE",
			       pid, (unsigned)facts->status.uid[1]);
	if (facts->yama == 2)
		return tm_fail(err, -EPERM,
			       "only root may trace here (kernel.yama.ptrace_scope is 2): use "
			       "sudo, " INSTEAD);
	if (facts->yama == 1 && !facts->is_descendant)
		return tm_fail(err, -EPERM,
			       "process %d was not started by this one "
			       "(kernel.yama.ptrace_scope is 1): use sudo, or 'sysctl "
			       "kernel.yama.ptrace_scope=0', " INSTEAD,
			       pid);
	if (facts->can_read_maps == -EACCES || facts->can_read_maps == -EPERM)
		return tm_fail(err, -EPERM,
			       "process %d hides itself from its own user (it changed its rights, "
			       "or set PR_SET_DUMPABLE to 0): use sudo",
			       pid);
	return 0;
}

static int judge_program(const struct target_facts *facts, struct tm_error *err)
{
	int pid = (int)facts->pid;
	if (facts->class_known && !facts->is_64_bit)
		return tm_fail(err, -ENOEXEC,
			       "process %d is not a 64-bit program for x86-64, which is all that "
			       "tidemark can record",
			       pid);
	if (facts->own_agent)
		return tm_fail(err, -EALREADY,
			       "process %d was started with tidemark's agent in it, and needs no "
			       "attaching by force; 'tidemark list' shows who records it",
			       pid);
	if (facts->shadow_stack)
		return tm_fail(err, -ENOTSUP,
			       "process %d uses a shadow stack, with which attaching is untested: "
			       "start it with 'tidemark run' instead, or with "
			       "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
			       pid);
	if (facts->status.seccomp == 1)
		return tm_fail(err, -EPERM,
			       "process %d is in seccomp's strict mode, in which the agent cannot "
			       "live; start it with 'tidemark run' instead",
			       pid);
	if (facts->status.seccomp == 2 && !target_capable(&facts->own, CAPABILITY_ADMIN))
		return tm_fail(err, -EPERM,
			       "process %d has a seccomp filter, which may kill it for what "
			       "attaching does; with sudo (CAP_SYS_ADMIN) the filter can be "
			       "suspended for that moment, " INSTEAD,
			       pid);
	return 0;
}

int target_judge(const struct target_facts *facts, struct tm_error *err)
{
	int pid = (int)facts->pid;
	if (facts->pid == facts->own_pid)
		return tm_fail(err, -EINVAL, "process %d is this tidemark itself", pid);
	if (!facts->exists)
		return tm_fail(err, -ESRCH, "there is no process %d", pid);
	if (facts->status.kernel_thread)
		return tm_fail(err, -EINVAL, "process %d is a thread of the kernel", pid);
	if (facts->has_ended)
		return tm_fail(err, -ESRCH,
			       "process %d has ended already; its parent has not taken notice",
			       pid);
	if (facts->status.tracer)
		return tm_fail(err, -EBUSY,
			       "process %d is being traced by process %d (%s): end that first", pid,
			       (int)facts->status.tracer,
			       *facts->tracer_name ? facts->tracer_name : "unknown");
	int error = judge_rights(facts, err);
	return error ? error : judge_program(facts, err);
}

/* What lets it be traced, where it lives. */
static const char *way_out(const struct target_facts *facts)
{
	if (facts->deny_ptrace)
		return "SELinux forbids it to everybody: 'setsebool deny_ptrace off'";
	switch (facts->container) {
	case TARGET_KUBERNETES:
		return "it is in a pod: add SYS_PTRACE to its securityContext.capabilities, or use "
		       "'kubectl debug --profile=sysadmin'";
	case TARGET_DOCKER:
	case TARGET_PODMAN:
		return "it is in a container: run that with --cap-add SYS_PTRACE, or use sudo "
		       "outside";
	case TARGET_LXC:
		return "it is in a container: use sudo outside";
	case TARGET_NO_CONTAINER:
		break;
	}
	if (facts->user_namespace)
		return "it is in another user namespace: use sudo outside";
	return "a container without SYS_PTRACE, or a security module (SELinux, AppArmor): use sudo "
	       "outside, or run it with --cap-add SYS_PTRACE";
}

int target_say_forbidden(const struct target_facts *facts, struct tm_error *err)
{
	return tm_fail(err, -EPERM,
		       "the kernel does not let us trace process %d, though its user is ours: "
		       "%s, " INSTEAD,
		       (int)facts->pid, way_out(facts));
}

int target_explain_eperm(const struct target_facts *facts, struct tm_error *err)
{
	struct target_facts now;
	target_look(facts->pid, &now);
	int error = target_judge(&now, err);
	if (error)
		return error;
	return target_say_forbidden(&now, err);
}
