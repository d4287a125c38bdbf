/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of one object from its program headers in memory. Everything is
 * read through the safe peek and checked: it may be gone, or something else, by
 * now.
 *
 * Known limits: an object whose ELF header is not mapped, or lies more than 256
 * MiB below its dynamic section, is not seen (unless it is the program itself).
 */
#include "agent/modules_scan.h"

#include "agent/modules_path.h"

enum {
	SEARCH_PAGES_MAX = 65536,
	PEEK_PATH_BYTES = 256,
	NOTE_HEADER_BYTES = 12,
	NOTE_BUILD_ID = 3,
	NOTE_API_TABLE = 1,
};
#define OBJECT_BYTES_MAX (1ull << 40)

static bool peek(struct scan *scan, uintptr_t address, void *ret, size_t bytes)
{
	return scan->peek(scan->ctx, address, ret, bytes);
}

/* Static and musl programs may lack PT_GNU_EH_FRAME; their table is there all the same. */
static bool program_has_table(const struct elf_auxv *auxv)
{
	const Elf64_Phdr *headers = (const Elf64_Phdr *)auxv->phdr;

	if (auxv->phent != sizeof headers[0])
		return true;
	for (size_t i = 0; headers && i < auxv->phnum; i++)
		if (headers[i].p_type == PT_GNU_EH_FRAME)
			return true;
	return false;
}

void scan_init(struct scan *scan, const struct modules_options *options)
{
	struct elf_debug debug;
	struct elf_link_map first;

	scan->scope = *options->scope;
	scan->own_dynamic = options->own_dynamic;
	scan->own_image = options->own_image;
	scan->peek = options->peek;
	scan->ctx = options->ctx;
	scan->main_dynamic = scan->scope.main_dynamic;
	/* The program is the first entry of the list, whatever AT_PHDR says. */
	if (scan->scope.debug && peek(scan, scan->scope.debug, &debug, ELF_DEBUG_BYTES_V1) &&
	    debug.map && peek(scan, debug.map, &first, sizeof first))
		scan->main_dynamic = first.dynamic;
	if (!scan->scope.through_loader) {
		scan->main_path_bytes = module_path_of_program(scan->main_path, MODULE_PATH_MAX);
		if (!program_has_table(&scan->scope.auxv))
			scan->main_eh_frame = module_eh_frame_of_program();
		return;
	}
	/* Then /proc/self/exe is the linker, whose own name for itself is argv[0]. */
	scan->main_path_bytes =
		module_path_at(scan->main_dynamic, scan->main_path, MODULE_PATH_MAX);
	scan->linker_path_bytes = module_path_of_program(scan->linker_path, MODULE_PATH_MAX);
}

/*
 * Read `count` program headers; true if they are those of the object that has
 * this bias and dynamic section.
 */
static bool read_headers(struct scan *scan, uintptr_t at, size_t count,
			 const struct scan_entry *entry)
{
	if (count == 0 || count > SCAN_HEADERS_MAX ||
	    !peek(scan, at, scan->headers, count * sizeof scan->headers[0]))
		return false;
	for (size_t i = 0; i < count; i++)
		if (scan->headers[i].p_type == PT_DYNAMIC)
			return !entry->dynamic ||
			       entry->bias + scan->headers[i].p_vaddr == entry->dynamic;
	return !entry->dynamic;
}

/* The program headers of an ELF image at `at`; 0: there is none, or another object's. */
static size_t read_image(struct scan *scan, uintptr_t at, const struct scan_entry *entry)
{
	Elf64_Ehdr header;

	if (!peek(scan, at, &header, sizeof header))
		return 0;
	if (__builtin_memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
	    header.e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	return read_headers(scan, at + header.e_phoff, header.e_phnum, entry) ? header.e_phnum : 0;
}

/* Prelinked and non-PIE objects do not begin at their bias: look below .dynamic. */
static size_t search_image(struct scan *scan, const struct scan_entry *entry, uintptr_t *ret_at)
{
	uintptr_t page_bytes = scan->scope.auxv.page_bytes;
	uintptr_t at = entry->dynamic & ~(page_bytes - 1);

	for (unsigned i = 0; i < SEARCH_PAGES_MAX && at > page_bytes; i++, at -= page_bytes) {
		size_t count = read_image(scan, at, entry);
		if (count) {
			*ret_at = at;
			return count;
		}
	}
	return 0;
}

/* Read the program headers of entry into scan->headers; their number, or 0. */
static size_t find_headers(struct scan *scan, const struct scan_entry *entry, uintptr_t hint,
			   uintptr_t *ret_at)
{
	const struct elf_auxv *auxv = &scan->scope.auxv;
	size_t count;

	if (entry->bias == scan->scope.main_bias && entry->dynamic == scan->scope.main_dynamic &&
	    auxv->phent == sizeof(Elf64_Phdr)) {
		*ret_at = auxv->phdr;
		return read_headers(scan, auxv->phdr, auxv->phnum, entry) ? auxv->phnum : 0;
	}
	*ret_at = hint;
	count = hint ? read_image(scan, hint, entry) : 0;
	if (!count) {
		*ret_at = entry->bias;
		count = read_image(scan, entry->bias, entry);
	}
	return count ? count : search_image(scan, entry, ret_at);
}

static uint64_t hash_headers(const Elf64_Phdr *headers, size_t count)
{
	const uint64_t *words = (const uint64_t *)headers;
	uint64_t hash = count;

	for (size_t i = 0; i < count * sizeof headers[0] / sizeof words[0]; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash;
}

/* Mapped range and code. False: it makes no sense. */
static bool set_ranges(const struct scan *scan, size_t count, struct module *ret)
{
	uintptr_t page_mask = scan->scope.auxv.page_bytes - 1;

	ret->start = UINTPTR_MAX;
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *load = &scan->headers[i];
		if (load->p_type != PT_LOAD || load->p_memsz == 0)
			continue;
		uintptr_t start = ret->bias + load->p_vaddr;
		uintptr_t end = start + load->p_memsz;
		if (end < start)
			return false;
		if (start < ret->start)
			ret->start = start;
		if (end > ret->end)
			ret->end = end;
		if (!(load->p_flags & PF_X) || ret->exec_count == MODULE_EXEC_MAX)
			continue;
		ret->exec[ret->exec_count++] = (struct module_range){.start = start, .end = end};
		if ((load->p_flags & PF_R) && !ret->cfi.code_start) {
			ret->cfi.code_start = start;
			ret->cfi.code_end = start + load->p_filesz;
		}
	}
	ret->start &= ~page_mask;
	ret->end = (ret->end + page_mask) & ~page_mask;
	return ret->end > ret->start && ret->end - ret->start < OBJECT_BYTES_MAX;
}

/*
 * The segment that holds an unwind table, if it can be read from end to end.
 * *ret_at: the table's run-time address, 0 if not.
 */
static void set_table(struct scan *scan, uintptr_t table, size_t count, struct module *module,
		      uintptr_t *ret_at)
{
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *load = &scan->headers[i];
		uint8_t byte;
		if (load->p_type != PT_LOAD || table < load->p_vaddr ||
		    table - load->p_vaddr >= load->p_filesz)
			continue;
		uintptr_t start = module->bias + load->p_vaddr;
		uintptr_t end = start + load->p_filesz;
		uintptr_t at = module->bias + table;
		if (!peek(scan, at, &byte, 1) || !peek(scan, end - 1, &byte, 1))
			return;
		module->cfi.start = start;
		module->cfi.end = end;
		*ret_at = at;
		return;
	}
}

static size_t align_up(size_t value, size_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* The distance from the note's description to the table; it must lie within the object. */
static void set_api_table(uintptr_t at, const uint8_t *description, struct module *ret)
{
	int32_t distance;
	__builtin_memcpy(&distance, description, sizeof distance);
	uintptr_t table = at + (uintptr_t)(intptr_t)distance;
	if (table >= ret->start && table < ret->end && table % sizeof(uintptr_t) == 0)
		ret->api_table = table;
}

static void use_note(const uint32_t head[3], const uint8_t *name, const uint8_t *description,
		     uintptr_t at, struct module *ret)
{
	static const char gnu[] = "GNU", own[] = "Tidemark";

	if (head[2] == NOTE_BUILD_ID && head[0] == sizeof gnu && head[1] <= MODULE_BUILD_ID_MAX &&
	    !ret->build_id_bytes && __builtin_memcmp(name, gnu, sizeof gnu) == 0) {
		__builtin_memcpy(ret->build_id, description, head[1]);
		ret->build_id_bytes = head[1];
	} else if (head[2] == NOTE_API_TABLE && head[0] == sizeof own && head[1] == 4 &&
		   __builtin_memcmp(name, own, sizeof own) == 0) {
		set_api_table(at, description, ret);
	}
}

/* Look for the build-id and for the table of include/tidemark.h in one note segment. */
static void read_notes(struct scan *scan, const Elf64_Phdr *segment, struct module *ret)
{
	size_t bytes =
		segment->p_filesz < sizeof scan->notes ? segment->p_filesz : sizeof scan->notes;
	size_t alignment = segment->p_align == 8 ? 8 : 4;
	uintptr_t start = ret->bias + segment->p_vaddr;
	size_t at = 0;

	if (!peek(scan, start, scan->notes, bytes))
		return;
	while (bytes - at >= NOTE_HEADER_BYTES) {
		uint32_t head[3]; /* name bytes, description bytes, type */
		__builtin_memcpy(head, scan->notes + at, sizeof head);
		at += NOTE_HEADER_BYTES;
		if (head[0] > bytes - at || head[1] > bytes - at)
			return;
		size_t description = align_up(at + head[0], alignment);
		if (description > bytes || head[1] > bytes - description)
			return;
		use_note(head, scan->notes + at, scan->notes + description, start + description,
			 ret);
		at = align_up(description + head[1], alignment);
		if (at > bytes)
			return;
	}
}

/* Copy a string piece by piece: it may end right before an unmapped page. */
static bool read_path(struct scan *scan, uintptr_t address, uint32_t *ret_bytes)
{
	uint32_t bytes = 0;

	while (bytes < MODULE_PATH_MAX - 1) {
		uintptr_t at = address + bytes;
		size_t piece = PEEK_PATH_BYTES - at % PEEK_PATH_BYTES;
		if (piece > MODULE_PATH_MAX - 1 - bytes)
			piece = MODULE_PATH_MAX - 1 - bytes;
		if (!peek(scan, at, scan->path + bytes, piece))
			return false;
		for (size_t i = 0; i < piece; i++, bytes++) {
			if (!scan->path[bytes]) {
				*ret_bytes = bytes;
				return true;
			}
		}
	}
	scan->path[bytes] = 0;
	*ret_bytes = bytes;
	return true;
}

static bool use_path(struct scan *scan, const char *path, uint32_t bytes, struct module *ret)
{
	__builtin_memcpy(scan->path, path, bytes);
	scan->path[bytes] = 0;
	ret->path_bytes = bytes;
	return true;
}

static bool set_path(struct scan *scan, const struct scan_entry *entry, struct module *ret)
{
	static const char vdso[] = "[vdso]", own[] = "[tidemark]";

	ret->path = scan->path;
	if (ret->flags & MODULE_VDSO)
		return use_path(scan, vdso, sizeof vdso - 1, ret);
	if ((ret->flags & MODULE_MAIN) && scan->main_path_bytes)
		return use_path(scan, scan->main_path, scan->main_path_bytes, ret);
	if ((ret->flags & MODULE_LINKER) && scan->linker_path_bytes)
		return use_path(scan, scan->linker_path, scan->linker_path_bytes, ret);
	if ((ret->flags & MODULE_AGENT) && scan->own_image)
		return use_path(scan, own, sizeof own - 1, ret);
	if (!entry->name)
		return use_path(scan, "", 0, ret);
	return read_path(scan, entry->name, &ret->path_bytes);
}

static uint32_t flags_of(const struct scan *scan, const struct scan_entry *entry)
{
	const struct elf_scope *scope = &scan->scope;
	uintptr_t linker = scope->through_loader ? scope->main_bias : scope->auxv.base;
	uint32_t flags = 0;

	if (scope->auxv.vdso && entry->bias == scope->auxv.vdso)
		return MODULE_VDSO;
	if (entry->dynamic == scan->main_dynamic)
		flags |= MODULE_MAIN;
	if (entry->dynamic && entry->dynamic == scan->own_dynamic)
		flags |= MODULE_AGENT;
	if (linker && entry->bias == linker)
		flags |= MODULE_LINKER;
	return flags;
}

bool scan_read(struct scan *scan, const struct scan_entry *entry, uintptr_t hint,
	       struct module *ret)
{
	*ret = (struct module){.bias = entry->bias, .flags = flags_of(scan, entry)};
	size_t count = find_headers(scan, entry, hint, &ret->header);
	if (!count || !set_ranges(scan, count, ret))
		return false;
	ret->headers_hash = hash_headers(scan->headers, count);
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *header = &scan->headers[i];
		if (header->p_type == PT_GNU_EH_FRAME) {
			set_table(scan, header->p_vaddr, count, ret, &ret->cfi.eh_frame_hdr);
			ret->cfi.hdr_bytes = header->p_memsz;
		} else if (header->p_type == PT_NOTE) {
			read_notes(scan, header, ret);
		}
	}
	if (!ret->cfi.eh_frame_hdr && (ret->flags & MODULE_MAIN) && scan->main_eh_frame)
		set_table(scan, scan->main_eh_frame, count, ret, &ret->cfi.eh_frame);
	return set_path(scan, entry, ret);
}
