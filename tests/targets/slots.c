/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that calls an allocator by its own names, so that slots of its GOT
 * are changed, and then functions that the loader has not bound yet. Prints what
 * may be done to the pages of its own file: as without us.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *mi_malloc(size_t bytes);
void mi_free(void *block);

static void print_maps(const char *program)
{
	static char line[4096];
	FILE *maps = fopen("/proc/self/maps", "re");
	size_t bytes = strlen(program);
	while (maps && fgets(line, sizeof line, maps)) {
		size_t end = strcspn(line, "\n");
		if (end > bytes && !strncmp(line + end - bytes, program, bytes))
			printf("%.4s\n", strchr(line, ' ') + 1);
	}
}

int main(int argc, char **argv)
{
	void *block = mi_malloc(100);
	struct tm date;
	time_t start = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	print_maps(argc ? argv[0] : "");
	gmtime_r(&start, &date);
	printf("%s %d %d\n", block ? "block" : "none", date.tm_year, abs(atoi("-3")));
	mi_free(block);
	return 0;
}
