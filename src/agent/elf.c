/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc relocates the addresses in an object's dynamic section in place, musl
 * does not, and neither touches the vdso's: a value below the object's bias has
 * not been relocated.
 */
#include "agent/elf.h"

#include "agent/sys.h"

enum {
	AUXV_MAX = 64,
	OBJECTS_MAX = 65536, /* a list longer than this is damaged */
	PR_GET_AUXV_NR = 0x41555856,
	O_RDONLY_CLOEXEC = 02000000,
	VERSION_HIDDEN = 0x8000,
};

void elf_auxv_parse(const Elf64_auxv_t *vector, size_t count, struct elf_auxv *ret)
{
	*ret = (struct elf_auxv){.page_bytes = 4096};
	for (size_t i = 0; i < count && vector[i].a_type != AT_NULL; i++) {
		uintptr_t value = vector[i].a_un.a_val;
		switch (vector[i].a_type) {
		case AT_PHDR:
			ret->phdr = value;
			break;
		case AT_PHENT:
			ret->phent = value;
			break;
		case AT_PHNUM:
			ret->phnum = value;
			break;
		case AT_BASE:
			ret->base = value;
			break;
		case AT_ENTRY:
			ret->entry = value;
			break;
		case AT_SYSINFO_EHDR:
			ret->vdso = value;
			break;
		case AT_RANDOM:
			ret->random = value;
			break;
		case AT_PAGESZ:
			ret->page_bytes = value;
			break;
		case AT_SECURE:
			ret->secure = value;
			break;
		}
	}
}

/* Without a /proc (a bare chroot) newer kernels answer by prctl. */
static long read_auxv(void *buffer, size_t bytes)
{
	int fd = sys_open("/proc/self/auxv", O_RDONLY_CLOEXEC, 0);
	if (fd < 0) {
		int got = sys_prctl(PR_GET_AUXV_NR, (unsigned long)buffer, bytes, 0);
		return got > (int)bytes ? (long)bytes : got < 0 ? fd : got;
	}
	long got = sys_read(fd, buffer, bytes);
	sys_close(fd);
	return got;
}

int elf_auxv_read(struct elf_auxv *ret)
{
	Elf64_auxv_t vector[AUXV_MAX];
	long bytes = read_auxv(vector, sizeof vector);

	if (bytes < 0)
		return (int)bytes;
	elf_auxv_parse(vector, (size_t)bytes / sizeof vector[0], ret);
	return 0;
}

/* An object's program headers in memory. */
struct headers {
	const Elf64_Phdr *first;
	size_t count;
};

static struct headers headers_of_image(uintptr_t image)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	struct headers result = {
		.first = (const Elf64_Phdr *)(image + header->e_phoff),
		.count = header->e_phentsize == sizeof(Elf64_Phdr) ? header->e_phnum : 0,
	};
	return result;
}

static const Elf64_Phdr *find_header(struct headers headers, uint32_t type)
{
	for (size_t i = 0; i < headers.count; i++)
		if (headers.first[i].p_type == type)
			return &headers.first[i];
	return NULL;
}

/*
 * Bias of the object whose program headers are at AT_PHDR: PT_PHDR says where
 * they were meant to be; without it, the segment that holds them does (they
 * follow the ELF header in every linker's output).
 */
static uintptr_t bias_of_main(struct headers headers)
{
	uintptr_t place = (uintptr_t)headers.first;
	const Elf64_Phdr *self = find_header(headers, PT_PHDR);

	if (self)
		return place - self->p_vaddr;
	for (size_t i = 0; i < headers.count; i++) {
		const Elf64_Phdr *load = &headers.first[i];
		if (load->p_type == PT_LOAD && load->p_offset == 0)
			return place - sizeof(Elf64_Ehdr) - load->p_vaddr;
	}
	return 0;
}

static uintptr_t find_dynamic(struct headers headers, uintptr_t bias)
{
	const Elf64_Phdr *dynamic = find_header(headers, PT_DYNAMIC);
	return dynamic ? bias + dynamic->p_vaddr : 0;
}

static uintptr_t debug_of_dynamic(uintptr_t dynamic)
{
	if (!dynamic)
		return 0;
	for (const Elf64_Dyn *entry = (const Elf64_Dyn *)dynamic; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_DEBUG)
			return entry->d_un.d_ptr;
	return 0;
}

/* The dynamic linker exports its list: glibc the structure, musl a pointer to it. */
static uintptr_t debug_of_linker(uintptr_t bias, uintptr_t dynamic)
{
	struct elf_module linker;

	if (!dynamic || !elf_module_init(&linker, bias, (const Elf64_Dyn *)dynamic))
		return 0;
	void *found = elf_find_object_in(&linker, "_r_debug");
	if (found)
		return (uintptr_t)found;
	found = elf_find_object_in(&linker, "_dl_debug_addr");
	return found ? *(uintptr_t *)found : 0;
}

static uintptr_t find_self(uintptr_t debug, uintptr_t own_dynamic)
{
	uintptr_t at = ((const struct elf_debug *)debug)->map;

	for (unsigned i = 0; at && i < OBJECTS_MAX; i++) {
		const struct elf_link_map *map = (const struct elf_link_map *)at;
		if (map->dynamic == own_dynamic)
			return at;
		at = map->next;
	}
	return 0;
}

bool elf_scope_init(struct elf_scope *ret, const struct elf_auxv *auxv, const void *own_dynamic)
{
	struct headers headers = {
		.first = (const Elf64_Phdr *)auxv->phdr,
		.count = auxv->phdr && auxv->phent == sizeof(Elf64_Phdr) ? auxv->phnum : 0,
	};

	*ret = (struct elf_scope){.auxv = *auxv};
	if (headers.count) {
		ret->main_bias = bias_of_main(headers);
		ret->main_dynamic = find_dynamic(headers, ret->main_bias);
	}
	ret->debug = debug_of_dynamic(ret->main_dynamic);
	if (!ret->debug && auxv->base) {
		headers = headers_of_image(auxv->base);
		ret->debug = debug_of_linker(auxv->base, find_dynamic(headers, auxv->base));
	} else if (!ret->debug) {
		ret->debug = debug_of_linker(ret->main_bias, ret->main_dynamic);
		ret->through_loader = ret->debug != 0;
	}
	if (!ret->debug)
		return false;
	ret->self = own_dynamic ? find_self(ret->debug, (uintptr_t)own_dynamic) : 0;
	return true;
}

bool elf_module_init(struct elf_module *ret, uintptr_t bias, const Elf64_Dyn *dynamic)
{
	*ret = (struct elf_module){.bias = bias};
	for (const Elf64_Dyn *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
		uintptr_t value = entry->d_un.d_ptr;
		uintptr_t address = value < bias ? value + bias : value;
		switch (entry->d_tag) {
		case DT_SYMTAB:
			ret->symbols = (const Elf64_Sym *)address;
			break;
		case DT_STRTAB:
			ret->strings = (const char *)address;
			break;
		case DT_STRSZ:
			ret->string_bytes = value;
			break;
		case DT_GNU_HASH:
			ret->gnu_hash = (const uint32_t *)address;
			break;
		case DT_HASH:
			ret->hash = (const uint32_t *)address;
			break;
		case DT_VERSYM:
			ret->versions = (const uint16_t *)address;
			break;
		}
	}
	return ret->symbols && ret->strings && (ret->gnu_hash || ret->hash);
}

/* What is looked for, and what was found so far. */
struct search {
	const struct elf_module *module;
	const char *name;
	bool object;                /* data, not a function */
	const Elf64_Sym *found;     /* default version */
	const Elf64_Sym *found_old; /* hidden version */
};

static bool same_name(const struct elf_module *module, uint32_t offset, const char *name)
{
	if (offset >= module->string_bytes)
		return false;
	const char *other = module->strings + offset;
	while (*name && *name == *other) {
		name++;
		other++;
	}
	return *name == *other;
}

static bool type_fits(const Elf64_Sym *symbol, bool object)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	return object ? type == STT_OBJECT : type == STT_FUNC || type == STT_GNU_IFUNC;
}

/* Look at symbol number index; true: the search is over. */
static bool consider(struct search *search, uint32_t index)
{
	const struct elf_module *module = search->module;
	const Elf64_Sym *symbol = &module->symbols[index];

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 ||
	    ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || !type_fits(symbol, search->object) ||
	    !same_name(module, symbol->st_name, search->name))
		return false;
	if (module->versions && (module->versions[index] & VERSION_HIDDEN)) {
		if (!search->found_old)
			search->found_old = symbol;
		return false;
	}
	search->found = symbol;
	return true;
}

/*
 * buckets | first symbol | words of the filter | shift | filter | buckets | chains
 * The lowest bit of a chain's value marks its end.
 */
static void search_gnu_hash(struct search *search)
{
	const uint32_t *table = search->module->gnu_hash;
	uint32_t bucket_count = table[0];
	uint32_t first = table[1];
	uint32_t filter_words = table[2];
	const uint64_t *filter = (const uint64_t *)(table + 4);
	const uint32_t *buckets = (const uint32_t *)(filter + filter_words);
	const uint32_t *chains = buckets + bucket_count;
	uint32_t hash = 5381;

	for (const char *c = search->name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	if (bucket_count == 0 || filter_words == 0)
		return;
	uint64_t word = filter[hash / 64 % filter_words];
	if (!(word >> hash % 64 & word >> (hash >> table[3]) % 64 & 1))
		return;
	uint32_t index = buckets[hash % bucket_count];
	if (index < first)
		return;
	for (;; index++) {
		uint32_t chain = chains[index - first];
		if ((chain | 1) == (hash | 1) && consider(search, index))
			return;
		if (chain & 1)
			return;
	}
}

static void search_hash(struct search *search)
{
	const uint32_t *table = search->module->hash;
	uint32_t bucket_count = table[0];
	uint32_t chain_count = table[1];
	const uint32_t *buckets = table + 2;
	const uint32_t *chains = buckets + bucket_count;
	uint32_t hash = 0;

	for (const char *c = search->name; *c; c++) {
		hash = (hash << 4) + (uint8_t)*c;
		hash ^= hash >> 24 & 0xf0;
		hash &= 0x0fffffff;
	}
	if (bucket_count == 0)
		return;
	uint32_t index = buckets[hash % bucket_count];
	for (uint32_t i = 0; index && index < chain_count && i < chain_count; i++) {
		if (consider(search, index))
			return;
		index = chains[index];
	}
}

static const Elf64_Sym *find_symbol(const struct elf_module *module, const char *name, bool object)
{
	struct search search = {.module = module, .name = name, .object = object};

	if (module->gnu_hash)
		search_gnu_hash(&search);
	else
		search_hash(&search);
	return search.found ? search.found : search.found_old;
}

void *elf_find_in(const struct elf_module *module, const char *name)
{
	const Elf64_Sym *symbol = find_symbol(module, name, false);

	if (!symbol)
		return NULL;
	uintptr_t address = module->bias + symbol->st_value;
	if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		return ((void *(*)(void))address)();
	return (void *)address;
}

void *elf_find_object_in(const struct elf_module *module, const char *name)
{
	const Elf64_Sym *symbol = find_symbol(module, name, true);
	return symbol ? (void *)(module->bias + symbol->st_value) : NULL;
}

static bool is_vdso(const struct elf_scope *scope, const struct elf_link_map *map)
{
	return scope->auxv.vdso && map->bias == scope->auxv.vdso;
}

static void *find_from(const struct elf_scope *scope, uintptr_t at, const char *name, bool object)
{
	for (unsigned i = 0; at && i < OBJECTS_MAX; i++) {
		const struct elf_link_map *map = (const struct elf_link_map *)at;
		struct elf_module module;
		void *found = NULL;

		if (at != scope->self && map->dynamic && !is_vdso(scope, map) &&
		    elf_module_init(&module, map->bias, (const Elf64_Dyn *)map->dynamic))
			found = object ? elf_find_object_in(&module, name)
				       : elf_find_in(&module, name);
		if (found)
			return found;
		at = map->next;
	}
	return NULL;
}

void *elf_find_next(const struct elf_scope *scope, const char *name)
{
	if (!scope->self)
		return elf_find_any(scope, name);
	return find_from(scope, ((const struct elf_link_map *)scope->self)->next, name, false);
}

void *elf_find_any(const struct elf_scope *scope, const char *name)
{
	if (!scope->debug)
		return NULL;
	return find_from(scope, ((const struct elf_debug *)scope->debug)->map, name, false);
}

void *elf_find_object_any(const struct elf_scope *scope, const char *name)
{
	if (!scope->debug)
		return NULL;
	return find_from(scope, ((const struct elf_debug *)scope->debug)->map, name, true);
}
