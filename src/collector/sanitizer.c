/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/sanitizer.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "inject/file_text.h"

enum {
	SECTIONS_MAX = 4096,
	TABLE_BYTES_MAX = 256 * 1024 * 1024,
};

/* The section's bytes; NULL when there are none, or too many. tm_free() them. */
static void *read_section(int fd, const Elf64_Shdr *section, size_t *ret_bytes)
{
	size_t got = 0;
	if (!section->sh_size || section->sh_size > TABLE_BYTES_MAX)
		return NULL;
	char *bytes = tm_alloc(section->sh_size + 1);
	if (bytes && io_pread(fd, bytes, section->sh_size, section->sh_offset, &got))
		bytes = tm_free(bytes);
	*ret_bytes = got;
	return bytes;
}

/* The strings alone nearly always tell that it does not. */
static bool names(int fd, const Elf64_Shdr *strings, const char *name)
{
	struct file_stretch stretch = {fd, strings->sh_offset, strings->sh_size};
	void *room = tm_alloc(FILE_TEXT_ROOM);
	bool found = room && file_has_text(&stretch, name, strlen(name) + 1, room);
	tm_free(room);
	return found;
}

static bool defines(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings, const char *name)
{
	size_t table_bytes = 0, string_bytes = 0;
	bool found = false;
	if (!names(fd, strings, name))
		return false;
	Elf64_Sym *symbols = read_section(fd, table, &table_bytes);
	char *texts = symbols ? read_section(fd, strings, &string_bytes) : NULL;
	for (size_t i = 0; texts && !found && i < table_bytes / sizeof *symbols; i++) {
		const Elf64_Sym *symbol = &symbols[i];
		found = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
			ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
			symbol->st_shndx != SHN_UNDEF && symbol->st_name < string_bytes &&
			strcmp(texts + symbol->st_name, name) == 0;
	}
	tm_free(texts);
	tm_free(symbols);
	return found;
}

static void find_library(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings, char *ret_name,
			 size_t name_bytes)
{
	static const char *const libraries[] = {"libasan.so", "libclang_rt.asan"};
	size_t table_bytes = 0, string_bytes = 0;
	Elf64_Dyn *entries = read_section(fd, table, &table_bytes);
	char *names = entries ? read_section(fd, strings, &string_bytes) : NULL;
	for (size_t i = 0; names && i < table_bytes / sizeof *entries; i++) {
		if (entries[i].d_tag != DT_NEEDED || entries[i].d_un.d_val >= string_bytes)
			continue;
		const char *name = names + entries[i].d_un.d_val;
		for (size_t k = 0; k < sizeof libraries / sizeof libraries[0]; k++)
			if (strncmp(name, libraries[k], strlen(libraries[k])) == 0 &&
			    strlen(name) < name_bytes && !strpbrk(name, ": "))
				strcpy(ret_name, name);
	}
	tm_free(names);
	tm_free(entries);
}

/* The section headers; NULL when there are none. tm_free() them. */
static Elf64_Shdr *read_headers(int fd, size_t *ret_count)
{
	Elf64_Ehdr head;
	size_t got = 0;
	if (io_pread(fd, &head, sizeof head, 0, &got) || got != sizeof head ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shnum > SECTIONS_MAX)
		return NULL;
	size_t bytes = head.e_shnum * sizeof(Elf64_Shdr);
	Elf64_Shdr *sections = tm_alloc(bytes + 1);
	if (sections && io_pread(fd, sections, bytes, head.e_shoff, &got))
		sections = tm_free(sections);
	*ret_count = got / sizeof *sections;
	return sections;
}

void sanitizer_find(int fd, char *ret_name, size_t name_bytes)
{
	size_t count = 0;
	Elf64_Shdr *sections = read_headers(fd, &count);
	*ret_name = '\0';
	bool insists = false;
	for (size_t i = 0; sections && i < count; i++)
		if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < count)
			insists |= defines(fd, &sections[i], &sections[sections[i].sh_link],
					   "__asan_default_options");
	for (size_t i = 0; insists && i < count; i++)
		if (sections[i].sh_type == SHT_DYNAMIC && sections[i].sh_link < count)
			find_library(fd, &sections[i], &sections[sections[i].sh_link], ret_name,
				     name_bytes);
	tm_free(sections);
}
