/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped memory by mmap, munmap, mremap, mprotect, madvise and brk. The heap is
 * not touched, so the report must show an empty heap and these figures apart.
 * The ledger's own file is a file mapping and not part of mapped_peak_bytes.
 */
#include "ledger.h"

enum { MIB = 1 << 20 };

SITE void *map_anonymous(size_t bytes, int prot)
{
	void *at = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(at != MAP_FAILED, "mmap failed");
	return at;
}

SITE void *map_again(void *at, size_t old_bytes, size_t bytes)
{
	void *moved = mremap(at, old_bytes, bytes, MREMAP_MAYMOVE);
	check(moved != MAP_FAILED, "mremap failed");
	return moved;
}

/* 8 MiB, of which the middle 2 go, then 4 more: the peak is 6 + 4 = 10. */
static uint64_t mode_mmap(void)
{
	char *at = map_anonymous(8 * MIB, PROT_READ | PROT_WRITE);
	memset(at, 1, 8 * MIB);
	check(munmap(at + 3 * MIB, 2 * MIB) == 0, "munmap failed");
	char *more = map_anonymous(4 * MIB, PROT_READ | PROT_WRITE);
	more[0] = 1;
	check(munmap(at, 3 * MIB) == 0, "munmap failed");
	return 10 * MIB;
}

static uint64_t mode_mremap(void)
{
	char *at = map_anonymous(2 * MIB, PROT_READ | PROT_WRITE);
	at[0] = 7;
	at = map_again(at, 2 * MIB, 16 * MIB);
	check(at[0] == 7, "mremap lost a byte");
	at = map_again(at, 16 * MIB, 1 * MIB);
	check(mremap(at, MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)1) == MAP_FAILED,
	      "a wrong mremap worked");
	return 16 * MIB;
}

/* A reservation without access is not memory until it is made accessible. */
static uint64_t mode_mprotect(void)
{
	char *at = map_anonymous(64 * MIB, PROT_NONE);
	check(mprotect(at, 3 * MIB, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
	memset(at, 1, 3 * MIB);
	check(mprotect(at + 8 * MIB, 2 * MIB, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
	check(mprotect(at, MIB, PROT_NONE) == 0, "mprotect failed");
	return 5 * MIB;
}

static uint64_t mode_madvise(void)
{
	char *at = map_anonymous(4 * MIB, PROT_READ | PROT_WRITE);
	memset(at, 1, 4 * MIB);
	check(madvise(at, 2 * MIB, MADV_DONTNEED) == 0, "madvise failed");
	check(at[0] == 0, "MADV_DONTNEED kept a byte");
	memset(at, 1, 4 * MIB);
	return 4 * MIB;
}

static uint64_t mode_brk(void)
{
	char *at = sbrk(0);
	check(brk(at + 2 * MIB) == 0, "brk failed");
	memset(at, 1, 2 * MIB);
	check(brk(at + MIB) == 0, "brk failed");
	return 2 * MIB;
}

static uint64_t mode_file(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char *at = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
	check(at != MAP_FAILED && at[1] == 'E', "file mapping failed");
	close(fd);
	check(munmap(at, 8192) == 0, "munmap failed");
	return 0;
}

/* So that a static program has one: without it there is no heap to record, and it is refused. */
__attribute__((used)) static void *(*const the_allocator)(size_t) = malloc;

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	uint64_t peak = 0;
	ledger_open("");
	if (!strcmp(mode, "mmap"))
		peak = mode_mmap();
	else if (!strcmp(mode, "mremap"))
		peak = mode_mremap();
	else if (!strcmp(mode, "mprotect"))
		peak = mode_mprotect();
	else if (!strcmp(mode, "madvise"))
		peak = mode_madvise();
	else if (!strcmp(mode, "brk"))
		peak = mode_brk();
	else if (!strcmp(mode, "file"))
		peak = mode_file();
	else
		check(0, "usage: api_map MODE");
	ledger_expect(strcmp(mode, "brk") ? "mapped_peak_bytes" : "brk_peak_bytes", peak);
	ledger_print(mode, LEDGER_EXACT | LEDGER_PEAK);
	return 0;
}
