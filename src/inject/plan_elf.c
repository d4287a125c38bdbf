/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan_elf.h"

#include <errno.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "inject/plan.h"

enum {
	SECTIONS_MAX = 65536,
	HEADERS_MAX = 1024,
	PAGE_BYTES = 4096,
	TABLE_BYTES_MAX = 1 << 30,
};

/* So many bytes of the file at an offset, with a NUL behind; NULL when not all are there. */
static void *read_bytes(int fd, uint64_t offset, uint64_t bytes, uint64_t limit)
{
	size_t got = 0;
	if (!bytes || bytes > limit)
		return NULL;
	char *data = tm_alloc(bytes + 1);
	if (data && (io_pread(fd, data, bytes, offset, &got) || got != bytes))
		data = tm_free(data);
	return data;
}

static bool is_ours(const Elf64_Ehdr *head)
{
	return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
	       head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_ident[EI_DATA] == ELFDATA2LSB &&
	       head->e_machine == EM_X86_64 && head->e_phentsize == sizeof(Elf64_Phdr) &&
	       head->e_phnum <= HEADERS_MAX;
}

static void read_table(struct plan_elf *elf, const Elf64_Shdr *section, const Elf64_Shdr *strings)
{
	struct plan_table *table = &elf->tables[elf->table_count];
	Elf64_Sym *symbols =
		read_bytes(elf->fd, section->sh_offset, section->sh_size, TABLE_BYTES_MAX);
	char *names =
		symbols ? read_bytes(elf->fd, strings->sh_offset, strings->sh_size, TABLE_BYTES_MAX)
			: NULL;
	if (!names) {
		tm_free(symbols);
		return;
	}
	*table = (struct plan_table){
		.symbols = symbols,
		.count = section->sh_size / sizeof *symbols,
		.names = names,
		.name_bytes = strings->sh_size,
		.dynamic = section->sh_type == SHT_DYNSYM,
	};
	elf->table_count++;
}

static void read_tables(struct plan_elf *elf, const Elf64_Ehdr *head)
{
	size_t count = head->e_shnum;
	Elf64_Shdr *sections = NULL;
	if (head->e_shentsize == sizeof *sections && count <= SECTIONS_MAX)
		sections = read_bytes(elf->fd, head->e_shoff, count * sizeof *sections,
				      SECTIONS_MAX * sizeof *sections);
	for (size_t i = 0; sections && i < count && elf->table_count < PLAN_ELF_TABLES; i++) {
		const Elf64_Shdr *section = &sections[i];
		if ((section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM) &&
		    section->sh_entsize == sizeof(Elf64_Sym) && section->sh_link < count)
			read_table(elf, section, &sections[section->sh_link]);
	}
	tm_free(sections);
}

static int read_headers(int fd, Elf64_Ehdr *ret_head, Elf64_Phdr **ret_headers,
			struct tm_error *err)
{
	size_t got = 0;
	int error = io_pread(fd, ret_head, sizeof *ret_head, 0, &got);
	if (error)
		return tm_fail(err, error, "cannot be read: %s", strerror(-error));
	if (got != sizeof *ret_head || !is_ours(ret_head))
		return tm_fail(err, -ENOEXEC, "is not an x86-64 ELF file");
	*ret_headers = read_bytes(fd, ret_head->e_phoff, ret_head->e_phnum * sizeof(Elf64_Phdr),
				  HEADERS_MAX * sizeof(Elf64_Phdr));
	return *ret_headers ? 0 : tm_fail(err, -ENOEXEC, "has no readable program headers");
}

int plan_bias(int fd, uint64_t start, uint64_t offset, uint64_t *ret_bias)
{
	Elf64_Ehdr head;
	Elf64_Phdr *headers = NULL;
	int error = read_headers(fd, &head, &headers, NULL);
	if (error)
		return error;
	error = -ENOEXEC;
	for (size_t i = 0; error && i < head.e_phnum; i++) {
		const Elf64_Phdr *header = &headers[i];
		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X) ||
		    offset > header->p_offset || header->p_offset - offset >= PAGE_BYTES)
			continue;
		*ret_bias = start + (header->p_offset - offset) - header->p_vaddr;
		error = 0;
	}
	tm_free(headers);
	return error;
}

int plan_elf_open(int fd, struct plan_elf *ret_elf, struct tm_error *err)
{
	Elf64_Ehdr head;
	struct plan_elf elf = {.fd = fd};
	int error = read_headers(fd, &head, &elf.headers, err);
	if (error)
		return error;
	elf.header_count = head.e_phnum;
	read_tables(&elf, &head);
	*ret_elf = elf;
	return 0;
}

void plan_elf_done(struct plan_elf *elf)
{
	for (size_t i = 0; i < elf->table_count; i++) {
		tm_free(elf->tables[i].symbols);
		tm_free(elf->tables[i].names);
	}
	tm_free(elf->headers);
	*elf = (struct plan_elf){.fd = -1};
}

const char *plan_elf_name(const struct plan_table *table, const Elf64_Sym *symbol)
{
	return symbol->st_name < table->name_bytes ? table->names + symbol->st_name : "";
}

static size_t read_loaded(const struct plan_elf *elf, uint32_t flags, uint64_t address, void *data,
			  size_t bytes)
{
	for (size_t i = 0; i < elf->header_count; i++) {
		const Elf64_Phdr *header = &elf->headers[i];
		uint64_t offset = address - header->p_vaddr;
		if (header->p_type != PT_LOAD || (header->p_flags & flags) != flags ||
		    address < header->p_vaddr || offset >= header->p_filesz)
			continue;
		size_t got = 0;
		if (bytes > header->p_filesz - offset)
			bytes = header->p_filesz - offset;
		return io_pread(elf->fd, data, bytes, header->p_offset + offset, &got) ? 0 : got;
	}
	return 0;
}

size_t plan_elf_code(const struct plan_elf *elf, uint64_t address, void *code, size_t bytes)
{
	return read_loaded(elf, PF_X, address, code, bytes);
}

size_t plan_elf_data(const struct plan_elf *elf, uint64_t address, void *data, size_t bytes)
{
	return read_loaded(elf, 0, address, data, bytes);
}
