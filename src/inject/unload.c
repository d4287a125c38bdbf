/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlclose: what was derived from code that goes away must go, too. It is patched
 * like an allocator's function, but leads to the agent's own hook as it is, which
 * finds the original where the loader's hooks look for theirs (agent/real.h).
 */
#include "inject/state.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "inject/plan_elf.h"

enum { CODE_BYTES = 64, HOOK_BYTES = 8, STUB_BYTES = 6, COPY_OFFSET = 16, PAGE = 4096 };

/* Where the file defines it; 0: nowhere. */
static const Elf64_Sym *find_symbol(const struct plan_elf *elf)
{
	for (size_t t = 0; t < elf->table_count; t++)
		for (size_t i = 0; elf->tables[t].dynamic && i < elf->tables[t].count; i++) {
			const Elf64_Sym *symbol = &elf->tables[t].symbols[i];
			if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value &&
			    symbol->st_shndx != SHN_UNDEF &&
			    !strcmp(plan_elf_name(&elf->tables[t], symbol), "dlclose"))
				return symbol;
		}
	return NULL;
}

static int decode(int fd, uint64_t bias, struct plan_entry *entry)
{
	struct plan_elf elf;
	struct tm_error ignored = {0};
	uint8_t bytes[CODE_BYTES];
	int error = plan_elf_open(fd, &elf, &ignored);
	if (error)
		return error;
	const Elf64_Sym *symbol = find_symbol(&elf);
	error = symbol ? 0 : -ENOENT;
	if (symbol) {
		size_t count = plan_elf_code(&elf, symbol->st_value, bytes, sizeof bytes);
		struct reloc_code code = {.bytes = bytes,
					  .count = count,
					  .function_bytes = symbol->st_size,
					  .address = bias + symbol->st_value};
		error = reloc_decode(&code, &entry->reloc, &ignored);
	}
	plan_elf_done(&elf);
	return error;
}

struct plan *unload_plan(int fd, uint64_t bias)
{
	struct plan *plan = tm_alloc(sizeof *plan);
	if (!plan)
		return NULL;
	plan->entries = tm_alloc_array(1, sizeof *plan->entries);
	if (!plan->entries || decode(fd, bias, plan->entries))
		return plan_free(plan);
	plan->entries->name = "dlclose";
	plan->entries->allocator = "the loader";
	plan->entries->twin = PLAN_NO_TWIN;
	plan->entry_count = 1;
	return plan;
}

int unload_place(struct inject *inject, struct plan *plan, uint64_t place, struct patch_set **ret)
{
	struct patch_set *set = tm_alloc(sizeof *set);
	uint64_t hook = 0;
	size_t copied = 0;
	if (!set)
		return -ENOMEM;
	set->address = place;
	set->island_bytes = PAGE;
	set->island = tm_alloc(PAGE);
	set->patches = tm_alloc_array(1, sizeof *set->patches);
	set->count = 1;
	int error = set->island && set->patches ? 0 : -ENOMEM;
	if (!error)
		error = session_read(inject, offsetof(struct wire_attach_block, dlclose), &hook,
				     sizeof hook);
	if (!error)
		error = reloc_emit(&plan->entries->reloc, place + COPY_OFFSET,
				   set->island + COPY_OFFSET, &copied);
	if (!error) {
		const struct reloc *reloc = &plan->entries->reloc;
		const int32_t back = -(HOOK_BYTES + STUB_BYTES);
		struct patch *patch = set->patches;
		memcpy(set->island, &hook, sizeof hook);
		memcpy(set->island + HOOK_BYTES, "\xff\x25", 2); /* jmp *hook(%rip) */
		memcpy(set->island + HOOK_BYTES + 2, &back, sizeof back);
		*patch = (struct patch){.address = reloc->address + reloc->entry,
					.entry = plan->entries,
					.copy = place + COPY_OFFSET};
		memcpy(patch->old, reloc->old + reloc->entry, sizeof patch->old);
		error = reloc_jump(patch->address, place + HOOK_BYTES, patch->new);
	}
	if (error)
		patch_set_free(set);
	else
		*ret = set;
	return error;
}

int unload_tell(const struct inject *inject, const struct patch_set *set)
{
	uint64_t place = 0;
	int error = session_read(inject, offsetof(struct wire_attach_block, dlclose_real), &place,
				 sizeof place);
	return error ? error
		     : remote_write(inject->memory_fd, place, &set->patches->copy,
				    sizeof set->patches->copy);
}
