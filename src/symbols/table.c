/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols are kept as 24 bytes each; names stay in the file until they are
 * asked for. Several symbols may have one address (malloc, __libc_malloc): the
 * best is chosen when it is looked up.
 */
#include "symbols/table.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/sort.h"
#include "trace/records.h"

/* An address is matched against this many symbols before it: aliases, and functions inside others.
 */
enum { LOOK_BACK = 64 };

struct table_symbol {
	uint64_t address; /* first: they are sorted by it */
	uint64_t bytes : 48;
	uint64_t is_function : 1; /* else a bare label */
	uint64_t is_global : 1;
	uint64_t is_weak : 1;
	uint64_t has_size : 1; /* else bytes reaches to the end of the section, until clipped */
	uint32_t name;
};

/* Where code at this address may reach to at most; 0 if it is no code. */
static uint64_t section_room(const struct elffile *file, uint32_t index, uint64_t address)
{
	GElf_Shdr header;
	Elf_Scn *section = elf_getscn(file->elf, index);
	if (!section || !gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
	    address < header.sh_addr || address - header.sh_addr >= header.sh_size)
		return 0;
	return header.sh_size - (address - header.sh_addr);
}

static bool take_symbol(const struct elffile *file, const GElf_Sym *in, struct table_symbol *out)
{
	unsigned type = GELF_ST_TYPE(in->st_info), bind = GELF_ST_BIND(in->st_info);
	bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
	if ((!function && type != STT_NOTYPE) || in->st_shndx == SHN_UNDEF || !in->st_name)
		return false;
	uint64_t bytes = in->st_size;
	if (!function || !bytes) {
		uint64_t room = section_room(file, in->st_shndx, in->st_value);
		if (!room)
			return false;
		bytes = bytes ? bytes : room;
	}
	*out = (struct table_symbol){
		.address = in->st_value,
		.bytes = bytes < (1ull << 48) ? bytes : (1ull << 48) - 1,
		.is_function = function,
		.is_global = bind == STB_GLOBAL,
		.is_weak = bind == STB_WEAK,
		.has_size = in->st_size > 0,
		.name = in->st_name,
	};
	return true;
}

/* A symbol without a size ends where the next one begins. */
static void clip_unsized(struct table *table)
{
	uint64_t next = UINT64_MAX;
	for (size_t i = table->count; i-- > 0;) {
		struct table_symbol *symbol = &table->symbols[i];
		if (i + 1 < table->count && table->symbols[i + 1].address != symbol->address)
			next = table->symbols[i + 1].address;
		if (!symbol->has_size && next - symbol->address < symbol->bytes)
			symbol->bytes = next - symbol->address;
	}
}

static int read_symbols(struct table *table, const struct elffile *file, Elf_Data *data,
			size_t count)
{
	for (size_t i = 0; i < count; i++) {
		GElf_Sym symbol;
		if (!gelf_getsym(data, (int)i, &symbol))
			break;
		if (take_symbol(file, &symbol, &table->symbols[table->count]))
			table->count++;
	}
	if (!table->count)
		return -ENODATA;
	void *room = tm_alloc_array(table->count, sizeof *table->symbols);
	if (!room)
		return -ENOMEM;
	sort_by_number(table->symbols, table->count, sizeof *table->symbols, room);
	tm_free(room);
	clip_unsized(table);
	return 0;
}

int table_load(struct table *table, const struct elffile *file, uint32_t type, uint64_t max_bytes,
	       struct tm_error *err)
{
	*table = (struct table){0};
	GElf_Shdr header;
	Elf_Scn *section = elffile_section(file, NULL, type, &header);
	size_t entry = gelf_fsize(file->elf, ELF_T_SYM, 1, EV_CURRENT);
	if (!section || !entry)
		return tm_fail(err, -ENODATA, "no symbol table");
	uint64_t count = header.sh_size / entry;
	if (count > INT32_MAX || count > max_bytes / sizeof(struct table_symbol))
		return tm_fail(err, -EFBIG, "its symbol table is too large");
	/* libelf refuses a section that reaches beyond the end of the file. */
	Elf_Data *data = elf_getdata(section, NULL);
	if (!data || !data->d_buf)
		return tm_fail(err, -ENODATA, "its symbol table cannot be read");
	count = data->d_size / entry < count ? data->d_size / entry : count;
	table->symbols = tm_alloc_array(count, sizeof *table->symbols);
	if (!table->symbols)
		return tm_fail(err, -ENOMEM, "out of memory");
	table->elf = file->elf;
	table->names = header.sh_link;
	table->source = type == SHT_SYMTAB ? TRACE_SYM_SYMTAB : TRACE_SYM_DYNSYM;
	int code = read_symbols(table, file, data, count);
	if (code) {
		table_done(table);
		return tm_fail(err, code,
			       code == -ENOMEM ? "out of memory"
					       : "its symbol table names no function");
	}
	return 0;
}

void table_done(struct table *table)
{
	tm_free(table->symbols);
	*table = (struct table){0};
}

uint64_t table_bytes(const struct table *table)
{
	return table->count * sizeof *table->symbols;
}

static unsigned underscores(const char *name)
{
	return (unsigned)strspn(name, "_");
}

/*
 * Of two names for one address the one a reader expects: a function before a
 * label, public before weak before local, then the plainer (malloc before
 * __libc_malloc).
 */
static bool is_better(const struct table_symbol *a, const char *a_name,
		      const struct table_symbol *b, const char *b_name)
{
	if (a->address != b->address)
		return a->address > b->address; /* the inner of two nested ones */
	if (a->is_function != b->is_function)
		return a->is_function;
	int a_rank = a->is_global ? 2 : a->is_weak, b_rank = b->is_global ? 2 : b->is_weak;
	bool a_mangled = !strncmp(a_name, "_Z", 2), b_mangled = !strncmp(b_name, "_Z", 2);
	if (a_mangled && b_mangled)
		return a_rank != b_rank ? a_rank > b_rank : strcmp(a_name, b_name) < 0;
	unsigned a_bars = underscores(a_name), b_bars = underscores(b_name);
	if (!!a_rank != !!b_rank)
		return a_rank > b_rank;
	if (a_bars != b_bars)
		return a_bars < b_bars;
	size_t a_bytes = strlen(a_name), b_bytes = strlen(b_name);
	return a_bytes != b_bytes ? a_bytes < b_bytes : strcmp(a_name, b_name) < 0;
}

/* Index one past the last symbol that begins at or before the address. */
static size_t upper_bound(const struct table *table, uint64_t address)
{
	size_t low = 0, high = table->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table->symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const char *table_find(const struct table *table, uint64_t elf_address)
{
	const struct table_symbol *best = NULL;
	const char *best_name = NULL;
	size_t end = upper_bound(table, elf_address);
	for (size_t i = end; i-- > 0 && end - i <= LOOK_BACK;) {
		const struct table_symbol *symbol = &table->symbols[i];
		if (best && symbol->address != best->address)
			break;
		if (elf_address - symbol->address >= symbol->bytes)
			continue;
		const char *name = elf_strptr(table->elf, table->names, symbol->name);
		if (!name || !name[0])
			continue;
		if (!best || is_better(symbol, name, best, best_name)) {
			best = symbol;
			best_name = name;
		}
	}
	return best_name;
}

bool table_mentions(const struct elffile *file, const char *name)
{
	GElf_Shdr header;
	Elf_Scn *section = file->elf ? elffile_section(file, NULL, SHT_SYMTAB, &header) : NULL;
	section = section ? elf_getscn(file->elf, header.sh_link) : NULL;
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	/* Each name is behind the terminator of the one before. */
	char wanted[64] = {0};
	size_t bytes = strlen(name);
	if (!data || !data->d_buf || bytes + 2 > sizeof wanted)
		return false;
	memcpy(wanted + 1, name, bytes + 1);
	return memmem(data->d_buf, data->d_size, wanted, bytes + 2) != NULL;
}
