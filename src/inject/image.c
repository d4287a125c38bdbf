/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only what the agent is built to be is taken: a shared object without imports
 * whose relocations are all relative. The file is ours, but may be damaged.
 */
#include "inject/image.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "wire/attach.h"

enum { FILE_BYTES_MAX = 16 << 20, IMAGE_BYTES_MAX = 64 << 20, PAGE = 4096, HEADERS_MAX = 64 };

struct file {
	const uint8_t *bytes;
	size_t count;
	Elf64_Ehdr header;
	Elf64_Phdr headers[HEADERS_MAX];
};

static int bad(struct tm_error *err, const char *path, const char *why)
{
	return tm_fail(err, -ENOEXEC, "'%s' is not a usable agent: %s", path, why);
}

static int read_headers(struct file *file, const char *path, struct tm_error *err)
{
	if (file->count < sizeof file->header)
		return bad(err, path, "it is too short");
	memcpy(&file->header, file->bytes, sizeof file->header);
	const Elf64_Ehdr *header = &file->header;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_machine != EM_X86_64 ||
	    header->e_type != ET_DYN || header->e_phentsize != sizeof file->headers[0] ||
	    header->e_phnum > HEADERS_MAX)
		return bad(err, path, "it is no shared library for x86-64");
	size_t bytes = header->e_phnum * sizeof file->headers[0];
	if (header->e_phoff > file->count || bytes > file->count - header->e_phoff)
		return bad(err, path, "it is cut short");
	memcpy(file->headers, file->bytes + header->e_phoff, bytes);
	return 0;
}

static uint64_t page_up(uint64_t value)
{
	return (value + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static int place_segments(const struct file *file, struct image *image, const char *path,
			  struct tm_error *err)
{
	uint64_t end = 0;
	for (int i = 0; i < file->header.e_phnum; i++) {
		const Elf64_Phdr *load = &file->headers[i];
		if (load->p_type != PT_LOAD)
			continue;
		if (load->p_vaddr > IMAGE_BYTES_MAX || load->p_memsz > IMAGE_BYTES_MAX ||
		    load->p_filesz > load->p_memsz || load->p_offset > file->count ||
		    load->p_filesz > file->count - load->p_offset)
			return bad(err, path, "its segments make no sense");
		if (load->p_vaddr + load->p_memsz > end)
			end = load->p_vaddr + load->p_memsz;
		if (load->p_flags & PF_W) {
			image->data_start = load->p_vaddr & ~(uint64_t)(PAGE - 1);
			image->data_bytes =
				page_up(load->p_vaddr + load->p_memsz) - image->data_start;
		}
	}
	image->count = page_up(end);
	image->bytes = tm_alloc(image->count ? image->count : 1);
	if (!image->bytes)
		return tm_fail(err, -ENOMEM, "out of memory");
	for (int i = 0; i < file->header.e_phnum; i++) {
		const Elf64_Phdr *load = &file->headers[i];
		if (load->p_type == PT_LOAD)
			memcpy(image->bytes + load->p_vaddr, file->bytes + load->p_offset,
			       load->p_filesz);
	}
	return 0;
}

static bool lies_inside(const struct image *image, uint64_t at, uint64_t bytes)
{
	return at <= image->count && bytes <= image->count - at;
}

static void take_dynamic(struct image *image, const Elf64_Dyn *entry, uint64_t *ret_hash)
{
	uint64_t value = entry->d_un.d_val;
	switch (entry->d_tag) {
	case DT_RELA:
		image->relocations = value;
		break;
	case DT_RELASZ:
		image->relocation_count = value / sizeof(Elf64_Rela);
		break;
	case DT_SYMTAB:
		image->symbols = value;
		break;
	case DT_STRTAB:
		image->strings = value;
		break;
	case DT_STRSZ:
		image->string_bytes = value;
		break;
	case DT_HASH:
		*ret_hash = value;
		break;
	}
}

static int read_dynamic(const struct file *file, struct image *image, const char *path,
			struct tm_error *err)
{
	uint64_t hash = 0;
	for (int i = 0; i < file->header.e_phnum; i++) {
		const Elf64_Phdr *dynamic = &file->headers[i];
		if (dynamic->p_type != PT_DYNAMIC ||
		    !lies_inside(image, dynamic->p_vaddr, dynamic->p_memsz))
			continue;
		for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_memsz;
		     at += sizeof(Elf64_Dyn)) {
			Elf64_Dyn entry;
			memcpy(&entry, image->bytes + dynamic->p_vaddr + at, sizeof entry);
			take_dynamic(image, &entry, &hash);
		}
	}
	uint32_t symbol_count = 0;
	if (hash && lies_inside(image, hash, 8)) /* the number of chains is that of the symbols */
		memcpy(&symbol_count, image->bytes + hash + 4, sizeof symbol_count);
	image->symbol_count = symbol_count;
	if (!lies_inside(image, image->relocations, image->relocation_count * sizeof(Elf64_Rela)) ||
	    !lies_inside(image, image->symbols, image->symbol_count * sizeof(Elf64_Sym)) ||
	    !lies_inside(image, image->strings, image->string_bytes))
		return bad(err, path, "its tables make no sense");
	for (uint64_t i = 0; i < image->relocation_count; i++) {
		Elf64_Rela rela;
		memcpy(&rela, image->bytes + image->relocations + i * sizeof rela, sizeof rela);
		if (ELF64_R_TYPE(rela.r_info) != R_X86_64_RELATIVE ||
		    !lies_inside(image, rela.r_offset, 8))
			return bad(err, path, "it needs a loader");
	}
	return 0;
}

int image_load(const char *path, struct image *ret, struct tm_error *err)
{
	struct text text = {0};
	struct image image = {0};
	struct file file = {0};
	int error = io_read_file(path, FILE_BYTES_MAX, &text);
	if (error)
		return tm_fail(err, error, "cannot read the agent '%s': %s", path,
			       strerror(-error));
	file.bytes = (const uint8_t *)text_string(&text);
	file.count = text.length;
	error = read_headers(&file, path, err);
	if (!error)
		error = place_segments(&file, &image, path, err);
	if (!error)
		error = read_dynamic(&file, &image, path, err);
	text_done(&text);
	if (error)
		image_done(&image);
	else
		*ret = image;
	return error;
}

void image_done(struct image *image)
{
	tm_free(image->bytes);
	*image = (struct image){0};
}

void image_relocate(struct image *image, uint64_t base)
{
	for (uint64_t i = 0; i < image->relocation_count; i++) {
		Elf64_Rela rela;
		memcpy(&rela, image->bytes + image->relocations + i * sizeof rela, sizeof rela);
		uint64_t value = base + (uint64_t)rela.r_addend;
		memcpy(image->bytes + rela.r_offset, &value, sizeof value);
	}
}

uint64_t image_symbol(const struct image *image, const char *name)
{
	size_t bytes = strlen(name) + 1;
	for (size_t i = 0; i < image->symbol_count; i++) {
		Elf64_Sym symbol;
		memcpy(&symbol, image->bytes + image->symbols + i * sizeof symbol, sizeof symbol);
		if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < image->string_bytes &&
		    image->string_bytes - symbol.st_name >= bytes &&
		    !memcmp(image->bytes + image->strings + symbol.st_name, name, bytes) &&
		    symbol.st_value < image->count)
			return symbol.st_value;
	}
	return 0;
}

/* What the agent's block says of it; "" where it has none. */
static void read_version(const struct image *image, char *ret_version, size_t room)
{
	uint32_t magic = 0;
	uint64_t block = image_symbol(image, WIRE_ATTACH_SYMBOL);
	if (block && lies_inside(image, block, sizeof(struct wire_attach_block)))
		memcpy(&magic, image->bytes + block + offsetof(struct wire_attach_block, magic),
		       sizeof magic);
	if (magic == WIRE_ATTACH_MAGIC)
		memcpy(ret_version,
		       image->bytes + block + offsetof(struct wire_attach_block, tool_version),
		       room - 1);
}

int image_check_version(const char *path, struct tm_error *err)
{
	char version[sizeof(((struct wire_attach_block *)0)->tool_version)] = "";
	struct image image;
	int error = image_load(path, &image, err);
	if (error)
		return error;
	read_version(&image, version, sizeof version);
	image_done(&image);
	if (!*version)
		return bad(err, path, "it does not say its version");
	if (!strcmp(version, TIDEMARK_VERSION))
		return 0;
	return tm_fail(err, -EPROTONOSUPPORT,
		       "the agent '%s' is version %s, this tool is version %s: use the agent that "
		       "came with the tool",
		       path, version, TIDEMARK_VERSION);
}
