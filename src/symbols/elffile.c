/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/elffile.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "symbols/host.h"

enum { NOTES_MAX_BYTES = 1 << 20 };

static void find_build_id_in(struct elffile *file, Elf_Data *data)
{
	size_t offset = 0, next, name_offset, desc_offset;
	GElf_Nhdr note;
	while ((next = gelf_getnote(data, offset, &note, &name_offset, &desc_offset)) > 0) {
		const char *bytes = data->d_buf;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(bytes + name_offset, "GNU", 4) && note.n_descsz > 0 &&
		    note.n_descsz <= ELFFILE_BUILD_ID_MAX) {
			memcpy(file->build_id, bytes + desc_offset, note.n_descsz);
			file->build_id_bytes = note.n_descsz;
			return;
		}
		offset = next;
	}
}

static void find_build_id(struct elffile *file)
{
	size_t count = 0;
	if (elf_getphdrnum(file->elf, &count))
		return;
	for (size_t i = 0; i < count && i < 4096 && !file->build_id_bytes; i++) {
		GElf_Phdr header;
		if (!gelf_getphdr(file->elf, (int)i, &header) || header.p_type != PT_NOTE ||
		    header.p_filesz > NOTES_MAX_BYTES)
			continue;
		Elf_Data *data =
			elf_getdata_rawchunk(file->elf, (int64_t)header.p_offset, header.p_filesz,
					     header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (data)
			find_build_id_in(file, data);
	}
	/* Debug files keep the note's section but may have lost the segment's content. */
	Elf_Scn *section = NULL;
	while (!file->build_id_bytes && (section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE ||
		    header.sh_size > NOTES_MAX_BYTES)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		if (data)
			find_build_id_in(file, data);
	}
}

static int finish_open(struct elffile *file, const char *name, struct tm_error *err)
{
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF) {
		elffile_close(file);
		return tm_fail(err, -ENOEXEC, "'%s' is not an ELF file", name);
	}
	find_build_id(file);
	return 0;
}

int elffile_open(struct elffile *file, const char *root, const char *path, struct tm_error *err)
{
	int fd = host_open(root, path);
	if (fd >= 0)
		return elffile_open_fd(file, fd, root, path, err);
	*file = (struct elffile){.fd = -1};
	return tm_fail(err, fd, "'%s%s' cannot be opened: %s", root, path, strerror(-fd));
}

int elffile_open_fd(struct elffile *file, int fd, const char *root, const char *path,
		    struct tm_error *err)
{
	*file = (struct elffile){.fd = -1};
	struct stat status;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return tm_fail(err, -ENOEXEC, "'%s%s' is not a regular file", root, path);
	}
	elf_version(EV_CURRENT);
	file->fd = fd;
	file->root = tm_strdup(root);
	file->path = tm_strdup(path);
	if (!file->root || !file->path) {
		elffile_close(file);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	file->elf = elf_begin(fd, ELF_C_READ, NULL);
	return finish_open(file, path, err);
}

int elffile_open_memory(struct elffile *file, const void *image, size_t bytes, struct tm_error *err)
{
	*file = (struct elffile){.fd = -1};
	elf_version(EV_CURRENT);
	/* libelf writes nothing into an image it was not asked to change. */
	file->elf = elf_memory((char *)(uintptr_t)image, bytes);
	return finish_open(file, "image in memory", err);
}

void elffile_close(struct elffile *file)
{
	if (file->elf)
		elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
	tm_free(file->root);
	tm_free(file->path);
	*file = (struct elffile){.fd = -1};
}

Elf_Scn *elffile_section(const struct elffile *file, const char *name, uint32_t type,
			 GElf_Shdr *ret_header)
{
	size_t names;
	if (elf_getshdrstrndx(file->elf, &names) && name)
		return NULL;
	Elf_Scn *section = NULL;
	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;
		if (!gelf_getshdr(section, &header))
			continue;
		const char *found = name ? elf_strptr(file->elf, names, header.sh_name) : NULL;
		if (name ? found && !strcmp(found, name) : header.sh_type == type) {
			*ret_header = header;
			return section;
		}
	}
	return NULL;
}
