/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over its corpus, then over mutations of it, in a child
 * whose input lies in shared memory: when it crashes or hangs, the input is
 * saved to a file and named. The seed is fixed, so a run can be repeated.
 *
 *	fuzz_x SECONDS CORPUS-FOLDER [SEED]
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

enum { INPUT_MAX = 1 << 20, SEEDS_MAX = 256, HANG_SECONDS = 10 };

struct shared {
	uint64_t runs;
	size_t size;
	uint8_t data[INPUT_MAX];
};

struct corpus {
	struct text seeds[SEEDS_MAX];
	size_t count;
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static bool load_corpus(struct corpus *corpus, const char *folder)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return false;
	struct dirent *entry;
	while (corpus->count < SEEDS_MAX && (entry = readdir(dir))) {
		char path[4096];
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		if (entry->d_name[0] != '.' &&
		    !io_read_file(path, INPUT_MAX, &corpus->seeds[corpus->count]))
			corpus->count++;
	}
	closedir(dir);
	return corpus->count > 0;
}

/* Values at which sizes and counts break. */
static uint64_t odd_number(uint64_t *random)
{
	static const uint64_t odd[] = {
		0,
		1,
		2,
		7,
		0x7f,
		0x80,
		0xff,
		0x100,
		0x7fff,
		0xffff,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		0x7fffffffffffffff,
		0x8000000000000000,
		UINT64_MAX - 7,
		UINT64_MAX,
	};
	return odd[next_random(random) % (sizeof odd / sizeof odd[0])];
}

static void mutate_once(struct shared *input, const struct corpus *corpus, uint64_t *random)
{
	if (!input->size)
		return;
	size_t at = next_random(random) % input->size;
	size_t left = input->size - at;
	uint64_t number = odd_number(random);
	size_t width = (size_t)1 << next_random(random) % 4;
	const struct text *other = &corpus->seeds[next_random(random) % corpus->count];
	switch (next_random(random) % 7) {
	case 0:
		input->data[at] ^= (uint8_t)(1u << next_random(random) % 8);
		break;
	case 1:
		input->data[at] = (uint8_t)next_random(random);
		break;
	case 2: /* a size, an offset, a count */
		memcpy(input->data + at, &number, width < left ? width : left);
		break;
	case 3: /* cut off */
		if (next_random(random) % 8 == 0)
			input->size = at;
		break;
	case 4: { /* repeat a part elsewhere */
		size_t from = next_random(random) % input->size;
		size_t bytes = next_random(random) % 64;
		size_t room = input->size - (from > at ? from : at);
		memmove(input->data + at, input->data + from, bytes < room ? bytes : room);
		break;
	}
	case 5: /* a part of another seed */
		if (other->length > at)
			memcpy(input->data + at, other->data + at,
			       left < other->length - at ? left % 256 : (other->length - at) % 256);
		break;
	case 6: { /* take a part out */
		size_t bytes = next_random(random) % 64;
		bytes = bytes < left ? bytes : left;
		memmove(input->data + at, input->data + at + bytes, left - bytes);
		input->size -= bytes;
		break;
	}
	}
}

static void run_one(struct shared *input)
{
	alarm(HANG_SECONDS);
	LLVMFuzzerTestOneInput(input->data, input->size);
	input->runs++;
}

static void run_all(struct shared *input, const struct corpus *corpus, uint64_t seconds,
		    uint64_t random)
{
	for (size_t i = 0; i < corpus->count; i++) {
		input->size = corpus->seeds[i].length;
		memcpy(input->data, text_string(&corpus->seeds[i]), input->size);
		run_one(input);
	}
	uint64_t end_ns = clock_steady_ns() + seconds * 1000000000u;
	while (clock_steady_ns() < end_ns) {
		const struct text *seed = &corpus->seeds[next_random(&random) % corpus->count];
		input->size = seed->length;
		memcpy(input->data, text_string(seed), input->size);
		for (uint64_t i = next_random(&random) % 8 + 1; i > 0; i--)
			mutate_once(input, corpus, &random);
		run_one(input);
	}
}

static void save(const struct shared *input)
{
	char path[] = "fuzz-crash-XXXXXX";
	int fd = mkstemp(path);
	if (fd >= 0 && !io_write(fd, input->data, input->size))
		printf("# the input is in %s\n", path);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	static struct corpus corpus;
	if (argc < 3 || !load_corpus(&corpus, argv[2])) {
		fprintf(stderr, "usage: %s SECONDS CORPUS-FOLDER [SEED]\n", argv[0]);
		return 2;
	}
	uint64_t seconds = strtoull(argv[1], NULL, 10);
	uint64_t random = argc > 3 ? strtoull(argv[3], NULL, 10) | 1 : 88172645463325252u;
	struct shared *input = mmap(NULL, sizeof *input, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (input == MAP_FAILED)
		return 1;
	printf("1..1\n");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		run_all(input, &corpus, seconds, random);
		_exit(0);
	}
	int status = -1;
	waitpid(child, &status, 0);
	printf("# %llu inputs\n", (unsigned long long)input->runs);
	bool ok = child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (!ok) {
		printf("# status %#x (signal %d means a hang)\n", (unsigned)status, SIGALRM);
		save(input);
	}
	printf("%sok 1 - hostile input is refused, not fatal\n", ok ? "" : "not ");
	return ok ? 0 : 1;
}
