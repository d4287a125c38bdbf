/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/loader.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

enum { HEADERS_MAX = 64 };

static bool read_at(int fd, void *ret, size_t bytes, uint64_t offset)
{
	size_t got = 0;
	return !io_pread(fd, ret, bytes, offset, &got) && got == bytes;
}

/* A program's linker leaves a place for the debugger, or says that it is one. */
static bool is_library(int fd, const Elf64_Phdr *dynamic)
{
	Elf64_Dyn entry;
	for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
		if (!read_at(fd, &entry, sizeof entry, dynamic->p_offset + at) ||
		    entry.d_tag == DT_DEBUG ||
		    (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE)))
			return false;
		if (entry.d_tag == DT_NULL)
			return true;
	}
	return true;
}

bool loader_is(int fd, const Elf64_Phdr *headers, size_t count)
{
	const Elf64_Phdr *dynamic = NULL;
	for (size_t i = 0; i < count; i++) {
		if (headers[i].p_type == PT_INTERP)
			return false;
		if (headers[i].p_type == PT_DYNAMIC)
			dynamic = &headers[i];
	}
	return dynamic && is_library(fd, dynamic);
}

bool loader_is_file(const char *path)
{
	Elf64_Ehdr head;
	Elf64_Phdr headers[HEADERS_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return false;
	bool is = read_at(fd, &head, sizeof head, 0) && !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
		  head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_phentsize == sizeof *headers &&
		  head.e_phnum <= HEADERS_MAX &&
		  read_at(fd, headers, head.e_phnum * sizeof *headers, head.e_phoff) &&
		  head.e_type == ET_DYN && loader_is(fd, headers, head.e_phnum);
	close(fd);
	return is;
}
