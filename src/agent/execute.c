/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/execute.h"

#include <elf.h>

#include "agent/agent.h"
#include "agent/borrowed.h"
#include "agent/memory_ops.h"
#include "agent/preload.h"
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
	SYS_NR_GETUID_ = 102,
	SYS_NR_GETGID_ = 104,
	SYS_NR_STATFS_ = 137,
	MAY_EXECUTE = 1,
	MAY_READ = 4,
	STAT_WORDS = 18,
	STAT_MODE = 3, /* the word of st_mode and st_uid; then st_gid */
	STATFS_WORDS = 15,
	STATFS_FLAGS = 10,
	MOUNT_NO_SETUID = 2,
	NO_NEW_PRIVILEGES = 39,
	TYPE = 0170000,
	TYPE_FILE = 0100000,
	SET_UID = 04000,
	SET_GID = 02010, /* without the group's x it means something else */
};

/* What it takes to record the program. */
enum kind {
	KIND_UNKNOWN, /* not there, no file, unreadable: nothing is done */
	KIND_LOADED,  /* its loader brings us along */
	KIND_STATIC,
	KIND_UNFIT, /* - enum wire_unfit */
};

/* Its loader would take no agent; and traced, it would not gain them. */
static bool gains_rights(const char *path, const uint64_t facts[STAT_WORDS])
{
	uint64_t mount[STATFS_WORDS] = {0};
	uint32_t mode = (uint32_t)facts[STAT_MODE], uid = (uint32_t)(facts[STAT_MODE] >> 32);
	uint32_t gid = (uint32_t)facts[STAT_MODE + 1];
	uint32_t own = (uint32_t)sys_call3(SYS_NR_GETUID_, 0, 0, 0);
	bool gains = ((mode & SET_UID) && uid != own) ||
		     ((mode & SET_GID) == SET_GID &&
		      gid != (uint32_t)sys_call3(SYS_NR_GETGID_, 0, 0, 0)) ||
		     (own && sys_call4(SYS_NR_GETXATTR_, (long)path, (long)"security.capability", 0,
				       0) > 0);
	if (!gains || sys_prctl(NO_NEW_PRIVILEGES, 0, 0, 0) == 1)
		return false;
	return sys_failed(sys_call3(SYS_NR_STATFS_, (long)path, (long)mount, 0)) ||
	       !(mount[STATFS_FLAGS] & MOUNT_NO_SETUID);
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

/* A program that no loader starts. */
static bool is_static(int fd, const Elf64_Ehdr *head)
{
	Elf64_Phdr header;
	if (head->e_phentsize != sizeof header || head->e_phnum > HEADERS_MAX)
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

static int kind_of(int fd, const char *bytes)
{
	Elf64_Ehdr head;
	memcpy(&head, bytes, sizeof head);
	if (head.e_ident[EI_CLASS] == ELFCLASS32)
		return KIND_UNFIT + WIRE_UNFIT_32_BIT;
	if (head.e_machine != EM_X86_64)
		return KIND_UNFIT + WIRE_UNFIT_FOREIGN;
	return is_static(fd, &head) ? KIND_STATIC : KIND_LOADED;
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

/* What the kernel would read of it first. How many bytes to interpret; a NUL follows. */
static long read_head(const char *path, char head[HEAD_BYTES], int *ret_kind)
{
	uint64_t facts[STAT_WORDS];
	*ret_kind = KIND_UNKNOWN;
	if (sys_failed(sys_call3(SYS_NR_STAT_, (long)path, (long)facts, 0)) ||
	    (facts[STAT_MODE] & TYPE) != TYPE_FILE)
		return 0;
	bool gains = gains_rights(path, facts);
	int fd = sys_open(path, OPEN_FLAGS, 0);
	if (fd < 0) {
		*ret_kind = gains ? KIND_UNFIT + WIRE_UNFIT_PRIVILEGED : KIND_UNKNOWN;
		return 0;
	}
	long got = sys_pread(fd, head, HEAD_BYTES - 1, 0);
	head[got > 0 ? got : 0] = '\0';
	if (got >= (long)sizeof(Elf64_Ehdr) && !memcmp(head, ELFMAG, SELFMAG)) {
		*ret_kind = gains ? KIND_UNFIT + WIRE_UNFIT_PRIVILEGED : kind_of(fd, head);
		got = 0; /* nothing to interpret */
	}
	sys_close(fd);
	return got;
}

__attribute__((noinline)) static int look_at(const char *path)
{
	char head[HEAD_BYTES];
	int kind = KIND_UNKNOWN;
	for (int i = 0; i < SCRIPTS_MAX && read_head(path, head, &kind) > 1; i++) {
		take_interpreter(head);
		path = head;
	}
	return kind;
}

/* Where the program to be will look for us. */
static bool find_session(char *const *environment, char ret[WIRE_PAGE_SESSION_BYTES])
{
	static const char name[] = {WIRE_SESSION_ENV "="};
	enum { NAME_BYTES = sizeof name - 1 };
	char begin[NAME_BYTES];
	const char *entry;
	while (environment && borrowed_read(environment++, &entry, sizeof entry) && entry)
		if (borrowed_read(entry, begin, NAME_BYTES) && !memcmp(begin, name, NAME_BYTES))
			return borrowed_string(entry + NAME_BYTES, ret, WIRE_PAGE_SESSION_BYTES);
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

static bool is_executable(const char *path)
{
	return !sys_failed(sys_call3(SYS_NR_ACCESS_, (long)path, MAY_EXECUTE, 0));
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
	const char *called = session;
	size_t bytes = strlen(file);
	if (!find_session(request->envp, session)) {
		if (request->kind < KIND_UNFIT || !preload_wanted(request->spawn))
			return nobody;
		called = agent_fixed.session;
	}
	memset(&ask, 0, sizeof ask);
	memcpy(ask.program, file, bytes < sizeof ask.program ? bytes : sizeof ask.program - 1);
	if (request->kind >= KIND_UNFIT)
		ask.unfit = (uint32_t)(request->kind - KIND_UNFIT);
	return rendezvous_ask(called, request->spawn ? WIRE_HELLO_SPAWN : WIRE_HELLO_EXEC, &ask);
}

typedef void (*file_fn)(struct execute_request *request, const char *file);

/* The kernel looks at the file first: what it would refuse is not read by us either. */
static void look_at_file(struct execute_request *request, const char *file)
{
	request->kind = look_at(file);
}

static void ask_about_file(struct execute_request *request, const char *file)
{
	if (is_executable(file))
		request->asked = ask(request, file);
}

/* Where the file is not named by its path. */
__attribute__((noinline)) static void with_found(struct execute_request *request, file_fn act)
{
	char path[PATH_BYTES];
	if (request->by_fd)
		path_of(request->fd, path);
	else if (!request->file[0] || !search_path(request->file, path))
		return;
	act(request, path);
}

static void with_file(struct execute_request *request, file_fn act)
{
	if (request->by_fd || (request->search && !has_slash(request->file)))
		with_found(request, act);
	else
		act(request, request->file);
}

size_t execute_look(struct execute_request *request)
{
	request->kind = KIND_UNKNOWN;
	/* A forked child has no other word of its parent's filter. */
	if (!agent_fixed.session[0] || agent_fixed.filtered || !agent_may_call())
		return 0;
	with_file(request, look_at_file);
	if ((request->kind != KIND_LOADED && request->kind != KIND_STATIC) ||
	    !preload_wanted(request->spawn))
		return 0;
	/* Another root, or the loader could not read it: it would only complain. */
	if (sys_failed(sys_call3(SYS_NR_ACCESS_, (long)agent_own_path(), MAY_READ, 0))) {
		if (request->kind == KIND_LOADED)
			request->kind = KIND_UNFIT + WIRE_UNFIT_NO_AGENT;
		return 0;
	}
	return preload_room(request->envp);
}

struct rendezvous_link execute_ask(struct execute_request *request, void *memory, size_t room)
{
	if (room) {
		char *const *before = request->envp;
		request->envp = preload_put(before, memory, room);
		request->mended = request->envp != before;
	}
	request->asked = nobody;
	if (request->kind == KIND_STATIC || request->kind >= KIND_UNFIT)
		with_file(request, ask_about_file);
	return request->asked;
}

void execute_over(struct rendezvous_link asked)
{
	if (asked.fd >= 0)
		rendezvous_withdraw(asked);
}
