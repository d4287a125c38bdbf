/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/redirect.h"

#include <linux/futex.h>
#include <linux/mman.h>

#include "agent/agent.h"
#include "agent/memory_ops.h"
#include "agent/real.h"
#include "agent/sys.h"

enum { OBJECTS_MAX = 65536, BAD_ADDRESS = -14 };

extern const char _DYNAMIC[] __attribute__((visibility("hidden")));

/* The tables of one object that relocation used. */
struct relocations {
	const Elf64_Rela *list[2];
	size_t count[2];
	const Elf64_Sym *symbols;
	const char *strings;
};

static uintptr_t relocated(uintptr_t bias, uintptr_t value)
{
	return value < bias ? value + bias : value; /* musl leaves them as they are */
}

static bool read_dynamic(const struct elf_link_map *object, struct relocations *ret)
{
	*ret = (struct relocations){0};
	for (const Elf64_Dyn *d = (const Elf64_Dyn *)object->dynamic; d && d->d_tag != DT_NULL;
	     d++) {
		uintptr_t at = relocated(object->bias, d->d_un.d_ptr);
		switch (d->d_tag) {
		case DT_JMPREL:
			ret->list[0] = (const Elf64_Rela *)at;
			break;
		case DT_PLTRELSZ:
			ret->count[0] = d->d_un.d_val / sizeof(Elf64_Rela);
			break;
		case DT_RELA:
			ret->list[1] = (const Elf64_Rela *)at;
			break;
		case DT_RELASZ:
			ret->count[1] = d->d_un.d_val / sizeof(Elf64_Rela);
			break;
		case DT_SYMTAB:
			ret->symbols = (const Elf64_Sym *)at;
			break;
		case DT_STRTAB:
			ret->strings = (const char *)at;
			break;
		}
	}
	return ret->symbols && ret->strings;
}

static bool same_text(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* operator new and delete: the C++ library has them, too. */
static bool is_operator(const struct redirect *redirect)
{
	return redirect->name[0] == '_' && redirect->name[1] == 'Z';
}

static const struct redirect *find_redirect(const char *name)
{
	for (const struct redirect *r = redirects; r->name; r++)
		if (*r->real && same_text(r->name, name))
			return r;
	return NULL;
}

/* What may be done to the page that a slot lies in. */
enum slot_page { SLOT_WRITABLE, SLOT_READ_ONLY, SLOT_UNKNOWN };

/*
 * The kernel is asked to "or" nothing into the slot, at once: another thread may be binding it.
 * That obeys the page's protection. Nobody waits on either word. Of all calls this one is the last
 * to be forbidden; where it is, the answer says nothing about the page.
 */
static enum slot_page look_at_page(uintptr_t slot)
{
	uint32_t nobody = 0;
	long got = sys_futex(&nobody, FUTEX_WAKE_OP_PRIVATE, 0, NULL, (void *)slot,
			     FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0));
	if (!sys_failed(got))
		return SLOT_WRITABLE;
	return got == BAD_ADDRESS ? SLOT_READ_ONLY : SLOT_UNKNOWN;
}

/*
 * A slot may lie in a page made read-only after relocation: open it for the one store. A page of
 * which nothing is known stays open: others of its slots may still be bound by the loader.
 */
static void point_slot(uintptr_t slot, void *hook)
{
	void *page = (void *)(slot & ~(uintptr_t)(AGENT_PAGE - 1));
	if (*(void *volatile *)slot == hook)
		return;
	enum slot_page is = look_at_page(slot);
	if (is != SLOT_WRITABLE &&
	    sys_failed(sys_mprotect(page, AGENT_PAGE, PROT_READ | PROT_WRITE)))
		return;
	*(void *volatile *)slot = hook;
	if (is == SLOT_READ_ONLY)
		sys_mprotect(page, AGENT_PAGE, PROT_READ);
}

static bool same_object(const void *function, uintptr_t dynamic)
{
	struct module_code a, b;
	return modules_find(agent.modules, (uintptr_t)function, &a) &&
	       modules_find(agent.modules, dynamic, &b) && a.start == b.start;
}

typedef bool (*redirect_wanted_fn)(const void *ctx, const struct redirect *redirect,
				   uintptr_t slot);

static void redirect_object(const struct elf_link_map *object, redirect_wanted_fn wanted,
			    const void *ctx)
{
	struct relocations tables;
	if (!read_dynamic(object, &tables))
		return;
	for (int list = 0; list < 2; list++)
		for (size_t i = 0; tables.list[list] && i < tables.count[list]; i++) {
			const Elf64_Rela *r = &tables.list[list][i];
			uint32_t type = ELF64_R_TYPE(r->r_info);
			if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
				continue;
			const Elf64_Sym *symbol = &tables.symbols[ELF64_R_SYM(r->r_info)];
			const struct redirect *found =
				find_redirect(tables.strings + symbol->st_name);
			uintptr_t slot = object->bias + r->r_offset;
			if (found && wanted(ctx, found, slot))
				point_slot(slot, found->hook);
		}
}

/* Calls inside the allocator itself are not the program's. */
static bool wanted_at_start(const void *ctx, const struct redirect *redirect, uintptr_t slot)
{
	const struct elf_link_map *object = ctx;
	(void)slot;
	return !same_object(*redirect->real, object->dynamic);
}

/* operator new of the C++ library ends in malloc: only an allocator's own is of interest. */
static bool in_allocator(const void *function)
{
	return same_object(function, (uintptr_t)real.malloc);
}

/* malloc is that of an allocator which has other entry points, too: one that we know. */
static void know_heap_code(void)
{
	struct module_code code;
	bool known = false;
	for (const struct redirect *r = redirects; r->name && !known; r++)
		known = *r->real && !is_operator(r) && in_allocator(*r->real);
	if (!known || !modules_find(agent.modules, (uintptr_t)real.malloc, &code))
		return;
	agent_fixed.heap_start = code.start;
	agent_fixed.heap_end = code.end;
}

void redirect_start(const struct elf_scope *scope)
{
	bool any = false;
	for (const struct redirect *r = redirects; r->name; r++) {
		void *found = elf_find_next(scope, r->name);
		*r->real = found && (!is_operator(r) || in_allocator(found)) ? found : NULL;
		any |= *r->real != NULL;
	}
	know_heap_code();
	if (!any || !scope->debug)
		return;
	agent_fixed.cxx_throw = (uintptr_t)elf_find_next(scope, "__cxa_allocate_exception");
	const struct elf_debug *debug = (const struct elf_debug *)scope->debug;
	const struct elf_link_map *object = (const struct elf_link_map *)debug->map;
	for (int i = 0; object && i < OBJECTS_MAX; i++) {
		if ((uintptr_t)object != scope->self)
			redirect_object(object, wanted_at_start, object);
		object = (const struct elf_link_map *)object->next;
	}
}

/* ---- objects that were loaded later ---- */

/* struct dl_phdr_info as every C library on Linux lays it out. */
struct loaded {
	uintptr_t bias;
	const char *name;
	const Elf64_Phdr *headers;
	uint16_t header_count;
	uint64_t added;
	uint64_t removed;
};

/* Where the object's code and data lie. */
struct extent {
	uintptr_t start, end;
	uintptr_t dynamic;
};

static struct extent extent_of(const struct loaded *object)
{
	struct extent extent = {.start = UINTPTR_MAX};
	for (uint16_t i = 0; i < object->header_count; i++) {
		const Elf64_Phdr *header = &object->headers[i];
		uintptr_t start = object->bias + header->p_vaddr;
		if (header->p_type == PT_DYNAMIC)
			extent.dynamic = start;
		if (header->p_type != PT_LOAD)
			continue;
		extent.start = start < extent.start ? start : extent.start;
		if (start + header->p_memsz > extent.end)
			extent.end = start + header->p_memsz;
	}
	return extent;
}

static bool lies_in(const struct extent *extent, const void *address)
{
	return (uintptr_t)address >= extent->start && (uintptr_t)address < extent->end;
}

/* Neither we nor the kernel's own pages, which no loader has relocated. */
static bool is_ordinary(const struct loaded *object, const struct extent *extent)
{
	static const char vdso[] = "linux-vdso";
	return extent->dynamic && extent->dynamic != (uintptr_t)_DYNAMIC &&
	       (!object->name || strlen(object->name) < sizeof vdso - 1 ||
		memcmp(object->name, vdso, sizeof vdso - 1) != 0);
}

/* The first names of the three families: who has one has the others. */
static bool is_allocator(const struct elf_module *module)
{
	return elf_find_in(module, "mallocx") || elf_find_in(module, "mi_malloc") ||
	       elf_find_in(module, "tc_malloc");
}

static int learn_definitions(const struct loaded *object, size_t bytes, void *ctx)
{
	struct extent extent = extent_of(object);
	struct elf_module module;
	(void)bytes;
	(void)ctx;
	if (!is_ordinary(object, &extent) ||
	    !elf_module_init(&module, object->bias, (const Elf64_Dyn *)extent.dynamic))
		return 0;
	if (!agent_fixed.cxx_throw)
		agent_fixed.cxx_throw = (uintptr_t)elf_find_in(&module, "__cxa_allocate_exception");
	if (!is_allocator(&module))
		return 0;
	for (const struct redirect *r = redirects; r->name; r++)
		if (!*r->real)
			*r->real = elf_find_in(&module, r->name);
	return 0;
}

/*
 * A slot that leads to what is hooked, or back into its own object: to be bound at
 * the first call. Whose operator new that will be nobody knows: such a slot is left.
 */
static bool wanted_late(const void *ctx, const struct redirect *redirect, uintptr_t slot)
{
	const struct extent *extent = ctx;
	void *now = *(void *volatile *)slot;
	return !lies_in(extent, *redirect->real) &&
	       (now == *redirect->real || (!is_operator(redirect) && lies_in(extent, now)));
}

static int redirect_loaded(const struct loaded *object, size_t bytes, void *ctx)
{
	struct extent extent = extent_of(object);
	const struct elf_link_map map = {.bias = object->bias, .dynamic = extent.dynamic};
	(void)bytes;
	(void)ctx;
	if (is_ordinary(object, &extent))
		redirect_object(&map, wanted_late, &extent);
	return 0;
}

static int read_counts(const struct loaded *object, size_t bytes, void *ctx)
{
	if (bytes >= sizeof *object)
		*(uint64_t *)ctx = object->added;
	return 1;
}

bool redirect_late(void)
{
	uint64_t added = 0;
	if (!real.dl_iterate_phdr)
		return false;
	real.dl_iterate_phdr((void *)read_counts, &added);
	if (added && atomic_exchange(&agent_fixed.objects_added, added) == added)
		return false;
	real.dl_iterate_phdr((void *)learn_definitions, NULL);
	for (const struct redirect *r = redirects; r->name; r++)
		if (*r->real) {
			real.dl_iterate_phdr((void *)redirect_loaded, NULL);
			return true;
		}
	return true;
}
