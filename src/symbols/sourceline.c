/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/sourceline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"

enum { FILE_BYTES_MAX = 16 << 20, LINE_BYTES_MAX = 1000 };

struct place {
	const char *file;
	uint32_t line;
};

static int by_file_and_line(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = strcmp(x->file, y->file);
	return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* The whole file, or NULL. */
static char *load(int fd, size_t *ret_bytes)
{
	struct stat facts;
	if (fstat(fd, &facts) || !S_ISREG(facts.st_mode) || facts.st_size > FILE_BYTES_MAX)
		return NULL;
	char *data = tm_alloc((size_t)facts.st_size + 1);
	if (data && io_pread(fd, data, (size_t)facts.st_size, 0, ret_bytes))
		data = tm_free(data);
	return data;
}

/* Lines of one file, in order. */
static int tell_lines(const struct place *places, size_t count, const char *data, size_t bytes,
		      sourceline_found_fn found, void *ctx)
{
	const char *at = data, *end = data + bytes;
	uint32_t number = 1;
	int code = 0;
	for (size_t i = 0; i < count && !code; i++) {
		if (i && places[i].line == places[i - 1].line)
			continue;
		while (at < end && number < places[i].line) {
			const char *stop = memchr(at, '\n', (size_t)(end - at));
			at = stop ? stop + 1 : end;
			number++;
		}
		if (at >= end)
			break;
		char text[LINE_BYTES_MAX + 1];
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((stop ? stop : end) - at);
		if (length && at[length - 1] == '\r')
			length--;
		length = length < LINE_BYTES_MAX ? length : LINE_BYTES_MAX;
		memcpy(text, at, length);
		text[length] = '\0';
		code = found(ctx, &(struct trace_source_line){.file = places[i].file,
							      .line = places[i].line,
							      .text = text});
	}
	return code;
}

static int tell_file(const struct place *places, size_t count, sourceline_open_fn open,
		     sourceline_found_fn found, void *ctx)
{
	int fd = open(ctx, places[0].file);
	if (fd < 0)
		return 0;
	size_t bytes = 0;
	char *data = load(fd, &bytes);
	close(fd);
	int code = data ? tell_lines(places, count, data, bytes, found, ctx) : 0;
	tm_free(data);
	return code;
}

int sourceline_read(const struct trace_symbol *symbols, size_t count, sourceline_open_fn open,
		    sourceline_found_fn found, void *ctx)
{
	struct place *places = tm_alloc_array(count + 1, sizeof *places);
	if (!places)
		return -ENOMEM;
	size_t used = 0;
	for (size_t i = 0; i < count; i++)
		if (symbols[i].file && symbols[i].file[0] == '/' && symbols[i].line)
			places[used++] = (struct place){symbols[i].file, symbols[i].line};
	qsort(places, used, sizeof *places, by_file_and_line);
	int code = 0;
	for (size_t from = 0, end; from < used && !code; from = end) {
		for (end = from + 1; end < used && !strcmp(places[end].file, places[from].file);)
			end++;
		code = tell_file(places + from, end - from, open, found, ctx);
	}
	tm_free(places);
	return code;
}
