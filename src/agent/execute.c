/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/execute.h"

#include <elf.h>

#include "agent/agent.h"
#include "agent/memory_ops.h"
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
	BAD_ADDRESS = -14,
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

/* A loader itself is no program, nor is any library: their linker had no debugger in mind. */
static bool is_library(int fd, const Elf64_Phdr *dynamic)
{
	Elf64_Dyn entry = {.d_tag = DT_DEBUG};
	for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
		if (sys_pread(fd, &entry, sizeof entry, dynamic->p_offset + at) !=
			    (long)sizeof entry ||
		    entry.d_tag == DT_NULL)
			return true;
		if (entry.d_tag == DT_DEBUG ||
		    (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE)))
			return false;
	}
	return true;
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
		    header.p_type == PT_INTERP ||
		    (header.p_type == PT_DYNAMIC && head->e_type == ET_DYN &&
		     is_library(fd, &header)))
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

__attribute__((noinline)) static bool is_static_file(const char *path)
{
	char head[HEAD_BYTES];
	bool found = false;
	for (int i = 0; i < SCRIPTS_MAX && read_head(path, head, &found) > 1; i++) {
		take_interpreter(head);
		path = head;
	}
	return found;
}

/*
 * What the program hands to the kernel may be wrong: then the call is to fail,
 * not we. Where we may not ask the kernel to read it, it is believed. How many
 * bytes; no more than to the end of a page.
 */
static size_t read_some(const void *from, void *ret, size_t bytes)
{
	size_t left = AGENT_PAGE - (uintptr_t)from % AGENT_PAGE;
	struct sys_iovec remote = {(void *)(uintptr_t)from, bytes < left ? bytes : left};
	struct sys_iovec local = {ret, remote.bytes};
	long got = sys_process_vm_readv(sys_gettid(), &local, 1, &remote, 1);
	if (!sys_failed(got) || got == BAD_ADDRESS)
		return got > 0 ? (size_t)got : 0;
	memcpy(ret, from, remote.bytes);
	return remote.bytes;
}

static bool read_all(const void *from, void *ret, size_t bytes)
{
	for (size_t at = 0, got; at < bytes; at += got) {
		got = read_some((const char *)from + at, (char *)ret + at, bytes - at);
		if (!got)
			return false;
	}
	return true;
}

/* False: it is not readable, or longer. */
static bool read_string(const char *from, char *ret, size_t room)
{
	for (size_t at = 0; at < room;) {
		size_t got = read_some(from + at, ret + at, room - at);
		if (!got)
			return false;
		for (size_t end = at + got; at < end; at++)
			if (!ret[at])
				return true;
	}
	return false;
}

/* Where the program to be will look for us. */
static bool find_session(char *const *environment, char ret[WIRE_PAGE_SESSION_BYTES])
{
	static const char name[] = {WIRE_SESSION_ENV "="};
	enum { NAME_BYTES = sizeof name - 1 };
	char begin[NAME_BYTES];
	const char *entry;
	while (environment && read_all(environment++, &entry, sizeof entry) && entry)
		if (read_all(entry, begin, NAME_BYTES) && !memcmp(begin, name, NAME_BYTES))
			return read_string(entry + NAME_BYTES, ret, WIRE_PAGE_SESSION_BYTES);
	return false;
}

/* In our own environment. */
static const char *find_path(void)
{
	for (char *const *at = agent_environment(); at && *at; at++)
		if (strlen(*at) >= 5 && !memcmp(*at, "PATH=", 5))
			return *at + 5;
	return "/bin:/usr/bin";
}

/* The first in PATH that may be executed, as the C library finds it. */
static bool search_path(const char *file, char path[PATH_BYTES])
{
	size_t file_bytes = strlen(file) + 1;
	for (const char *at = find_path();; at++) {
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

static const struct rendezvous_link nobody = {.fd = -1};

__attribute__((noinline)) static struct rendezvous_link ask(const struct execute_request *request,
							    const char *file)
{
	struct wire_ask ask;
	char session[WIRE_PAGE_SESSION_BYTES];
	size_t bytes = strlen(file);
	if (!find_session(request->envp, session))
		return nobody;
	memset(&ask, 0, sizeof ask);
	memcpy(ask.program, file, bytes < sizeof ask.program ? bytes : sizeof ask.program - 1);
	return rendezvous_ask(session, request->spawn ? WIRE_HELLO_SPAWN : WIRE_HELLO_EXEC, &ask);
}

/* The kernel looks at the file first: what it would refuse is not read by us either. */
static struct rendezvous_link ask_if_static(const struct execute_request *request, const char *file)
{
	return is_static_file(file) ? ask(request, file) : nobody;
}

/* Where the file is not named by its path. */
__attribute__((noinline)) static struct rendezvous_link
ask_found(const struct execute_request *request)
{
	char path[PATH_BYTES];
	if (request->by_fd)
		path_of(request->fd, path);
	else if (!request->file[0] || !search_path(request->file, path))
		return nobody;
	return ask_if_static(request, path);
}

struct rendezvous_link execute_ask(const struct execute_request *request)
{
	/* A forked child has no other word of its parent's filter. */
	if (!agent_fixed.session[0] || agent_fixed.filtered || !agent_may_call())
		return nobody;
	if (request->by_fd || (request->search && !has_slash(request->file)))
		return ask_found(request);
	return ask_if_static(request, request->file);
}

void execute_over(struct rendezvous_link asked)
{
	if (asked.fd >= 0)
		rendezvous_withdraw(asked);
}
