/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/preflight.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "collector/loader.h"
#include "collector/sanitizer.h"
#include "inject/plan.h"

enum {
	SCRIPT_DEPTH = 4, /* scripts whose interpreter is a script */
	HEAD_BYTES = 4096,
	PROGRAM_HEADERS = 64 * 1024,
};

static bool is_executable_file(const char *path)
{
	struct stat facts;
	return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && access(path, X_OK) == 0;
}

/* The first executable file of that name in PATH; else the first that exists; else NULL. */
static char *search_path(const char *name)
{
	const char *path = getenv("PATH");
	char *second_best = NULL;
	for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin";; at++) {
		size_t bytes = strcspn(at, ":");
		struct text text = {0};
		char *candidate = NULL;
		text_put_bytes(&text, at, bytes);
		text_print(&text, "%s%s", bytes ? "/" : "", name);
		if (text_take(&text, &candidate))
			break;
		if (is_executable_file(candidate)) {
			tm_free(second_best);
			return candidate;
		}
		if (!second_best && access(candidate, F_OK) == 0)
			second_best = candidate;
		else
			tm_free(candidate);
		at += bytes;
		if (!*at)
			break;
	}
	return second_best;
}

static enum preflight_verdict find(const char *program, char **ret_path, struct tm_error *err)
{
	struct stat facts;
	if (!*program) {
		tm_fail(err, -ENOENT, "the name of the program is empty: no such program");
		return PREFLIGHT_NOT_FOUND;
	}
	char *path = strchr(program, '/') ? tm_strdup(program) : search_path(program);
	*ret_path = path;
	if (!path || stat(path, &facts)) {
		int code = path ? -errno : -ENOENT;
		if (code == -EACCES) {
			tm_fail(err, code, "'%s' cannot be reached: %s", program, strerror(-code));
			return PREFLIGHT_NOT_EXECUTABLE;
		}
		tm_fail(err, code, "'%s': no such program%s", program,
			strchr(program, '/') ? "" : " in the folders of PATH");
		return PREFLIGHT_NOT_FOUND;
	}
	if (!is_executable_file(path)) {
		tm_fail(err, -EACCES, "'%s' is %s", path,
			S_ISDIR(facts.st_mode)
				? "a folder, not a program"
				: "not executable: chmod +x it, or name its interpreter");
		return PREFLIGHT_NOT_EXECUTABLE;
	}
	return PREFLIGHT_GOOD;
}

/* The loader ignores LD_PRELOAD when the program gains rights by being started. */
static bool gains_rights(const char *path, int fd)
{
	struct stat facts;
	struct statvfs mount;
	if (fstat(fd, &facts) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	    (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_NOSUID)))
		return false;
	if ((facts.st_mode & S_ISUID) && facts.st_uid != getuid())
		return true;
	if ((facts.st_mode & S_ISGID) && (facts.st_mode & S_IXGRP) && facts.st_gid != getgid())
		return true;
	return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* Go's linker leaves a note with its name. */
static bool is_go_note(int fd, const Elf64_Phdr *segment)
{
	static const char go[] = {'G', 'o', 0, 0};
	char note[sizeof(Elf64_Nhdr) + sizeof go];
	Elf64_Nhdr head;
	size_t got = 0;
	if (io_pread(fd, note, sizeof note, segment->p_offset, &got) || got < sizeof note)
		return false;
	memcpy(&head, note, sizeof head);
	return head.n_namesz == sizeof go && !memcmp(note + sizeof head, go, sizeof go);
}

struct elf_traits {
	bool interpreter; /* the loader starts it */
	bool loader;      /* it is the loader */
	bool go;
};

static struct elf_traits read_traits(int fd, const Elf64_Ehdr *head)
{
	size_t bytes = (size_t)head->e_phnum * sizeof(Elf64_Phdr), got = 0;
	struct elf_traits traits = {0};
	if (head->e_phentsize != sizeof(Elf64_Phdr) || bytes > PROGRAM_HEADERS)
		return traits;
	Elf64_Phdr *headers = tm_alloc(bytes + 1);
	if (headers && !io_pread(fd, headers, bytes, head->e_phoff, &got))
		for (size_t i = 0; i < got / sizeof *headers; i++) {
			traits.interpreter |= headers[i].p_type == PT_INTERP;
			traits.go |= headers[i].p_type == PT_NOTE && is_go_note(fd, &headers[i]);
		}
	if (headers && head->e_type == ET_DYN && got == bytes)
		traits.loader = loader_is(fd, headers, got / sizeof *headers);
	tm_free(headers);
	return traits;
}

static enum preflight_verdict refuse_static(const struct preflight *ret, bool has_symbols,
					    struct tm_error *err)
{
	if (!has_symbols)
		tm_fail(err, -ENOEXEC,
			"'%s' is statically linked and has no symbols, so its allocator cannot be "
			"found: do not strip it (no -s), or link it dynamically",
			ret->image);
	else
		tm_fail(err, -ENOEXEC,
			"'%s' is statically linked and has no malloc, nor another allocator known "
			"by name: name its functions with --hook",
			ret->image);
	return PREFLIGHT_UNRECORDABLE;
}

/* It will be entered at its first instruction: is there something to patch? */
static enum preflight_verdict check_static(struct preflight *ret, int fd,
					   const struct plan_hooks *hooks, struct tm_error *err)
{
	struct plan_source source = {.fd = fd, .what = PLAN_ALL, .hooks = hooks};
	struct plan *plan = NULL;
	if (plan_new(&source, &plan, NULL))
		return refuse_static(ret, false, err);
	ret->is_static = true;
	bool found = plan->entry_count > 0, has_symbols = plan->has_symbols;
	patching_refuse_all(ret->unhooked, plan, hooks, plan->hooks_found);
	plan_free(plan);
	return found ? PREFLIGHT_GOOD : refuse_static(ret, has_symbols, err);
}

static enum preflight_verdict check_elf(struct preflight *ret, int fd, const void *bytes,
					const struct plan_hooks *hooks, struct tm_error *err)
{
	Elf64_Ehdr head;
	memcpy(&head, bytes, sizeof head);
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64) {
		tm_fail(err, -ENOEXEC,
			"'%s' is a %s program: this version records x86-64 programs only; build it "
			"for x86-64",
			ret->image, head.e_ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "foreign");
		return PREFLIGHT_UNRECORDABLE;
	}
	struct elf_traits traits = read_traits(fd, &head);
	if (traits.go && !traits.interpreter) {
		tm_fail(err, -ENOEXEC,
			"'%s' is a Go program without C: Go's heap is its own, and its own "
			"profiler "
			"shows it (go tool pprof); with cgo, linked dynamically, the C side is "
			"recorded",
			ret->image);
		return PREFLIGHT_UNRECORDABLE;
	}
	if (gains_rights(ret->image, fd)) {
		tm_fail(err, -EPERM,
			"'%s' is setuid, setgid or has file capabilities, so the loader refuses "
			"the "
			"agent: run it as the user it changes to, or a copy without these rights",
			ret->image);
		return PREFLIGHT_UNRECORDABLE;
	}
	if (!traits.interpreter && !traits.loader)
		return check_static(ret, fd, hooks, err);
	sanitizer_find(fd, ret->sanitizer, sizeof ret->sanitizer);
	return PREFLIGHT_GOOD;
}

/* The interpreter in "#! /bin/sh -e"; NULL if there is none. */
static char *interpreter(char *line)
{
	line[strcspn(line, "\n")] = '\0';
	line += 2;
	line += strspn(line, " \t");
	line[strcspn(line, " \t\r")] = '\0';
	return *line ? tm_strdup(line) : NULL;
}

static enum preflight_verdict check_file(struct preflight *ret, int depth,
					 const struct plan_hooks *hooks, struct tm_error *err);

static enum preflight_verdict check_script(struct preflight *ret, char *interpreter_path, int depth,
					   const struct plan_hooks *hooks, struct tm_error *err)
{
	if (!interpreter_path || depth == SCRIPT_DEPTH) {
		tm_free(interpreter_path);
		tm_fail(err, -ENOEXEC, "'%s': its first line (#!) names no interpreter",
			ret->image);
		return PREFLIGHT_NOT_EXECUTABLE;
	}
	if (!is_executable_file(interpreter_path)) {
		int code = access(interpreter_path, F_OK) ? -ENOENT : -EACCES;
		tm_fail(err, code, "'%s': its interpreter '%s' %s", ret->image, interpreter_path,
			code == -ENOENT ? "does not exist" : "is not executable");
		tm_free(interpreter_path);
		return code == -ENOENT ? PREFLIGHT_NOT_FOUND : PREFLIGHT_NOT_EXECUTABLE;
	}
	tm_free(ret->image);
	ret->image = interpreter_path;
	ret->script = true;
	return check_file(ret, depth + 1, hooks, err);
}

static enum preflight_verdict check_file(struct preflight *ret, int depth,
					 const struct plan_hooks *hooks, struct tm_error *err)
{
	char head[HEAD_BYTES + 1];
	size_t got = 0;
	int fd = open(ret->image, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	/* Executable but not readable: the kernel can start it, we cannot look. */
	if (fd < 0)
		return PREFLIGHT_GOOD;
	int error = io_read(fd, head, HEAD_BYTES, &got);
	head[got] = '\0';
	enum preflight_verdict verdict = PREFLIGHT_GOOD;
	if (!error && got >= sizeof(Elf64_Ehdr) && memcmp(head, ELFMAG, SELFMAG) == 0)
		verdict = check_elf(ret, fd, head, hooks, err);
	else if (!error && got >= 2 && head[0] == '#' && head[1] == '!')
		verdict = check_script(ret, interpreter(head), depth, hooks, err);
	else if (!error) /* as a shell does with what the kernel does not know */
		verdict = check_script(ret, tm_strdup("/bin/sh"), depth, hooks, err);
	close(fd);
	return verdict;
}

enum preflight_verdict preflight_check(const char *program, const struct plan_hooks *hooks,
				       struct preflight *ret, struct tm_error *err)
{
	*ret = (struct preflight){0};
	enum preflight_verdict verdict = find(program, &ret->path, err);
	if (verdict != PREFLIGHT_GOOD)
		return verdict;
	ret->image = tm_strdup(ret->path);
	return ret->image ? check_file(ret, 0, hooks, err) : PREFLIGHT_GOOD;
}

void preflight_done(struct preflight *preflight)
{
	tm_free(preflight->path);
	tm_free(preflight->image);
	*preflight = (struct preflight){0};
}
