/* SPDX-License-Identifier: Apache-2.0 */
#include "import_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/io.h"
#include "base/memory.h"
#include "harness/tap.h"
#include "model/verify.h"
#include "trace/verify.h"

static int complain(void *ctx, const struct trace_problem *problem)
{
	(void)ctx;
	tap_note("%s", problem->text);
	return 0;
}

static void check_sound(struct imported *made)
{
	const struct trace_check check = {.problem = complain};
	struct model_verified done;
	CHECK_EQ_I64(trace_verify(made->reader, &check, &made->err), 0);
	CHECK_EQ_I64(model_verify(made->reader, 0, &check, &done, &made->err), 0);
}

static void open_result(struct imported *made)
{
	REQUIRE(trace_reader_open(made->out_path, &made->reader, &made->err) == 0);
	CHECK(trace_reader_warning(made->reader) == NULL);
	CHECK_EQ_U64(trace_reader_section_count(made->reader), 1);
	check_sound(made);
	REQUIRE(query_open(made->reader, NULL, &made->query, &made->err) == 0);
	CHECK(!query_rebuilt(made->query));
	REQUIRE(view_input_read(made->reader, &made->input, &made->err) == 0);
	made->input.model = query_model(made->query);
	made->input.no_lookup = true;
	model_totals(made->input.model, &made->totals);
	REQUIRE(view_data_new(&made->input, &made->data, &made->err) == 0);
}

void imported_init(struct imported *made, const void *bytes, size_t length)
{
	*made = (struct imported){.in_path = "/tmp/tidemark-test-import-XXXXXX",
				  .out_path = "/tmp/tidemark-test-import-XXXXXX"};
	int in_fd = mkstemp(made->in_path), out_fd = mkstemp(made->out_path);
	REQUIRE(in_fd >= 0 && out_fd >= 0);
	REQUIRE(io_write(in_fd, bytes, length) == 0);
	const struct import_options options = {.name = "test"};
	made->code = import_run(in_fd, out_fd, &options, &made->result, &made->err);
	close(in_fd);
	if (!made->code)
		open_result(made);
}

void imported_text(struct imported *made, const char *text)
{
	imported_init(made, text, strlen(text));
}

void imported_gzip(struct imported *made, const void *bytes, size_t length)
{
	z_stream z = {0};
	REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	size_t room = length + 1024;
	unsigned char *packed = tm_alloc(room);
	REQUIRE(packed != NULL);
	z.next_in = (Bytef *)(uintptr_t)bytes;
	z.avail_in = (uInt)length;
	z.next_out = packed;
	z.avail_out = (uInt)room;
	REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
	imported_init(made, packed, room - z.avail_out);
	deflateEnd(&z);
	tm_free(packed);
}

void imported_zstd(struct imported *made, const void *bytes, size_t length)
{
	size_t room = ZSTD_compressBound(length);
	char *packed = tm_alloc(room);
	REQUIRE(packed != NULL);
	size_t used = ZSTD_compress(packed, room, bytes, length, 3);
	REQUIRE(!ZSTD_isError(used));
	imported_init(made, packed, used);
	tm_free(packed);
}

void imported_done(struct imported *made)
{
	view_data_free(made->data);
	query_close(made->query);
	trace_reader_close(made->reader);
	unlink(made->in_path);
	unlink(made->out_path);
}

static bool reads(const struct view_data *data, uint32_t stack, const char *wanted)
{
	const struct view_frame *frame;
	while ((frame = view_next_frame(data, &stack))) {
		const char *name = frame->function ? frame->function : "?";
		size_t length = strlen(name);
		if (strncmp(wanted, name, length) != 0)
			return false;
		wanted += length;
		if (*wanted == ';')
			wanted++;
		else if (*wanted)
			return false;
	}
	return !*wanted;
}

struct view_figures imported_figures(const struct imported *made, const char *stack)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(made->data, &count);
	for (size_t i = 0; i < count; i++)
		if (reads(made->data, rows[i].stack, stack))
			return rows[i].figures;
	tap_note("there is no stack '%s'", stack);
	return (struct view_figures){0};
}

bool imported_says(const struct imported *made, const char *text)
{
	const char *facts = made->input.end->facts;
	bool said = facts && strstr(facts, text);
	if (!said)
		tap_note("the facts are: %s", facts ? facts : "none");
	return said;
}

void imported_without_memory(const void *bytes, size_t length)
{
	enum { MOST = 3000 };
	char in_path[] = "/tmp/tidemark-test-import-XXXXXX";
	int in_fd = mkstemp(in_path), code = -1;
	const struct import_options options = {.name = "test"};
	REQUIRE(in_fd >= 0 && io_write(in_fd, bytes, length) == 0);
	unlink(in_path);
	for (long n = 0; n < MOST && code; n++) {
		char out_path[] = "/tmp/tidemark-test-import-XXXXXX";
		int out_fd = mkstemp(out_path);
		struct tm_error err = {0};
		struct import_result result;
		REQUIRE(out_fd >= 0);
		unlink(out_path);
		tm_alloc_fail_at(n);
		code = import_run(in_fd, out_fd, &options, &result, &err);
		tm_alloc_fail_at(-1);
		CHECK(!code || err.text[0]);
	}
	CHECK_EQ_I64(code, 0);
	close(in_fd);
}

void imported_refused(struct imported *made)
{
	CHECK(made->code < 0);
	CHECK(made->code == 0 || made->err.text[0]);
	imported_done(made);
}
