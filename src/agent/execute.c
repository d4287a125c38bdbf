/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/execute.h"

#include <elf.h>

#include "agent/agent.h"
#include "agent/memory_ops.h"
#include "agent/rendezvous.h"
#include "agent/sys.h"

enum {
	HEAD_BYTES = 256, /* as much as the kernel looks at */
	HEADERS_MAX = 64,
	PATH_BYTES = 4096,
	SCRIPTS_MAX = 4,               /* scripts whose interpreter is a script */
	OPEN_FLAGS = 02000000 | 04000, /* CLOEXEC, NONBLOCK */
	SYS_NR_STAT_ = 4,
	SYS_NR_ACCESS_ = 21,
	SYS_NR_GETXATTR_ = 191,
	MAY_EXECUTE = 1,
	STAT_WORDS = 18,
	STAT_MODE = 3, /* the word that begins with st_mode */
	KIND = 0170000,
	KIND_FILE = 0100000,
	GAINS_RIGHTS = 06000,
};

/* Traced, a program would not gain rights: those that would are left alone. */
static bool is_ordinary(const char *path)
{
	uint64_t facts[STAT_WORDS];
	if (sys_failed(sys_call3(SYS_NR_STAT_, (long)path, (long)facts, 0)))
		return false;
	uint32_t mode = (uint32_t)facts[STAT_MODE];
	return (mode & KIND) == KIND_FILE && !(mode & GAINS_RIGHTS) &&
	       sys_call4(SYS_NR_GETXATTR_, (long)path, (long)"security.capability", 0, 0) <= 0;
}

/* A 64-bit program for this processor without a loader. */
static bool is_static(int fd, const Elf64_Ehdr *head)
{
	Elf64_Phdr header;
	if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != EM_X86_64 ||
	    head->e_phentsize != sizeof header || head->e_phnum > HEADERS_MAX)
		return false;
	for (uint16_t i = 0; i < head->e_phnum; i++)
		if (sys_pread(fd, &header, sizeof header, head->e_phoff + i * sizeof header) !=
			    (long)sizeof header ||
		    header.p_type == PT_INTERP)
			return false;
	return true;
}

/* "#! /bin/sh -e": moves the path to the beginning. What is no script at all a shell will read. */
static void take_interpreter(char *head)
{
	static const char shell[] = "/bin/sh";
	size_t from = 2, bytes = 0;
	if (head[0] != '#' || head[1] != '!') {
		memcpy(head, shell, sizeof shell);
		return;
	}
	while (head[from] == ' ' || head[from] == '\t')
		from++;
	while (head[from] && head[from] != ' ' && head[from] != '\t' && head[from] != '\n' &&
	       head[from] != '\r')
		head[bytes++] = head[from++];
	head[bytes] = '\0';
}

/* What the kernel would read of it first. How many bytes; a NUL follows. */
static long read_head(const char *path, char head[HEAD_BYTES], bool *ret_static)
{
	Elf64_Ehdr elf;
	int fd = is_ordinary(path) ? sys_open(path, OPEN_FLAGS, 0) : -1;
	*ret_static = false;
	if (fd < 0)
		return 0;
	long got = sys_pread(fd, head, HEAD_BYTES - 1, 0);
	head[got > 0 ? got : 0] = '\0';
	if (got >= (long)sizeof elf && !memcmp(head, ELFMAG, SELFMAG)) {
		memcpy(&elf, head, sizeof elf);
		*ret_static = is_static(fd, &elf);
		got = 0; /* nothing to interpret */
	}
	sys_close(fd);
	return got;
}

static bool is_static_file(const char *path)
{
	char head[HEAD_BYTES];
	bool found = false;
	for (int i = 0; i < SCRIPTS_MAX && read_head(path, head, &found) > 1; i++) {
		take_interpreter(head);
		path = head;
	}
	return found;
}

static const char *find_variable(char *const *environment, const char *name, size_t name_bytes)
{
	for (; environment && *environment; environment++) {
		const char *entry = *environment;
		if (strlen(entry) > name_bytes && entry[name_bytes] == '=' &&
		    !memcmp(entry, name, name_bytes))
			return entry + name_bytes + 1;
	}
	return NULL;
}

/* The first in PATH that may be executed, as the C library finds it. */
static bool search_path(const char *file, char path[PATH_BYTES])
{
	const char *at = find_variable(agent_environment(), "PATH", 4);
	size_t file_bytes = strlen(file) + 1;
	for (at = at ? at : "/bin:/usr/bin";; at++) {
		size_t bytes = 0;
		while (at[bytes] && at[bytes] != ':')
			bytes++;
		if (bytes + 1 + file_bytes <= PATH_BYTES) {
			memcpy(path, at, bytes);
			path[bytes] = '/';
			memcpy(path + bytes + (bytes != 0), file, file_bytes);
			if (!sys_failed(sys_call3(SYS_NR_ACCESS_, (long)path, MAY_EXECUTE, 0)))
				return true;
		}
		at += bytes;
		if (!*at)
			return false;
	}
}

static bool has_slash(const char *file)
{
	while (*file && *file != '/')
		file++;
	return *file;
}

/* "/proc/self/fd/N" */
static void path_of(int fd, char path[PATH_BYTES])
{
	static const char folder[] = "/proc/self/fd/";
	char digits[12];
	size_t count = 0, at = sizeof folder - 1;
	unsigned rest = fd < 0 ? 0 : (unsigned)fd;
	do
		digits[count++] = (char)('0' + rest % 10);
	while (rest /= 10);
	memcpy(path, folder, at);
	while (count)
		path[at++] = digits[--count];
	path[at] = '\0';
}

__attribute__((noinline)) static int ask(const struct execute_request *request, const char *file)
{
	struct wire_ask ask;
	char *const *environment = request->envp ? request->envp : agent_environment();
	const char *session =
		find_variable(environment, WIRE_SESSION_ENV, sizeof WIRE_SESSION_ENV - 1);
	size_t bytes = strlen(file);
	if (!session)
		return -1;
	memset(&ask, 0, sizeof ask);
	memcpy(ask.program, file, bytes < sizeof ask.program ? bytes : sizeof ask.program - 1);
	return rendezvous_ask(session, request->spawn ? WIRE_HELLO_SPAWN : WIRE_HELLO_EXEC, &ask);
}

/* The kernel looks at the file first: what it would refuse is not read by us either. */
static int ask_if_static(const struct execute_request *request, const char *file)
{
	return is_static_file(file) ? ask(request, file) : -1;
}

/* Where the file is not named by its path. */
__attribute__((noinline)) static int ask_found(const struct execute_request *request)
{
	char path[PATH_BYTES];
	if (!request->file)
		path_of(request->fd, path);
	else if (!request->file[0] || !search_path(request->file, path))
		return -1;
	return ask_if_static(request, path);
}

int execute_ask(const struct execute_request *request)
{
	if (!agent_fixed.session[0] || agent_fixed.filtered)
		return -1;
	if (!request->file || (request->search && !has_slash(request->file)))
		return ask_found(request);
	return ask_if_static(request, request->file);
}

void execute_over(int asked)
{
	if (asked >= 0)
		rendezvous_withdraw(asked);
}
