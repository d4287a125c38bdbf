/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/elf.h"
#include "harness/tap.h"

static const char next_case[] = "the next allocator is found";

static struct elf_scope own_scope(void)
{
	struct elf_auxv auxv;
	struct elf_scope scope;

	REQUIRE(elf_auxv_read(&auxv) == 0);
	REQUIRE(elf_scope_init(&scope, &auxv, _DYNAMIC));
	return scope;
}

static void auxv(void)
{
	struct elf_auxv auxv;

	REQUIRE(elf_auxv_read(&auxv) == 0);
	CHECK_EQ_U64(auxv.phdr, getauxval(AT_PHDR));
	CHECK_EQ_U64(auxv.phent, getauxval(AT_PHENT));
	CHECK_EQ_U64(auxv.phnum, getauxval(AT_PHNUM));
	CHECK_EQ_U64(auxv.base, getauxval(AT_BASE));
	CHECK_EQ_U64(auxv.entry, getauxval(AT_ENTRY));
	CHECK_EQ_U64(auxv.vdso, getauxval(AT_SYSINFO_EHDR));
	CHECK_EQ_U64(auxv.random, getauxval(AT_RANDOM));
	CHECK_EQ_U64(auxv.page_bytes, getauxval(AT_PAGESZ));
	CHECK_EQ_U64(auxv.secure, 0);
}

/* Also run through the dynamic linker, see through_linker(). */
static void next_allocator(void)
{
	static const char *const names[] = {
		"malloc",   "free",    "calloc",      "realloc",        "posix_memalign",
		"memcpy",   "strlen",  "dlopen",      "pthread_create", "fork",
		"realpath", "regexec", "posix_spawn", "mmap",
	};
	struct elf_scope scope = own_scope();

	CHECK(scope.self != 0);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		void *wanted = dlsym(RTLD_NEXT, names[i]);
		if (!CHECK(elf_find_next(&scope, names[i]) == wanted) || !wanted)
			tap_note("%s", names[i]);
	}
	CHECK(elf_find_next(&scope, "no_such_function_here") == NULL);
	CHECK(elf_find_next(&scope, "") == NULL);
	/* Defined by this program, which is not after itself; and data is no function. */
	CHECK(elf_find_next(&scope, "main") == NULL);
	CHECK(elf_find_next(&scope, "environ") == NULL);
}

/* Injected code is in no list: then all objects are searched. */
static void not_in_list(void)
{
	struct elf_auxv auxv;
	struct elf_scope scope;

	REQUIRE(elf_auxv_read(&auxv) == 0);
	REQUIRE(elf_scope_init(&scope, &auxv, &auxv));
	CHECK_EQ_U64(scope.self, 0);
	CHECK(elf_find_next(&scope, "malloc") == dlsym(RTLD_DEFAULT, "malloc"));
	CHECK(elf_find_any(&scope, "qsort") == dlsym(RTLD_DEFAULT, "qsort"));
}

static void static_program(void)
{
	struct elf_auxv auxv = {.page_bytes = 4096};
	struct elf_scope scope;

	CHECK(!elf_scope_init(&scope, &auxv, _DYNAMIC));
	CHECK(elf_find_next(&scope, "malloc") == NULL);
}

/* As "ld.so program": then AT_PHDR is the linker's and has no DT_DEBUG. */
static void through_linker(void)
{
	char self[4096];
	ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
	int status;

	REQUIRE(bytes > 0);
	self[bytes] = 0;
	pid_t pid = fork();
	if (pid == 0) {
		/* The linker does not free all it takes in this mode. */
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		execl("/lib64/ld-linux-x86-64.so.2", "ld.so", self, next_case, NULL);
		_exit(99);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct elf_module module_of(const char *name, void **ret_handle)
{
	struct link_map *map;
	struct elf_module module;

	*ret_handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
	REQUIRE(*ret_handle && dlinfo(*ret_handle, RTLD_DI_LINKMAP, &map) == 0);
	REQUIRE(elf_module_init(&module, map->l_addr, map->l_ld));
	return module;
}

static bool is_function(const GElf_Sym *symbol)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

/* Every function that a library exports, found by name as dlsym() finds it. */
static uint64_t compare_symbols(const char *path, const char *name)
{
	void *handle;
	struct elf_module module = module_of(name, &handle);
	struct elf_module old = module;
	uint64_t compared = 0;
	Elf_Scn *section = NULL;

	old.gnu_hash = NULL;
	elf_version(EV_CURRENT);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	REQUIRE(elf);
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		gelf_getshdr(section, &header);
		if (header.sh_type != SHT_DYNSYM)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (int i = 0; i < (int)(header.sh_size / header.sh_entsize); i++) {
			GElf_Sym symbol;
			gelf_getsym(data, i, &symbol);
			const char *text = elf_strptr(elf, header.sh_link, symbol.st_name);
			/* dlsym() knows no hidden version, even if it is the only one. */
			void *wanted = is_function(&symbol) ? dlsym(handle, text) : NULL;
			if (!wanted)
				continue;
			compared++;
			if (!CHECK(elf_find_in(&module, text) == wanted) ||
			    !CHECK(!old.hash || elf_find_in(&old, text) == wanted))
				tap_note("%s: %s", path, text);
		}
	}
	elf_end(elf);
	close(fd);
	return compared;
}

static void all_symbols(void)
{
	CHECK(compare_symbols("/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6") > 1500);
}

/* The vdso has both tables. */
static void both_hash_tables(void)
{
	uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)vdso;
	struct elf_module module = {.bias = 0};

	if (!vdso)
		tap_skip("no vdso");
	const Elf64_Phdr *headers = (const Elf64_Phdr *)(vdso + header->e_phoff);
	for (size_t i = 0; i < header->e_phnum; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			elf_module_init(&module, vdso,
					(const Elf64_Dyn *)(vdso + headers[i].p_vaddr));
	if (!module.hash || !module.gnu_hash)
		tap_skip("the vdso has not both hash tables");
	struct elf_module old = module;
	old.gnu_hash = NULL;
	void *found = elf_find_in(&module, "__vdso_clock_gettime");
	CHECK(found != NULL);
	CHECK(elf_find_in(&old, "__vdso_clock_gettime") == found);
	CHECK(elf_find_in(&old, "no_such_function_here") == NULL);
}

/* The way taken when the program itself has no DT_DEBUG. */
static void exported_list(void)
{
	void *handle;
	struct elf_module module = module_of("ld-linux-x86-64.so.2", &handle);

	CHECK(elf_find_object_in(&module, "_r_debug") == (void *)own_scope().debug);
	CHECK(elf_find_in(&module, "_r_debug") == NULL);
	CHECK(elf_find_object_in(&module, "__tls_get_addr") == NULL);
}

static const struct tap_case cases[] = {
	{.name = "the kernel's facts are read", .run = auxv},
	{.name = next_case, .run = next_allocator},
	{.name = "code outside of the list finds all functions", .run = not_in_list},
	{.name = "a static program has no list", .run = static_program},
	{.name = "a program started through the linker is recorded", .run = through_linker},
	{.name = "every function of libc is found as dlsym finds it", .run = all_symbols},
	{.name = "old and new hash tables give the same", .run = both_hash_tables},
	{.name = "the loader's list is the linker's own", .run = exported_list},
};
TAP_MAIN(cases)
