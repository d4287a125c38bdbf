/* SPDX-License-Identifier: Apache-2.0 */
#include "cfi_image.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEADERS_MAX = 64, PAGE_BYTES = 4096 };

static size_t read_headers(int fd, Elf64_Phdr *ret)
{
	Elf64_Ehdr header;

	if (pread(fd, &header, sizeof header, 0) != sizeof header ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64 ||
	    header.e_phnum > HEADERS_MAX)
		return 0;
	size_t bytes = header.e_phnum * sizeof ret[0];
	return pread(fd, ret, bytes, (off_t)header.e_phoff) == (ssize_t)bytes ? header.e_phnum : 0;
}

static bool map_segments(int fd, const Elf64_Phdr *headers, size_t count, struct cfi_loaded *ret)
{
	uintptr_t start = UINTPTR_MAX;
	uintptr_t end = 0;

	for (size_t i = 0; i < count; i++) {
		if (headers[i].p_type != PT_LOAD)
			continue;
		if (headers[i].p_vaddr < start)
			start = headers[i].p_vaddr & ~(uintptr_t)(PAGE_BYTES - 1);
		if (headers[i].p_vaddr + headers[i].p_memsz > end)
			end = headers[i].p_vaddr + headers[i].p_memsz;
	}
	if (end <= start)
		return false;
	ret->bytes = end - start;
	ret->memory = mmap(NULL, ret->bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ret->memory == MAP_FAILED)
		return false;
	ret->bias = (uintptr_t)ret->memory - start;
	for (size_t i = 0; i < count; i++)
		if (headers[i].p_type == PT_LOAD &&
		    pread(fd, (void *)(ret->bias + headers[i].p_vaddr), headers[i].p_filesz,
			  (off_t)headers[i].p_offset) != (ssize_t)headers[i].p_filesz)
			return false;
	return true;
}

static void set_image(const Elf64_Phdr *headers, size_t count, struct cfi_loaded *ret)
{
	const Elf64_Phdr *table = NULL;

	for (size_t i = 0; i < count; i++)
		if (headers[i].p_type == PT_GNU_EH_FRAME)
			table = &headers[i];
	for (size_t i = 0; table && i < count; i++) {
		uintptr_t start = ret->bias + headers[i].p_vaddr;
		if (headers[i].p_type != PT_LOAD)
			continue;
		if (table->p_vaddr >= headers[i].p_vaddr &&
		    table->p_vaddr - headers[i].p_vaddr < headers[i].p_filesz) {
			ret->image.start = start;
			ret->image.end = start + headers[i].p_filesz;
			ret->image.eh_frame_hdr = ret->bias + table->p_vaddr;
			ret->image.hdr_bytes = table->p_memsz;
		}
		if ((headers[i].p_flags & PF_X) && !ret->image.code_start) {
			ret->image.code_start = start;
			ret->image.code_end = start + headers[i].p_filesz;
		}
	}
}

bool cfi_load(const char *path, struct cfi_loaded *ret)
{
	Elf64_Phdr headers[HEADERS_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool good = false;

	*ret = (struct cfi_loaded){.memory = MAP_FAILED};
	if (fd < 0)
		return false;
	size_t count = read_headers(fd, headers);
	if (count && map_segments(fd, headers, count, ret)) {
		set_image(headers, count, ret);
		good = ret->image.eh_frame_hdr != 0;
	}
	close(fd);
	if (!good)
		cfi_unload(ret);
	return good;
}

void cfi_unload(struct cfi_loaded *loaded)
{
	if (loaded->memory != MAP_FAILED)
		munmap(loaded->memory, loaded->bytes);
	loaded->memory = MAP_FAILED;
}
