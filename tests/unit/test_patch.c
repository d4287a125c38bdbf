/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real allocators, loaded into this process and patched: every call must pass
 * the stub, and do what it did. The glue here only counts and passes on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "harness/tap.h"
#include "inject/patch.h"
#include "wire/wire.h"

enum { RANGES_MAX = 4096 };

extern void patch_test_glue(void);
uint64_t patch_test_calls;
const struct wire_site *patch_test_site;

__asm__(".text\n"
	".globl patch_test_glue\n"
	"patch_test_glue:\n"
	"	push %rax\n"
	"	mov 8(%rsp),%rax\n"
	"	incq patch_test_calls(%rip)\n"
	"	mov %rax,patch_test_site(%rip)\n"
	"	mov (%rax),%rax\n"
	"	mov %rax,8(%rsp)\n"
	"	pop %rax\n"
	"	ret\n");

struct loaded {
	void *handle;
	struct plan *plan;
	struct patch_set *set;
};

static size_t read_ranges(struct patch_range *ranges)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	size_t count = 0;

	REQUIRE(maps);
	while (count < RANGES_MAX && fgets(line, sizeof line, maps)) {
		char *end;
		ranges[count].start = strtoull(line, &end, 16);
		ranges[count++].end = strtoull(end + 1, NULL, 16);
	}
	fclose(maps);
	return count;
}

static void *find_island(const struct plan *plan)
{
	static struct patch_range ranges[RANGES_MAX];
	size_t bytes = patch_island_bytes(plan), count = read_ranges(ranges);
	struct patch_range within = {0};

	REQUIRE(patch_reach(plan, &within.start, &within.end));
	uint64_t place =
		patch_find_gap(ranges, count, &within, plan->entries[0].reloc.address, bytes);
	REQUIRE(place != 0);
	void *island = mmap((void *)place, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	REQUIRE(island == (void *)place);
	return island;
}

static void write_code(uint64_t address, const uint8_t *bytes)
{
	uint64_t page = address & ~4095ull;

	REQUIRE(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
	memcpy((void *)address, bytes, RELOC_PATCH_BYTES);
}

static struct loaded load(const char *path)
{
	struct loaded loaded = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
	struct link_map *map = NULL;
	struct tm_error err = {0};
	uint64_t glue;
	void (*function)(void) = patch_test_glue;

	if (!loaded.handle)
		tap_skip(path);
	REQUIRE(dlinfo(loaded.handle, RTLD_DI_LINKMAP, &map) == 0);
	int fd = open(map->l_name, O_RDONLY | O_CLOEXEC);
	struct plan_source source = {.fd = fd, .bias = map->l_addr, .what = PLAN_ALL};
	REQUIRE(plan_new(&source, &loaded.plan, &err) == 0);
	close(fd);
	for (size_t i = 0; i < loaded.plan->entry_count; i++) /* the glue here has one form */
		loaded.plan->entries[i].site.flags &= (uint8_t)~WIRE_SITE_LIGHT;
	void *island = find_island(loaded.plan);
	memcpy(&glue, &function, sizeof glue);
	REQUIRE(patch_place(loaded.plan, (uint64_t)island, glue, &loaded.set, &err) == 0);
	memcpy(island, loaded.set->island, loaded.set->island_bytes);
	REQUIRE(mprotect(island, loaded.set->island_bytes, PROT_READ | PROT_EXEC) == 0);
	for (size_t i = 0; i < loaded.set->count; i++) {
		struct patch *patch = &loaded.set->patches[i];
		if (!CHECK_MEM((void *)patch->address, patch->old, RELOC_PATCH_BYTES))
			tap_note("%s", patch->entry->name);
	}
	return loaded;
}

static void write_patches(const struct loaded *loaded, bool in)
{
	for (size_t i = 0; i < loaded->set->count; i++) {
		const struct patch *patch = &loaded->set->patches[i];
		write_code(patch->address, in ? patch->new : patch->old);
	}
}

static void *symbol(const struct loaded *loaded, const char *name)
{
	void *found = dlsym(loaded->handle, name);

	if (!CHECK(found != NULL))
		tap_note("%s", name);
	return found;
}

/* The family, called with checked contents. Returns how many calls it made itself. */
static unsigned exercise(const struct loaded *loaded)
{
	void *(*get)(size_t) = symbol(loaded, "malloc");
	void *(*get_zero)(size_t, size_t) = symbol(loaded, "calloc");
	void *(*grow)(void *, size_t) = symbol(loaded, "realloc");
	int (*get_aligned)(void **, size_t, size_t) = symbol(loaded, "posix_memalign");
	void *(*get_memalign)(size_t, size_t) = symbol(loaded, "memalign");
	void (*put)(void *) = symbol(loaded, "free");
	unsigned calls = 0;

	for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 3 + 1) {
		unsigned char *block = get(bytes);
		REQUIRE(block);
		memset(block, 0x5a, bytes);
		block = grow(block, 2 * bytes);
		REQUIRE(block);
		CHECK(block[0] == 0x5a && block[bytes - 1] == 0x5a);
		unsigned char *zero = get_zero(bytes, 3);
		REQUIRE(zero);
		CHECK(!zero[0] && !zero[3 * bytes - 1]);
		void *aligned = NULL;
		CHECK_EQ_I64(get_aligned(&aligned, 4096, bytes), 0);
		CHECK_EQ_U64((uint64_t)aligned & 4095, 0);
		void *other = get_memalign(64, bytes);
		CHECK_EQ_U64((uint64_t)other & 63, 0);
		put(block);
		put(zero);
		put(aligned);
		put(other);
		calls += 9;
	}
	put(NULL);
	return calls + 1;
}

static void patch_library(const char *path)
{
	struct loaded loaded = load(path);

	write_patches(&loaded, true);
	patch_test_calls = 0;
	unsigned calls = exercise(&loaded);
	uint64_t seen = patch_test_calls;
	write_patches(&loaded, false);
	/* What the entry points call among themselves comes on top. */
	CHECK(seen >= calls);
	patch_test_calls = 0;
	exercise(&loaded);
	CHECK_EQ_U64(patch_test_calls, 0);
	patch_set_free(loaded.set);
	plan_free(loaded.plan);
}

static void jemalloc(void)
{
	patch_library("libjemalloc.so.2");
}

static void tcmalloc(void)
{
	patch_library("libtcmalloc_minimal.so.4");
}

/* Its own names are the only ones it has in every build. */
static void mimalloc(void)
{
	struct loaded loaded = load("libmimalloc.so.2");
	void *(*get)(size_t) = symbol(&loaded, "mi_malloc");
	void (*put)(void *) = symbol(&loaded, "mi_free");
	char *(*copy)(const char *) = symbol(&loaded, "mi_strdup");

	write_patches(&loaded, true);
	patch_test_calls = 0;
	for (size_t bytes = 1; bytes < 100000; bytes *= 2) {
		char *block = get(bytes);
		REQUIRE(block);
		CHECK_EQ_U64(patch_test_site->hook, WIRE_HOOK_ALLOC);
		CHECK_EQ_U64(patch_test_site->api, WIRE_API_MIMALLOC);
		memset(block, 1, bytes);
		put(block);
		CHECK_EQ_U64(patch_test_site->hook, WIRE_HOOK_FREE);
	}
	char *text = copy("tidemark");
	CHECK_STR(text, "tidemark");
	put(text);
	CHECK(patch_test_calls >= 36);
	write_patches(&loaded, false);
	patch_set_free(loaded.set);
	plan_free(loaded.plan);
}

/* The allocator this process itself lives on. */
static void libc(void)
{
	struct loaded loaded = load("libc.so.6");

	write_patches(&loaded, true);
	patch_test_calls = 0;
	unsigned calls = exercise(&loaded);
	uint64_t seen = patch_test_calls;
	write_patches(&loaded, false);
	CHECK(seen >= calls);
	patch_set_free(loaded.set);
	plan_free(loaded.plan);
}

/* A thread that stands in the middle of the overwritten bytes goes on in the copy. */
static void moved_pc(void)
{
	struct loaded loaded = load("libjemalloc.so.2");
	unsigned moved = 0;

	for (size_t i = 0; i < loaded.set->count; i++) {
		const struct patch *patch = &loaded.set->patches[i];
		const struct reloc *reloc = &patch->entry->reloc;
		CHECK_EQ_U64(patch_move_pc(loaded.set, patch->address), patch->address);
		CHECK_EQ_U64(patch_move_pc(loaded.set, patch->address + RELOC_PATCH_BYTES),
			     patch->address + RELOC_PATCH_BYTES);
		for (unsigned k = 1; k < reloc->steps; k++, moved++)
			CHECK_EQ_U64(
				patch_move_pc(loaded.set, reloc->address + reloc->step[k].from),
				patch->copy + reloc->step[k].to);
	}
	CHECK(moved > 0);
	patch_set_free(loaded.set);
	plan_free(loaded.plan);
}

static void gaps(void)
{
	static const struct patch_range ranges[] = {{0x400000, 0x500000}, {0x503000, 0x600000}};
	struct patch_range within = {0x10000, 0x700000};

	CHECK_EQ_U64(patch_find_gap(ranges, 2, &within, 0x4ff000, 0x3000), 0x500000);
	CHECK_EQ_U64(patch_find_gap(ranges, 2, &within, 0x480000, 0x4000), 0x3fc000);
	CHECK_EQ_U64(patch_find_gap(ranges, 2, &within, 0x5ff000, 0x4000), 0x600000);
	within.end = 0x501000;
	CHECK_EQ_U64(patch_find_gap(ranges, 2, &within, 0x5ff000, 0x1000), 0x500000);
	within.start = 0x400000;
	CHECK_EQ_U64(patch_find_gap(ranges, 2, &within, 0x5ff000, 0x2000), 0);
	CHECK_EQ_U64(patch_find_gap(NULL, 0, &within, 0x450123, 0x1000), 0x450000);
}

static const struct tap_case cases[] = {
	{.name = "a patched jemalloc works, and every call is seen", .run = jemalloc},
	{.name = "a patched tcmalloc works, and every call is seen", .run = tcmalloc},
	{.name = "a patched mimalloc works, and every call is seen", .run = mimalloc},
	{.name = "the C library's malloc works when patched", .run = libc},
	{.name = "a thread inside the patched bytes goes on in the copy", .run = moved_pc},
	{.name = "room for the island is found, or none", .run = gaps},
};

/*
 * jemalloc's library wants more static thread-local memory than dlopen() has to
 * give; tcmalloc's forgets a block when it starts, which is none of ours.
 */
int main(int argc, char **argv)
{
	static const char tunables[] = "glibc.rtld.optional_static_tls=65536";

	if (!getenv("GLIBC_TUNABLES")) {
		setenv("GLIBC_TUNABLES", tunables, 1);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		execv("/proc/self/exe", argv);
	}
	return tap_run(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
