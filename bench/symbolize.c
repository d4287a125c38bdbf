/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the addresses of one ELF file, as addr2line -i -f -C -a does: for each
 * address a line with it, then two lines per frame. What bench/symbols compares
 * and measures; the work is what a trace's addresses go through.
 *
 *	bench_symbolize [-q] FILE < hexadecimal addresses, sorted
 *
 * -q prints only how many frames there are: a trace keeps each name once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "symbols/symbols.h"

static void warn(void *ctx, const char *sentence)
{
	(void)ctx;
	fprintf(stderr, "%s\n", sentence);
}

static size_t read_addresses(struct symbols_request **ret_requests)
{
	struct symbols_request *requests = NULL;
	size_t count = 0, room = 0;
	uint64_t address;
	while (scanf("%" SCNx64, &address) == 1) {
		if (count == room) {
			room = room * 2 + 1024;
			requests = tm_grow_array(requests, room, sizeof *requests);
			if (!requests)
				exit(1);
		}
		requests[count++] = (struct symbols_request){.module_id = 1, .address = address};
	}
	*ret_requests = requests;
	return count;
}

static void print_line(uint32_t line)
{
	char digits[16];
	size_t at = sizeof digits;
	do
		digits[--at] = (char)('0' + line % 10);
	while ((line /= 10) > 0);
	putc_unlocked(':', stdout);
	fwrite_unlocked(digits + at, 1, sizeof digits - at, stdout);
	putc_unlocked('\n', stdout);
}

static void print_all(const struct symbols_request *requests, size_t count,
		      const struct symbols_result *result)
{
	size_t at = 0;
	for (size_t i = 0; i < count; i++) {
		printf("0x%016" PRIx64 "\n", requests[i].address);
		if (at == result->count || result->symbols[at].address != requests[i].address)
			printf("??\n??:0\n");
		for (; at < result->count && result->symbols[at].address == requests[i].address;
		     at++) {
			const struct trace_symbol *symbol = &result->symbols[at];
			if (symbol->inlined == TRACE_INLINED_CALLEE)
				continue; /* the peers do not tell whom a call is to */
			fputs_unlocked(symbol->function, stdout);
			putc_unlocked('\n', stdout);
			fputs_unlocked(symbol->file ? symbol->file : "??", stdout);
			print_line(symbol->line);
		}
	}
}

int main(int argc, char **argv)
{
	bool quiet = argc == 3 && !strcmp(argv[1], "-q");
	if (argc != (quiet ? 3 : 2)) {
		fprintf(stderr, "usage: bench_symbolize [-q] FILE <ADDRESSES\n");
		return 2;
	}
	struct symbols_options options = {
		.warn = warn,
		.lines_budget_ns = 600000000000,
	};
	struct trace_module modules[2] = {{0}, {.module_id = 1, .path = argv[argc - 1]}};
	struct symbols_request *requests;
	struct symbols_result result;
	struct symbols *symbols;
	struct tm_error err;
	size_t count = read_addresses(&requests);
	if (symbols_new(&options, &symbols, &err) ||
	    symbols_resolve(symbols, modules, 2, requests, count, &result, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	if (quiet)
		printf("%zu frames, %zu addresses without\n", result.count, result.unnamed);
	else
		print_all(requests, count, &result);
	tm_free(result.symbols);
	tm_free(requests);
	symbols_free(symbols);
	return 0;
}
