/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/constant.h"

#include <errno.h>
#include <string.h>

#include "symbols/elffile.h"

enum { CODE_MAX = 64, STRING_MAX = 1 << 16, PIECE = 256 };

/* Bytes at an address of the loaded image, from the file. How many there are. */
static size_t read_image(const struct elffile *file, uint64_t address, uint8_t *out, size_t room)
{
	size_t count = 0;
	if (elf_getphdrnum(file->elf, &count))
		return 0;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;
		if (!gelf_getphdr(file->elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    address < header.p_vaddr || address - header.p_vaddr >= header.p_filesz)
			continue;
		uint64_t skip = address - header.p_vaddr, left = header.p_filesz - skip;
		size_t bytes = left < room ? (size_t)left : room;
		if (header.p_offset > INT64_MAX - skip)
			return 0;
		Elf_Data *data = elf_getdata_rawchunk(file->elf, (int64_t)(header.p_offset + skip),
						      bytes, ELF_T_BYTE);
		if (!data || !data->d_buf || data->d_size < bytes)
			return 0;
		memcpy(out, data->d_buf, bytes);
		return bytes;
	}
	return 0;
}

/* Most programs do not have the name at all: that is seen without a look at each symbol. */
static bool has_name(const struct elffile *file, size_t strings, const char *name)
{
	Elf_Scn *section = elf_getscn(file->elf, strings);
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	return data && data->d_buf && memmem(data->d_buf, data->d_size, name, strlen(name) + 1);
}

/* Address of a function in one symbol table; false if it is not there. */
static bool find_in(const struct elffile *file, uint32_t type, const char *name, uint64_t *ret)
{
	GElf_Shdr header;
	Elf_Scn *section = elffile_section(file, NULL, type, &header);
	if (!section || !has_name(file, header.sh_link, name))
		return false;
	Elf_Data *data = elf_getdata(section, NULL);
	if (!data || !header.sh_entsize)
		return false;
	size_t count = data->d_size / header.sh_entsize;
	for (size_t i = 0; i < count && i < INT32_MAX; i++) {
		GElf_Sym symbol;
		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
		    GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
			continue;
		const char *found = elf_strptr(file->elf, header.sh_link, symbol.st_name);
		if (found && !strcmp(found, name)) {
			*ret = symbol.st_value;
			return true;
		}
	}
	return false;
}

static int64_t get_i32(const uint8_t *code)
{
	int32_t value;
	memcpy(&value, code, sizeof value);
	return value;
}

static bool skip(const uint8_t **code, const uint8_t *end, const char *bytes, size_t count)
{
	if ((size_t)(end - *code) < count || memcmp(*code, bytes, count) != 0)
		return false;
	*code += count;
	return true;
}

/*
 * [endbr64] [push rbp; mov rbp, rsp] (lea rax, [rip + d] | mov eax, d | mov rax, d |
 * movabs rax, d) [pop rbp | leave] ret: what compilers make of `return "...";`.
 */
static bool decode(const uint8_t *code, size_t bytes, uint64_t address, uint64_t *ret)
{
	const uint8_t *start = code, *end = code + bytes;
	skip(&code, end, "\xf3\x0f\x1e\xfa", 4);
	bool frame = skip(&code, end, "\x55\x48\x89\xe5", 4);
	if (end - code < 11)
		return false;
	if (skip(&code, end, "\x48\x8d\x05", 3)) {
		int64_t distance = get_i32(code);
		code += 4;
		*ret = address + (uint64_t)(code - start) + (uint64_t)distance;
	} else if (skip(&code, end, "\xb8", 1)) {
		*ret = (uint32_t)get_i32(code);
		code += 4;
	} else if (skip(&code, end, "\x48\xc7\xc0", 3)) {
		*ret = (uint64_t)get_i32(code);
		code += 4;
	} else if (skip(&code, end, "\x48\xb8", 2)) {
		memcpy(ret, code, sizeof *ret);
		code += 8;
	} else {
		return false;
	}
	if (frame && !skip(&code, end, "\x5d", 1) && !skip(&code, end, "\xc9", 1))
		return false;
	return skip(&code, end, "\xc3", 1) || skip(&code, end, "\xf3\xc3", 2);
}

static int read_string(const struct elffile *file, uint64_t address, struct text *text)
{
	uint8_t piece[PIECE];
	for (size_t done = 0; done < STRING_MAX; done += PIECE) {
		size_t bytes = read_image(file, address + done, piece, sizeof piece);
		const uint8_t *end = bytes ? memchr(piece, 0, bytes) : NULL;
		text_put_bytes(text, piece, end ? (size_t)(end - piece) : bytes);
		if (end)
			return text_error(text);
		if (bytes < PIECE)
			break;
	}
	return -EOPNOTSUPP;
}

static int read_function(const struct elffile *file, const char *path, const char *symbol,
			 struct text *text, struct tm_error *err)
{
	GElf_Ehdr header;
	uint8_t code[CODE_MAX];
	uint64_t address, place;
	if (!gelf_getehdr(file->elf, &header) || header.e_machine != EM_X86_64)
		return tm_fail(err, -ENOEXEC, "'%s' is no program for x86-64", path);
	if (!find_in(file, SHT_DYNSYM, symbol, &address) &&
	    !find_in(file, SHT_SYMTAB, symbol, &address))
		return tm_fail(err, -ENOENT, "'%s' has no function %s", path, symbol);
	size_t bytes = read_image(file, address, code, sizeof code);
	int code_error = decode(code, bytes, address, &place) ? 0 : -EOPNOTSUPP;
	if (!code_error)
		code_error = read_string(file, place, text);
	if (code_error == -EOPNOTSUPP)
		tm_fail(err, code_error, "%s in '%s' does more than return a constant text", symbol,
			path);
	return code_error;
}

int constant_string(const char *path, const uint8_t *build_id, uint32_t build_id_bytes,
		    const char *symbol, struct text *text, struct tm_error *err)
{
	struct elffile file = {0};
	int code = elffile_open(&file, "", path, err);
	if (code)
		return code;
	if (build_id_bytes && (file.build_id_bytes != build_id_bytes ||
			       memcmp(file.build_id, build_id, build_id_bytes) != 0))
		code = tm_fail(err, -ESTALE, "'%s' is not the file that was recorded", path);
	else
		code = read_function(&file, path, symbol, text, err);
	elffile_close(&file);
	return code;
}
