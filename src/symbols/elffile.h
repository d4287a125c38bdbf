/* SPDX-License-Identifier: Apache-2.0 */
/* An ELF file opened for reading through libelf, by pread only: a file that shrinks is no SIGBUS.
 */
#pragma once

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { ELFFILE_BUILD_ID_MAX = 64 };

struct elffile {
	Elf *elf;          /* NULL = not open */
	int fd;            /* -1 for an image in memory */
	char *root, *path; /* as opened; NULL for an image in memory */
	uint8_t build_id[ELFFILE_BUILD_ID_MAX];
	uint32_t build_id_bytes; /* 0 = it has none */
};

/*
 * Opens root + path (root may be "" ; symbolic links stay within it where the
 * kernel can do that). Regular files only. -ENOENT and other errors of open,
 * -ENOEXEC if it is no ELF file.
 */
TM_MUST_CHECK int elffile_open(struct elffile *file, const char *root, const char *path,
			       struct tm_error *err);
/* The same of a file that is open already; takes fd over, also on failure. */
TM_MUST_CHECK int elffile_open_fd(struct elffile *file, int fd, const char *root, const char *path,
				  struct tm_error *err);
/* An ELF image in memory, which must outlive the struct. */
TM_MUST_CHECK int elffile_open_memory(struct elffile *file, const void *image, size_t bytes,
				      struct tm_error *err);
/* Safe on a struct that was closed already or whose opening failed; not on a zeroed one. */
void elffile_close(struct elffile *file);

/* Finds a section by name or (name NULL) by type; NULL = none. */
Elf_Scn *elffile_section(const struct elffile *file, const char *name, uint32_t type,
			 GElf_Shdr *ret_header);
